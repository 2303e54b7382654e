#pragma once

#include <string>
#include <vector>

#include "client/attention_client.h"

namespace attention::cli {

// One line a weight set; "no weight sets are loaded" for none.
std::string WeightSetsTable(const std::vector<WeightSetInfo>& weight_sets);

// All that is known of one weight set, and a line a parameter.
std::string WeightSetText(const WeightSetInfo& weight_set);

// The same as JSON: an object with the fields of attention.v1.WeightSetInfo, or a list of them.
std::string WeightSetJson(const WeightSetInfo& weight_set);
std::string WeightSetsJson(const std::vector<WeightSetInfo>& weight_sets);

// What was loaded: where it came from, its version, the weight sets, and what of the file was not used.
std::string LoadedText(const LoadedCheckpoint& loaded);

// "9.2 MiB"
std::string FormatBytes(int64_t bytes);

}  // namespace attention::cli
