#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "attention/v1/weights.pb.h"
#include "server/weights/registry.h"
#include "server/weights/upload.h"

namespace attention::server {

// What the server holds, as messages. Fill empty ones.
void FillInfo(const ServedWeightSet& served, v1::WeightSetInfo* info);
void FillLoaded(const Published& published, v1::LoadCheckpointResponse* response);

// The last weight set of a page. A list goes on behind it, whatever came and went meanwhile: nothing is kept between
// two pages.
struct PageEnd {
  std::string name;
  int64_t version = 0;
};

std::string MakePageToken(const PageEnd& end);

// INVALID_ARGUMENT for a text that MakePageToken does not make.
absl::StatusOr<PageEnd> ParsePageToken(absl::string_view token);

}  // namespace attention::server
