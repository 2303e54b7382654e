#include "server/checkpoint/formats/npy.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto map = attention::server::ParseNpy(attention::fuzz::Bytes(data, size));
  if (map.ok()) attention::fuzz::CheckTensors(*map);
  return 0;
}
