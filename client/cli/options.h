#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/attention_client.h"
#include "client/cli/command_line.h"
#include "client/cli/text_format.h"

namespace attention::cli {

// The options of each command.

// The request that `attend` and `explain` send; AttendRequest and Mask document the fields. A tensor is FILE,
// FILE:TENSOR or a nested list, as the help text says; "" if it is left out.
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

struct AttendOptions {
  InputOptions inputs = {};
  int64_t top_k = 0;  // number of keys to print for each query and head, with their weights; 0 = none
  // Where to write the tensors, FILE or FILE:TENSOR. If "", the output is printed, and the others are not requested.
  std::string output = {}, attn_weights = {}, mean_attn_weights = {}, log_sum_exp = {};
};

struct ExplainOptions {
  InputOptions inputs = {};
  bool public_question = false;             // instead of `inputs`, of which only compute_dtype is used
  std::string heatmap = {};                 // the .png file to draw attn_weights into; "" = none
  int64_t sequence = 0, head = 0, row = 0;  // the query row that is calculated step by step
  PrintLimits limits = {};
};

struct ListOptions {
  std::string prefix;
  bool json = false;
};
struct ShowOptions {
  std::string name;
  VersionChoice which = {};
  bool json = false;
};
struct LoadOptions {
  std::string checkpoint;
  int64_t num_heads = 0;  // 0 = as the file says, here and below
  bool replace = false;   // also if weight sets go missing, here and below
};
struct UploadOptions {
  std::string file;
  std::string checkpoint = {};  // "" = the file's name without the extension
  int64_t num_heads = 0;
  bool replace = false;
};
struct UnloadOptions {
  std::string checkpoint;
};
struct DeleteOptions {
  std::string checkpoint;
  int64_t version = 0;  // 0 = all
};
struct AliasOptions {
  AliasChange change;
};
struct ConvertOptions {
  std::string in, out;
  int64_t num_heads = 0;
};
struct MakeDemoOptions {
  std::string directory;
};
struct HealthOptions {
  std::string service;
};

// One load test. Without `rate` it is a closed loop: `concurrency` calls are in flight, and the end of one starts the
// next. With `rate` it is an open loop: requests are due at fixed times, independent of the server, and their latency
// counts from then, so that a server which falls behind cannot hide it.
struct BenchOptions {
  std::string weight_set;
  VersionChoice which = {};

  double rate = 0;  // requests per second; 0 = closed loop

  // Closed loop: calls in flight, default 1. Open loop: the maximum of calls in flight, default 1000; a request that is
  // due meanwhile waits, and its latency includes the wait.
  std::optional<int64_t> concurrency;

  int connections = 1;  // used by the calls in turn

  // The shape of each request: inputs_q [batch, q_length, in_features]. With kv_length also inputs_k
  // [batch, kv_length, in_k_features] (and inputs_v if its width differs); without, self-attention.
  int64_t batch = 1;
  int64_t q_length = 16;
  std::optional<int64_t> kv_length;

  // Lengths are random, uniformly from 1 to q_length and from 1 to kv_length; the same ones on every run.
  bool random_lengths = false;

  // Requests that are sent during `warmup` are not counted; `duration` follows it. It ends earlier once `requests`
  // counted ones have been sent; 0 = no such limit.
  std::chrono::nanoseconds warmup = std::chrono::seconds(1);
  std::chrono::nanoseconds duration = std::chrono::seconds(5);
  int64_t requests = 0;

  // Instead of a load test: the parts of the time of one request, with one call in flight at a time.
  bool breakdown = false;

  bool json = false;

  int64_t in_flight() const { return concurrency.value_or(rate > 0 ? 1000 : 1); }
};

// For every command.
struct ServerOptions {
  std::string address = "127.0.0.1:50051";
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);  // of each call
  bool timeout_given = false;                                   // on the command line; if not, an upload has no timeout
};

using CommandOptions =
    std::variant<AttendOptions, ExplainOptions, ListOptions, ShowOptions, LoadOptions, UploadOptions, UnloadOptions,
                 DeleteOptions, AliasOptions, ConvertOptions, MakeDemoOptions, HealthOptions, BenchOptions>;

struct Options {
  ServerOptions server;
  CommandOptions command;
};

// Reads the command line, and ATTENTION_SERVER from the environment if --server is not given.
std::variant<Options, Usage> ParseOptions(int argc, const char* const* argv);

}  // namespace attention::cli
