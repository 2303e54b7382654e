#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>

#include "client/cli/attend/input_flags.h"
#include "client/cli/bench/bench_inputs.h"
#include "client/cli/explain/explain_steps.h"

namespace attention::cli {

struct AttendOptions {
  InputOptions inputs = {};
  int64_t top_k = 0;  // print the indices of so many keys of each query and head, and their weights
  // Where to write them, FILE or FILE:TENSOR. The output is printed if this is ""; the others are not asked for then.
  std::string output = {}, attn_weights = {}, mean_attn_weights = {}, log_sum_exp = {};
};

struct ExplainOptions {
  InputOptions inputs = {};
  bool public_question = false;  // instead of inputs, of which only the compute_dtype holds then
  std::string heatmap = {};      // the .png into which attn_weights are drawn; "" = none
  ExplainSettings settings = {};
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
  int64_t num_heads = 0;
};
struct UploadOptions {
  std::string file;
  std::string checkpoint = {};  // "" = the file's name without the extension
  int64_t num_heads = 0;
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

// Holds for every command.
struct ServerOptions {
  std::string address = "127.0.0.1:50051";
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);  // of each call
  bool timeout_given = false;  // on the line; without it an upload may take as long as it takes
};

using CommandOptions =
    std::variant<AttendOptions, ExplainOptions, ListOptions, ShowOptions, LoadOptions, UploadOptions, UnloadOptions,
                 DeleteOptions, AliasOptions, ConvertOptions, MakeDemoOptions, HealthOptions, BenchOptions>;

struct Options {
  ServerOptions server;
  CommandOptions command;
};

// Nothing to run: help was asked for (exit code 0), or the command line is wrong (2).
struct Usage {
  int exit_code = 0;
  std::string text;
};

inline constexpr int kUsageError = 2;

// Reads the command line, and ATTENTION_SERVER from the environment where --server is not on it.
std::variant<Options, Usage> ParseOptions(int argc, const char* const* argv);

}  // namespace attention::cli
