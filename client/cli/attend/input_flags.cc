#include "client/cli/attend/input_flags.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace attention::cli {
namespace {

constexpr char kTensorHelp[] =
    "A TENSOR is FILE.safetensors:NAME, FILE.safetensors (the tensor named like the option, or the only one),\n"
    "FILE.npy, or a nested list: '[[[1, 1, 1], [1, 1, 1]]]'.\n"
    "A DIAGONAL aligns query i with key i + offset: top-left is offset 0, bottom-right aligns the last query with the\n"
    "last key of each sequence, an integer is the offset itself.";

// Every argument that selects what is computed, except --compute-dtype.
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

// An option that takes one of several words; `set` gets the value of the word.
template <typename T, size_t size, typename Set>
Argument AddChoice(Command command, const std::string& name, const std::string& help, const Choice<T> (&choices)[size],
                   Set set) {
  std::string words;
  for (const Choice<T>& choice : choices) absl::StrAppend(&words, words.empty() ? "" : "|", choice.name);
  return command.Add(name, words, help, words, [&choices, set](const std::string& word) {
    for (const Choice<T>& choice : choices) {
      if (word != choice.name) continue;
      set(choice.value);
      return true;
    }
    return false;
  });
}

template <typename Set>
Argument AddDiagonal(Command command, const std::string& name, const std::string& help, Set set) {
  return command.Add(name, "DIAGONAL", help, "top-left, bottom-right or an integer", [set](const std::string& word) {
    int64_t offset = 0;
    if (word == "top-left") {
      set(Corner::kTopLeft);
    } else if (word == "bottom-right") {
      set(Corner::kBottomRight);
    } else if (absl::SimpleAtoi(word, &offset)) {
      set(offset);
    } else {
      return false;
    }
    return true;
  });
}

// Several options fill one struct, in any order.
template <typename T>
T& ValueOrNew(std::optional<T>& value) {
  return value ? *value : value.emplace();
}

void AddWindow(Command command, std::optional<SlidingWindow>& window) {
  const std::string help = "Each query sees this many keys before and after its diagonal; -1: all of them";
  const auto parse = [&window](const std::string& text) {
    const std::pair<std::string, std::string> sides = absl::StrSplit(text, absl::MaxSplits(',', 1));
    SlidingWindow& parsed = ValueOrNew(window);
    return absl::SimpleAtoi(sides.first, &parsed.left) && absl::SimpleAtoi(sides.second, &parsed.right);
  };
  const Argument sides = command.Add("--window", "LEFT,RIGHT", help, "LEFT,RIGHT", parse);
  const Argument diagonal = AddDiagonal(command, "--window-at", "Diagonal of --window",
                                        [&window](Diagonal value) { ValueOrNew(window).diagonal = value; });
  sides.Needs(diagonal);
  diagonal.Needs(sides);
}

void AddLengths(Command command, const std::string& name, const std::string& help, std::vector<int64_t>& lengths) {
  command.Add(name, "N,N", help, "integers separated by commas", [&lengths](const std::string& text) {
    for (absl::string_view part : absl::StrSplit(text, ',')) {
      if (!absl::SimpleAtoi(part, &lengths.emplace_back())) return false;
    }
    return true;
  });
}

void AddMask(Command command, InputOptions& inputs) {
  command.AddText("--mask", "TENSOR", "true = attend; broadcast to [batch..., num_heads, q_length, kv_length]",
                  inputs.mask);
  AddDiagonal(command, "--causal", "Each query sees the keys up to this diagonal",
              [&inputs](Diagonal diagonal) { inputs.causal = diagonal; });
  AddWindow(command, inputs.window);
  AddLengths(command, "--kv-lengths", "Number of keys of each sequence; the keys after them are hidden",
             inputs.kv_lengths);
  AddLengths(command, "--q-lengths", "Number of queries of each sequence; the rows after them are not computed",
             inputs.q_lengths);
  command.AddText("--q-segment-ids", "TENSOR", "Each query sees only keys with its segment id", inputs.q_segment_ids);
  command.AddText("--kv-segment-ids", "TENSOR", "Segment ids of the keys; default for self-attention: --q-segment-ids",
                  inputs.kv_segment_ids);
}

void AddHeads(Command command, std::optional<HeadLayout>& heads) {
  const auto count = [](int64_t HeadLayout::*member, std::optional<HeadLayout>& layout) {
    return [member, &layout](int64_t value) { ValueOrNew(layout).*member = value; };
  };
  const Argument num_heads =
      command.AddInteger("--num-heads", "Attention without projections, instead of a weight set: heads of inputs_q",
                         {.least = 1}, count(&HeadLayout::num_heads, heads));
  const Argument num_kv_heads =
      command.AddInteger("--num-kv-heads", "Heads of inputs_k and inputs_v; default: --num-heads", {.least = 1},
                         count(&HeadLayout::num_kv_heads, heads));
  const Argument axes = AddChoice(command, "--axes", "Axes of the heads in inputs and output", kAxes,
                                  [&heads](HeadAxes value) { ValueOrNew(heads).axes = value; });
  num_heads.Needs(axes);
  for (const char* other : {"weight_set", "--version", "--alias"}) num_heads.Excludes(command.argument(other));
  num_kv_heads.Needs(num_heads);
  axes.Needs(num_heads);
}

void AddArithmetic(Command command, InputOptions& inputs) {
  command.AddNumber("--scale", "Factor of the query; default: 1/√head_dim", {}, inputs.scale);
  command.AddNumber("--softcap", "Limits the scores to ±X; default: no limit", {}, inputs.softcap);
  AddChoice(command, "--empty-rows", "Weights of a query that sees no key; default: uniform", kEmptyRows,
            [&inputs](EmptyRows value) { inputs.empty_rows = value; });
  AddChoice(command, "--compute-dtype", "Type of the operands of each product; default: float32", kComputeTypes,
            [&inputs](DataType value) { inputs.compute_dtype = value; });
  AddChoice(command, "--output-dtype", "Type of the output; default: that of inputs_q", kOutputTypes,
            [&inputs](DataType value) { inputs.output_dtype = value; });
}

}  // namespace

void AddVersionFlags(Command command, VersionChoice& which) {
  const Argument version =
      command.AddInteger("--version", "Version of the weight set; default: the highest", {.least = 1}, which.version);
  command.AddText("--alias", "NAME", "Use the version that this alias names, for instance stable", which.alias)
      .Excludes(version);
}

void AddInputFlags(Command command, InputOptions& inputs) {
  command.SetFooter(kTensorHelp);
  command.AddText("weight_set", "NAME", "Name of the weight set; without one: --num-heads and --axes",
                  inputs.weight_set);
  AddVersionFlags(command, inputs.which);
  command.AddText("--inputs-q", "TENSOR", "Query input: [batch..., q_length, in_features]", inputs.inputs_q);
  command.AddText("--inputs-k", "TENSOR", "Key input: [batch..., kv_length, in_k_features]; default: inputs_q",
                  inputs.inputs_k);
  command.AddText("--inputs-v", "TENSOR", "Value input: [batch..., kv_length, in_v_features]; default: inputs_k",
                  inputs.inputs_v);
  command.AddText("--bias", "TENSOR", "Added to the scores, -inf hides a key; broadcast like --mask", inputs.bias);
  AddMask(command, inputs);
  AddHeads(command, inputs.heads);
  AddArithmetic(command, inputs);
  command.AddText("--request-id", "TEXT", "Identifies the request in the server's log", inputs.request_id);
  command
      .AddInteger("--priority", "Requests with a higher priority leave the queue first",
                  {.least = std::numeric_limits<int32_t>::min(), .greatest = std::numeric_limits<int32_t>::max()},
                  inputs.priority)
      .ShowDefault(inputs.priority);
}

void CheckInputFlags(Command command, const std::string& instead) {
  const auto check = [&](bool is_given, const std::string& what) {
    if (!is_given) FailUsage(what, absl::StrCat("required", instead));
  };
  check(command.argument("weight_set").is_given() || command.argument("--num-heads").is_given(),
        "weight_set or --num-heads");
  check(command.argument("--inputs-q").is_given(), "--inputs-q");
}

void CheckNoInputFlags(Command command, const std::string& flag) {
  for (const char* name : kComputation) {
    if (command.argument(name).is_given()) FailUsage(flag, absl::StrCat("cannot be combined with ", name));
  }
}

}  // namespace attention::cli
