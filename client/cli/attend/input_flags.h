#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/attention_client.h"

namespace attention::cli {

// What `attend` and `explain` send; AttendRequest and Mask document the meaning. Tensors are FILE, FILE:TENSOR or
// literals as the help text says; "" = left out.
struct InputOptions {
  std::string weight_set;
  VersionChoice which;  // of the weight set
  std::string inputs_q, inputs_k, inputs_v, bias;

  std::string mask;  // Mask::dense
  std::optional<Diagonal> causal;
  std::optional<SlidingWindow> window;
  std::vector<int64_t> kv_lengths, q_lengths;
  std::string q_segment_ids, kv_segment_ids;

  std::optional<HeadLayout> heads;
  std::optional<float> scale, softcap;
  EmptyRows empty_rows = EmptyRows::kUniform;
  std::optional<DataType> output_dtype, compute_dtype;
  std::string request_id;
  int32_t priority = 0;
};

// The options of a command that sends one request, filling `inputs` when they are parsed.
void AddInputFlags(CLI::App& command, InputOptions& inputs);

// --version and --alias, of which a command takes one.
void AddVersionFlags(CLI::App& command, VersionChoice& which);

// Throws CLI's error unless there is something to send: `inputs_q`, and a weight set or the layout of the heads.
// `instead` names what the command takes in their place, for instance " (or --public-question)".
void CheckInputFlags(const CLI::App& command, const std::string& instead);

// Throws CLI's error for an option of AddInputFlags that says what is computed, where `flag` says that already.
void CheckNoInputFlags(const CLI::App& command, const std::string& flag);

}  // namespace attention::cli
