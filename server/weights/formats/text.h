#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "server/weights/formats/tensor_map.h"

namespace attention::server {

// True for an ASCII control character anywhere in the text.
bool HasControlCharacter(absl::string_view text);

// True if the text is UTF-8 as Unicode has it: shortest forms, no surrogates.
bool IsUtf8(absl::string_view text);

// The only element of a tensor: "true", "-12", "0.1", with as many digits as tell it from its neighbours.
// REQUIRES: the tensor has one element.
std::string NumberText(const NamedTensor& scalar);

// The same of a number that stands by itself.
std::string NumberText(double number);

}  // namespace attention::server
