#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using attention::server::CheckpointFormat;
  const auto file = attention::fuzz::Bytes(data, size);
  const auto map = attention::server::ParseCheckpoint(CheckpointFormat::kMsgpack, file);
  if (map.ok()) attention::fuzz::CheckTensors(*map);
  attention::fuzz::CheckArrival(CheckpointFormat::kMsgpack, file);
  return 0;
}
