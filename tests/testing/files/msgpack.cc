#include "tests/testing/files/msgpack.h"

#include <msgpack.hpp>

namespace attention::test {
namespace {

template <typename Action>
std::string Packed(const Action& action) {
  msgpack::sbuffer buffer;
  msgpack::packer<msgpack::sbuffer> packer(buffer);
  action(packer);
  return {buffer.data(), buffer.size()};
}

std::string PackNumbered(const std::vector<std::string>& packed_values) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (size_t i = 0; i < packed_values.size(); ++i) entries.emplace_back(std::to_string(i), packed_values[i]);
  return PackMap(entries);
}

}  // namespace

std::string PackText(const std::string& text) {
  return Packed([&](auto& packer) { packer.pack(text); });
}

std::string PackNumber(int64_t number) {
  return Packed([&](auto& packer) { packer.pack(number); });
}

std::string PackNumber(double number) {
  return Packed([&](auto& packer) { packer.pack(number); });
}

std::string PackBool(bool value) {
  return Packed([&](auto& packer) { packer.pack(value); });
}

std::string PackBytes(const std::string& bytes) {
  return Packed([&](auto& packer) {
    packer.pack_bin(static_cast<uint32_t>(bytes.size()));
    packer.pack_bin_body(bytes.data(), static_cast<uint32_t>(bytes.size()));
  });
}

std::string PackList(const std::vector<std::string>& packed_items) {
  std::string result = Packed([&](auto& packer) { packer.pack_array(static_cast<uint32_t>(packed_items.size())); });
  for (const std::string& item : packed_items) result += item;
  return result;
}

std::string PackMap(const std::vector<std::pair<std::string, std::string>>& packed_values) {
  std::string result = Packed([&](auto& packer) { packer.pack_map(static_cast<uint32_t>(packed_values.size())); });
  for (const auto& [key, value] : packed_values) result += PackText(key) + value;
  return result;
}

std::string PackExtension(int8_t type, const std::string& payload) {
  return Packed([&](auto& packer) {
    packer.pack_ext(payload.size(), type);
    packer.pack_ext_body(payload.data(), static_cast<uint32_t>(payload.size()));
  });
}

std::string PackArrayPayload(const server::Shape& shape, const std::string& dtype, const std::string& bytes) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(PackNumber(size));
  return PackList({PackList(sizes), PackText(dtype), PackBytes(bytes)});
}

std::string PackArray(const server::Shape& shape, const std::string& dtype, const std::string& bytes) {
  return PackExtension(1, PackArrayPayload(shape, dtype, bytes));
}

std::string PackChunkedArray(const server::Shape& shape, server::DType dtype, const std::string& bytes,
                             int64_t chunk_bytes) {
  std::vector<std::string> sizes, chunks;
  for (const int64_t size : shape) sizes.push_back(PackNumber(size));
  for (size_t at = 0; at < bytes.size(); at += chunk_bytes) {
    const std::string chunk = bytes.substr(at, chunk_bytes);
    const auto elements = static_cast<int64_t>(chunk.size()) / server::DTypeSize(dtype);
    chunks.push_back(PackArray({elements}, std::string(server::DTypeName(dtype)), chunk));
  }
  return PackMap({{"__msgpack_chunked_array__", PackBool(true)},
                  {"shape", PackNumbered(sizes)},
                  {"chunks", PackNumbered(chunks)}});
}

}  // namespace attention::test
