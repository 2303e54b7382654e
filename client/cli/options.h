#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>

#include "client/cli/bench_options.h"
#include "client/cli/explain_steps.h"

namespace attention::cli {

// What `attend` and `explain` send. Tensors are FILE, FILE:TENSOR or literals as the help text says; "" = left out.
struct InputOptions {
  std::string weight_set;
  std::string inputs_q, inputs_k, inputs_v, mask;
  std::string request_id;
  int32_t priority = 0;
};

struct AttendOptions {
  InputOptions inputs;
  std::string output;        // where to write it; "" = print it
  std::string attn_weights;  // where to write them; "" = do not ask for them
};

struct ExplainOptions {
  InputOptions inputs;
  bool public_question = false;  // instead of inputs
  ExplainSettings settings;
};

struct ListOptions {
  bool json = false;
};
struct ShowOptions {
  std::string name;
  bool json = false;
};
struct LoadOptions {
  std::string checkpoint;
};
struct UnloadOptions {
  std::string name;
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
};

using CommandOptions = std::variant<AttendOptions, ExplainOptions, ListOptions, ShowOptions, LoadOptions, UnloadOptions,
                                    MakeDemoOptions, HealthOptions, BenchOptions>;

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
