#include "client/cli/attend/input_flags.h"

#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace attention::cli {
namespace {

constexpr char kTensorHelp[] =
    "Tensors come from FILE.safetensors:TENSOR, FILE.safetensors (the tensor named as the option, or the only one),\n"
    "FILE.npy, or are written out: '[[[1, 1, 1], [1, 1, 1]]]'.\n"
    "The diagonal of --causal and --window-at has query i opposite key i + offset: top-left is offset 0, bottom-right\n"
    "has the last query opposite the last key of each sequence, a number is the offset itself.";

// Every option that says what is computed, but --compute-dtype.
constexpr const char* kComputation[] = {
    "weight_set",  "--version",       "--alias",      "--inputs-q",     "--inputs-k",  "--inputs-v",
    "--bias",      "--mask",          "--causal",     "--window",       "--window-at", "--kv-lengths",
    "--q-lengths", "--q-segment-ids", "--num-heads",  "--num-kv-heads", "--axes",      "--kv-segment-ids",
    "--scale",     "--softcap",       "--empty-rows", "--output-dtype"};

template <typename T>
struct Choice {
  const char* name;
  T value;
};

constexpr Choice<HeadAxes> kAxes[] = {{"length-features", HeadAxes::kLengthFeatures},
                                      {"length-heads", HeadAxes::kLengthHeads},
                                      {"heads-length", HeadAxes::kHeadsLength}};
constexpr Choice<EmptyRows> kEmptyRows[] = {
    {"uniform", EmptyRows::kUniform}, {"zero", EmptyRows::kZero}, {"error", EmptyRows::kError}};
constexpr Choice<DataType> kComputeTypes[] = {{"float32", DataType::kFloat32}, {"bfloat16", DataType::kBFloat16}};
constexpr Choice<DataType> kOutputTypes[] = {{"float32", DataType::kFloat32},
                                             {"bfloat16", DataType::kBFloat16},
                                             {"float16", DataType::kFloat16},
                                             {"float64", DataType::kFloat64}};

[[noreturn]] void Wanted(const std::string& flag, const std::string& wanted, const std::string& found) {
  throw CLI::ValidationError(flag, absl::StrCat("wanted ", wanted, ", found ", found));
}

// An option that takes one of some words and hands on what the word stands for.
template <typename T, size_t size, typename Take>
CLI::Option* AddChoice(CLI::App& command, const std::string& flag, const Choice<T> (&choices)[size], Take take,
                       const std::string& help) {
  std::string names;
  for (const Choice<T>& choice : choices) absl::StrAppend(&names, names.empty() ? "" : "|", choice.name);
  const auto parse = [flag, names, &choices, take](const std::string& word) {
    for (const Choice<T>& choice : choices) {
      if (word == choice.name) return take(choice.value);
    }
    Wanted(flag, names, word);
  };
  return command.add_option_function<std::string>(flag, parse, help)->type_name(names);
}

template <typename Take>
CLI::Option* AddDiagonal(CLI::App& command, const std::string& flag, Take take, const std::string& help) {
  const std::string wanted = "top-left|bottom-right|N";
  const auto parse = [flag, wanted, take](const std::string& word) {
    int64_t offset = 0;
    if (word == "top-left") return take(Corner::kTopLeft);
    if (word == "bottom-right") return take(Corner::kBottomRight);
    if (!absl::SimpleAtoi(word, &offset)) Wanted(flag, wanted, word);
    take(offset);
  };
  return command.add_option_function<std::string>(flag, parse, help)->type_name(wanted);
}

// Several options fill one struct, in any order.
template <typename T>
T& Emplaced(std::optional<T>& value) {
  return value ? *value : value.emplace();
}

void AddWindow(CLI::App& command, std::optional<SlidingWindow>& window) {
  const std::string flag = "--window", wanted = "LEFT,RIGHT";
  const auto parse = [&window, flag, wanted](const std::string& text) {
    const std::pair<std::string, std::string> sides = absl::StrSplit(text, absl::MaxSplits(',', 1));
    SlidingWindow& parsed = Emplaced(window);
    const bool good = absl::SimpleAtoi(sides.first, &parsed.left) && absl::SimpleAtoi(sides.second, &parsed.right);
    if (!good) Wanted(flag, wanted, text);
  };
  CLI::Option* sides = command.add_option_function<std::string>(
      flag, parse, "A query sees so many keys before and behind the one opposite it; -1: all of them");
  CLI::Option* at = AddDiagonal(
      command, "--window-at", [&window](Diagonal diagonal) { Emplaced(window).diagonal = diagonal; },
      "Diagonal of --window");
  sides->type_name(wanted)->needs(at);
  at->needs(sides);
}

void AddMask(CLI::App& command, InputOptions& inputs) {
  command.add_option("--mask", inputs.mask, "true = attend; broadcast to [batch..., num_heads, q_length, kv_length]");
  AddDiagonal(
      command, "--causal", [&inputs](Diagonal diagonal) { inputs.causal = diagonal; },
      "A query sees no key behind the diagonal");
  AddWindow(command, inputs.window);
  const auto lengths = [&command](const char* flag, std::vector<int64_t>& values, const char* help) {
    command.add_option(flag, values, help)->delimiter(',')->allow_extra_args(false)->type_name("N,N");
  };
  lengths("--kv-lengths", inputs.kv_lengths, "Keys of each sequence; those behind are hidden");
  lengths("--q-lengths", inputs.q_lengths, "Queries of each sequence; those behind are not computed");
  command.add_option("--q-segment-ids", inputs.q_segment_ids, "A query sees the keys of its own segment");
  command.add_option("--kv-segment-ids", inputs.kv_segment_ids, "Default for self-attention: --q-segment-ids");
}

void AddHeads(CLI::App& command, std::optional<HeadLayout>& heads) {
  const CLI::Validator positive = CLI::Range(int64_t{1}, int64_t{1} << 40).description("");
  CLI::Option* num_heads = command.add_option_function<int64_t>(
      "--num-heads", [&heads](int64_t count) { Emplaced(heads).num_heads = count; },
      "Attention without projections: heads of inputs_q, instead of a weight set");
  CLI::Option* num_kv_heads = command.add_option_function<int64_t>(
      "--num-kv-heads", [&heads](int64_t count) { Emplaced(heads).num_kv_heads = count; },
      "Heads of inputs_k and inputs_v; default: --num-heads");
  CLI::Option* axes = AddChoice(
      command, "--axes", kAxes, [&heads](HeadAxes value) { Emplaced(heads).axes = value; },
      "Where the heads stand in inputs and output");
  num_heads->check(positive)->needs(axes);
  for (const char* other : {"weight_set", "--version", "--alias"}) num_heads->excludes(other);
  num_kv_heads->check(positive)->needs(num_heads);
  axes->needs(num_heads);
}

void AddArithmetic(CLI::App& command, InputOptions& inputs) {
  command.add_option("--scale", inputs.scale, "Factor of the query; default: 1/√head_dim");
  command.add_option("--softcap", inputs.softcap, "Bounds the scores to this size");
  AddChoice(
      command, "--empty-rows", kEmptyRows, [&inputs](EmptyRows value) { inputs.empty_rows = value; },
      "What becomes of a query that sees no key; default: uniform");
  AddChoice(
      command, "--compute-dtype", kComputeTypes, [&inputs](DataType value) { inputs.compute_dtype = value; },
      "Type of the numbers that are multiplied; default: float32");
  AddChoice(
      command, "--output-dtype", kOutputTypes, [&inputs](DataType value) { inputs.output_dtype = value; },
      "Default: that of inputs_q");
}

bool Given(const CLI::App& command, const char* name) { return command.get_option(name)->count() > 0; }

}  // namespace

void AddVersionFlags(CLI::App& command, VersionChoice& which) {
  CLI::Option* version =
      command.add_option("--version", which.version, "Version of the weight set; default: the highest");
  version->check(CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max()).description(""));
  command.add_option("--alias", which.alias, "The version that this alias names, stable for instance")
      ->excludes(version);
}

void AddInputFlags(CLI::App& command, InputOptions& inputs) {
  command.footer(kTensorHelp);
  command.add_option("weight_set", inputs.weight_set, "Name of the weight set; without one: --num-heads and --axes");
  AddVersionFlags(command, inputs.which);
  command.add_option("--inputs-q", inputs.inputs_q, "What asks: [batch..., q_length, in_features]");
  command.add_option("--inputs-k", inputs.inputs_k, "What is asked, as keys; default: inputs_q");
  command.add_option("--inputs-v", inputs.inputs_v, "What is asked, as values; default: inputs_k");
  command.add_option("--bias", inputs.bias, "Added to the scores, -inf hides; broadcast as --mask");
  AddMask(command, inputs);
  AddHeads(command, inputs.heads);
  AddArithmetic(command, inputs);
  command.add_option("--request-id", inputs.request_id, "Stands in the server's log");
  command.add_option("--priority", inputs.priority, "Higher ones leave the queue first")->capture_default_str();
}

void CheckInputFlags(const CLI::App& command, const std::string& instead) {
  if (!Given(command, "weight_set") && !Given(command, "--num-heads")) {
    throw CLI::RequiredError("weight_set or --num-heads" + instead);
  }
  if (!Given(command, "--inputs-q")) throw CLI::RequiredError("--inputs-q" + instead);
}

void CheckNoInputFlags(const CLI::App& command, const std::string& flag) {
  for (const char* name : kComputation) {
    if (Given(command, name)) throw CLI::ExcludesError(flag, name);
  }
}

}  // namespace attention::cli
