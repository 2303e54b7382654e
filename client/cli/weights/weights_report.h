#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "client/attention_client.h"

namespace attention::cli {

// One line per weight set; "no weight sets are loaded" if the list is empty.
std::string WeightSetsTable(const std::vector<WeightSetInfo>& weight_sets);

// Everything about one weight set, with one line per parameter.
std::string WeightSetText(const WeightSetInfo& weight_set);

// As JSON: an object with the fields of attention.v1.WeightSetInfo, or a list of them.
std::string WeightSetJson(const WeightSetInfo& weight_set);
std::string WeightSetsJson(const std::vector<WeightSetInfo>& weight_sets);

// The checkpoint that was loaded: version, format, weight sets, tensors that are not used, and what the load removed.
std::string LoadedText(const LoadedCheckpoint& loaded);

// The versions and the files that were deleted.
std::string DeletedText(const std::string& checkpoint, const DeletedCheckpoint& deleted);

// "35 tensors belong to no attention layer: a, b, c, …, z"; "" if there are none.
std::string UnusedTensorsText(const std::vector<std::string>& names);

// "ocr  [=========>          ]  45 %  1.2 GiB of 2.6 GiB, 318.2 MiB/s", and after the last byte "…, the server loads
// it".
std::string UploadProgressText(const std::string& name, int64_t sent, int64_t total, std::chrono::nanoseconds elapsed);

}  // namespace attention::cli
