#include "client/cli/options.h"

#include <functional>
#include <limits>
#include <utility>

#include "client/cli/attend/input_flags.h"

namespace attention::cli {
namespace {

using std::chrono::milliseconds;

constexpr Range<int64_t> kPositive = {.least = 1};
constexpr int64_t kMaxCount = int64_t{1} << 31;  // of a bench

// Declares the commands over the structs that they fill. `chosen_` returns the options of the command on the line.
class Parser {
 public:
  Parser() {
    root_.AddText("--server", "ADDRESS", "Address: host:port, unix:/path, dns:///name:port", server_.address)
        .ShowDefault(server_.address)
        .FromEnvironment("ATTENTION_SERVER");
    root_.AddTime("--timeout", "Timeout of each call", milliseconds(1), server_.timeout).ShowDefault("60s");
    AddAttend();
    AddExplain();
    AddWeights();
    AddHealth();
    AddBench();
  }

  std::variant<Options, Usage> Parse(int argc, const char* const* argv) {
    if (std::optional<Usage> usage = line_.Parse(argc, argv)) return *std::move(usage);
    server_.timeout_given = root_.argument("--timeout").is_given();
    return Options{server_, chosen_()};
  }

 private:
  // A command whose options are `options`. `check` fails if they contradict each other.
  template <typename T>
  Command Add(
      Command parent, const std::string& name, const std::string& help, const T& options,
      const std::function<void(Command)>& check = [](Command) {}) {
    const Command command = parent.AddCommand(name, help);
    command.OnParsed([this, command, &options, check] {
      check(command);
      chosen_ = [&options] { return CommandOptions(options); };
    });
    return command;
  }

  static void AddNumHeads(Command command, int64_t& num_heads) {
    command.AddInteger("--num-heads", "Number of heads, if the checkpoint does not say it", kPositive, num_heads);
  }

  static void AddReplace(Command command, bool& replace) {
    command.AddFlag("--replace", "Also if weight sets of the present version are missing in the file", replace);
  }

  void AddAttend() {
    const Command command = Add(root_, "attend", "Compute attention, and print or write the output", attend_,
                                [](Command parsed) { CheckInputFlags(parsed, ""); });
    AddInputFlags(command, attend_.inputs);
    const std::string file = "FILE[:NAME]";
    command.AddText("--output", file, "Write the output to a file instead of printing it", attend_.output);
    command.AddText("--attn-weights", file, "Write the attention weights", attend_.attn_weights);
    command.AddText("--mean-attn-weights", file, "Write the attention weights averaged over the heads",
                    attend_.mean_attn_weights);
    command.AddText("--log-sum-exp", file, "Write log(sum(exp(masked_scores)))", attend_.log_sum_exp);
    command.AddInteger("--top-k", "Print the N keys with the largest weights of each query", kPositive, attend_.top_k);
  }

  void AddExplain() {
    const Command command =
        Add(root_, "explain", "Compute attention, and show every step of the formula with its numbers", explain_,
            [this](Command parsed) {
              if (explain_.public_question) {
                CheckNoInputFlags(parsed, "--public-question");
              } else {
                CheckInputFlags(parsed, " (or --public-question)");
              }
            });
    AddInputFlags(command, explain_.inputs);
    command.AddFlag("--public-question,--demo", "Explain the example with src and dst on the demo weights (demo/ones)",
                    explain_.public_question);
    command.AddText("--heatmap", "FILE.png", "Draw the attention weights", explain_.heatmap);
    command.AddInteger("--row", "Query row to calculate step by step", {}, explain_.row).ShowDefault(explain_.row);
    command.AddInteger("--head", "Head to calculate", {}, explain_.head).ShowDefault(explain_.head);
    command.AddInteger("--sequence", "Sequence of the batch to calculate", {}, explain_.sequence)
        .ShowDefault(explain_.sequence);
    PrintLimits& limits = explain_.limits;
    command.AddInteger("--max-rows", "Rows to print of a longer axis", kPositive, limits.max_rows)
        .ShowDefault(limits.max_rows);
    command.AddInteger("--max-columns", "Numbers to print of a longer row", kPositive, limits.max_columns)
        .ShowDefault(limits.max_columns);
  }

  void AddWeights() {
    const Command weights = root_.AddGroup("weights", "Upload, list and manage weight sets");
    const std::string name = "NAME";
    AddUpload(weights);
    const Command load =
        Add(weights, "load", "Load a checkpoint from the server's weights folder, or reload it", load_);
    load.AddText("checkpoint", name, "File name without the extension", load_.checkpoint).Required();
    AddNumHeads(load, load_.num_heads);
    AddReplace(load, load_.replace);
    const Command list = Add(weights, "list", "List the loaded weight sets", list_);
    list.AddText("--prefix", "TEXT", "Only names that start with this text", list_.prefix);
    list.AddFlag("--json", "Print JSON", list_.json);
    const Command show = Add(weights, "show", "Show one weight set and its parameters", show_);
    show.AddText("name", name, "Name of the weight set", show_.name).Required();
    AddVersionFlags(show, show_.which);
    show.AddFlag("--json", "Print JSON", show_.json);
    const Command unload = Add(weights, "unload", "Stop serving a checkpoint; its files are kept", unload_);
    unload.AddText("checkpoint", name, "Name of the checkpoint", unload_.checkpoint).Required();
    const Command remove = Add(weights, "delete", "Delete a checkpoint and its files, or one of its versions", delete_);
    remove.AddText("checkpoint", name, "Name of the checkpoint", delete_.checkpoint).Required();
    remove.AddInteger("--version", "Version to delete; default: all", kPositive, delete_.version);
    AddAlias(weights);
    const Command convert =
        Add(weights, "convert", "Convert a checkpoint of any supported layout to flax; needs no server", convert_);
    convert.AddText("in", "FILE", "A .safetensors, flax .msgpack or .npz file", convert_.in).Required();
    convert.AddText("out", "FILE.safetensors", "File to write; an existing file is replaced", convert_.out).Required();
    AddNumHeads(convert, convert_.num_heads);
    const Command demo =
        Add(weights, "make-demo", "Write demo.safetensors with demo/ones, demo/small and demo/base", make_demo_);
    demo.AddText("directory", "FOLDER", "Folder to write to; created if missing", make_demo_.directory).Required();
  }

  void AddUpload(Command weights) {
    const Command upload =
        Add(weights, "upload", "Send a checkpoint to the server, which stores and serves it", upload_);
    upload.AddText("file", "FILE", "A .safetensors, flax .msgpack or .npz file", upload_.file).Required();
    upload.AddText("--checkpoint", "NAME", "Name of the checkpoint; default: the file name without the extension",
                   upload_.checkpoint);
    AddNumHeads(upload, upload_.num_heads);
    AddReplace(upload, upload_.replace);
  }

  void AddAlias(Command weights) {
    const Command alias = weights.AddGroup("alias", "Manage names, such as stable, for versions of a checkpoint");
    const Command set = Add(alias, "set", "Point an alias to a version", alias_);
    const Command remove = Add(alias, "remove", "Remove an alias", alias_);
    AliasChange& change = alias_.change;
    for (const Command& command : {set, remove}) {
      command.AddText("checkpoint", "NAME", "Name of the checkpoint", change.checkpoint).Required();
      command.AddText("alias", "ALIAS", "For instance stable or canary", change.alias).Required();
      command.AddInteger("--expect", "Only if the alias points to this version now; 0: only if it does not exist",
                         {.least = 0}, change.expected_version);
    }
    set.AddInteger("version", "Version to point to", kPositive, change.version).Required();
  }

  void AddHealth() {
    const Command command =
        Add(root_, "health", "Check whether the server, or one of its services, is serving", health_);
    command.AddText("service", "SERVICE", "For instance attention.v1.AttentionService", health_.service);
  }

  void AddBench() {
    const Command command = Add(root_, "bench", "Measure latency and throughput with random inputs", bench_);
    const Range<int64_t> count = {1, kMaxCount};
    command.AddText("weight_set", "NAME", "Name of the weight set", bench_.weight_set).Required();
    AddVersionFlags(command, bench_.which);
    const Argument rate = command.AddNumber(
        "--rate", "Requests per second (open loop: latency counts from when a request is due); default: closed loop",
        {1e-3, 1e6}, bench_.rate);
    const Argument concurrency =
        command.AddInteger("--concurrency", "Calls in flight: exactly, default 1; with --rate at most, default 1000",
                           {1, 100000}, bench_.concurrency);
    const Argument connections =
        command.AddInteger("--connections", "Number of connections", {1, 1000}, bench_.connections)
            .ShowDefault(bench_.connections);
    command.AddInteger("--batch", "Sequences in each request", count, bench_.batch).ShowDefault(bench_.batch);
    command.AddInteger("--q-length", "Query rows of each sequence", count, bench_.q_length)
        .ShowDefault(bench_.q_length);
    command.AddInteger("--kv-length", "Key rows of each sequence; default: self-attention", count, bench_.kv_length);
    const Argument random = command.AddFlag("--random-lengths", "Random lengths, from 1 to --q-length and --kv-length",
                                            bench_.random_lengths);
    command.AddTime("--duration", "Length of the measurement", milliseconds(1), bench_.duration).ShowDefault("5s");
    command.AddTime("--warmup", "Time before the measurement, not counted", milliseconds(0), bench_.warmup)
        .ShowDefault("1s");
    command.AddInteger("--requests", "Stop after N requests; default: no limit", count, bench_.requests);
    command.AddFlag("--breakdown", "Show the parts of the time of a single request instead", bench_.breakdown)
        .Excludes(rate)
        .Excludes(concurrency)
        .Excludes(connections)
        .Excludes(random);
    command.AddFlag("--json", "Print one JSON object", bench_.json);
  }

  CommandLine line_{"attentionctl",
                    "Command-line tool of the attention server: computes, explains and measures "
                    "attention, and manages weight sets."};
  const Command root_ = line_.root();
  ServerOptions server_;
  AttendOptions attend_;
  ExplainOptions explain_;
  ListOptions list_;
  ShowOptions show_;
  LoadOptions load_;
  UploadOptions upload_;
  UnloadOptions unload_;
  DeleteOptions delete_;
  AliasOptions alias_;
  ConvertOptions convert_;
  MakeDemoOptions make_demo_;
  HealthOptions health_;
  BenchOptions bench_;
  std::function<CommandOptions()> chosen_;
};

}  // namespace

std::variant<Options, Usage> ParseOptions(int argc, const char* const* argv) { return Parser().Parse(argc, argv); }

}  // namespace attention::cli
