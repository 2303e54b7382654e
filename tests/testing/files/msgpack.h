#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/checkpoint/tensor.h"

namespace attention::test {

// Packers of MessagePack values. The results can be concatenated and nested.
std::string PackText(const std::string& text);
std::string PackNumber(int64_t number);
std::string PackNumber(double number);
std::string PackBool(bool value);
std::string PackBytes(const std::string& bytes);
std::string PackList(const std::vector<std::string>& packed_items);
std::string PackMap(const std::vector<std::pair<std::string, std::string>>& packed_values);  // keys are text
std::string PackExtension(int8_t type, const std::string& payload);

// The payload [shape, dtype, bytes] of a flax extension.
std::string PackArrayPayload(const server::Shape& shape, const std::string& dtype, const std::string& bytes);

// An array as written by flax.serialization.to_bytes.
std::string PackArray(const server::Shape& shape, const std::string& dtype, const std::string& bytes);

// An array in chunks of `chunk_bytes`, which must be a multiple of the element size.
std::string PackChunkedArray(const server::Shape& shape, server::DType dtype, const std::string& bytes,
                             int64_t chunk_bytes);

}  // namespace attention::test
