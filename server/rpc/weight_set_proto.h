#pragma once

#include "attention/v1/weights.pb.h"
#include "server/weights/registry.h"
#include "server/weights/upload.h"

namespace attention::server {

// What the server holds, as messages. Fill empty ones.
void FillInfo(const ServedWeightSet& served, v1::WeightSetInfo* info);
void FillLoaded(const Published& published, v1::LoadCheckpointResponse* response);

}  // namespace attention::server
