#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/checkpoint/tensor.h"

namespace attention::test {

// MessagePack, piece by piece: what these give can be put one after the other, and into each other.
std::string PackText(const std::string& text);
std::string PackNumber(int64_t number);
std::string PackNumber(double number);
std::string PackBool(bool value);
std::string PackBytes(const std::string& bytes);
std::string PackList(const std::vector<std::string>& packed_items);
std::string PackMap(const std::vector<std::pair<std::string, std::string>>& packed_values);  // keys are text
std::string PackExtension(int8_t type, const std::string& payload);

// flax's [shape, dtype, bytes].
std::string PackArrayPayload(const server::Shape& shape, const std::string& dtype, const std::string& bytes);

// An array as flax.serialization.to_bytes packs it.
std::string PackArray(const server::Shape& shape, const std::string& dtype, const std::string& bytes);

// The same in chunks of so many bytes, each of which is whole elements.
std::string PackChunkedArray(const server::Shape& shape, server::DType dtype, const std::string& bytes,
                             int64_t chunk_bytes);

}  // namespace attention::test
