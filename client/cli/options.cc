#include "client/cli/options.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <map>
#include <optional>
#include <sstream>

#include "client/cli/attend/input_flags.h"

namespace attention::cli {
namespace {

// Builds the commands over the structs that they fill. `chosen` is the command that stood on the line.
class Parser {
 public:
  Parser() : app_("Talks to an attention server: computes attention, explains it, looks after weight sets, measures.") {
    app_.name("attentionctl");
    app_.fallthrough();
    app_.require_subcommand(1);
    app_.add_option("--server", server_.address, "Address: host:port, unix:/path, dns:///name:port")
        ->envname("ATTENTION_SERVER")
        ->capture_default_str();
    AddSeconds(app_, "--timeout", timeout_, "How long one call may take")->check(Between(1e-3, 1e6));
    AddAttend();
    AddExplain();
    AddWeights();
    AddHealth();
    AddBench();
  }

  std::variant<Options, Usage> Parse(int argc, const char* const* argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      std::ostringstream text;
      const int code = app_.exit(error, text, text);
      return Usage{code == 0 ? 0 : kUsageError, text.str()};
    }
    server_.timeout = Nanoseconds(timeout_);
    server_.timeout_given = app_.get_option("--timeout")->count() > 0;
    bench_.warmup = Nanoseconds(warmup_);
    bench_.duration = Nanoseconds(duration_);
    return Options{server_, chosen_()};
  }

 private:
  static std::chrono::nanoseconds Nanoseconds(double seconds) {
    return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
  }

  // Takes "5", "5s", "500ms" or "2m"; bounded so that nanoseconds of it fit into 64 bits.
  static CLI::Option* AddSeconds(CLI::App& app, const std::string& name, double& seconds, const std::string& help) {
    const std::map<std::string, double> units = {{"ms", 1e-3}, {"s", 1}, {"m", 60}};
    return app.add_option(name, seconds, help + " (500ms, 5s, 2m)")
        ->default_str(std::to_string(static_cast<int>(seconds)) + "s")
        ->transform(CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::DEFAULT).description(""))
        ->check(Between(0.0, 1e6))
        ->type_name("TIME");
  }

  // A range that is checked, and named if it is left, but does not fill the help text.
  template <typename T>
  static CLI::Validator Between(T least, T greatest) {
    return CLI::Range(least, greatest).description("");
  }

  static CLI::Validator Version() { return Between(int64_t{1}, kMaxVersion); }

  // A command whose struct is `options`.
  template <typename T>
  CLI::App& Command(CLI::App& parent, const std::string& name, const std::string& help, const T& options) {
    CLI::App* command = parent.add_subcommand(name, help);
    command->callback([this, &options] { chosen_ = [&options] { return CommandOptions(options); }; });
    return *command;
  }

  void AddAttend() {
    CLI::App& command =
        Command(app_, "attend", "Compute attention for the inputs and print or write the output", attend_);
    AddInputFlags(command, attend_.inputs);
    command.add_option("--output", attend_.output, "Write the output to FILE[:TENSOR] instead of printing it");
    command.add_option("--attn-weights", attend_.attn_weights, "Write the attention weights to FILE[:TENSOR]");
    command.add_option("--mean-attn-weights", attend_.mean_attn_weights,
                       "Write their mean over the heads to FILE[:TENSOR]");
    command.add_option("--log-sum-exp", attend_.log_sum_exp, "Write log(sum(exp(scores))) to FILE[:TENSOR]");
    command.add_option("--top-k", attend_.top_k, "Print the keys with the largest weights, so many for each query")
        ->check(Between(int64_t{1}, int64_t{1} << 40));
    command.callback([this, &command] {
      CheckInputFlags(command, "");
      chosen_ = [this] { return CommandOptions(attend_); };
    });
  }

  void AddExplain() {
    CLI::App& command =
        Command(app_, "explain", "Compute the same, and show every step of the formula with its numbers", explain_);
    AddInputFlags(command, explain_.inputs);
    command.add_flag("--public-question,--demo", explain_.public_question,
                     "Explain the question of src and dst on the demo weights, demo/ones, instead of given inputs");
    command.add_option("--heatmap", explain_.heatmap, "Draw the attention weights into FILE.png");
    ExplainSettings& settings = explain_.settings;
    command.add_option("--row", settings.spot.row, "Query row that is spelled out")->capture_default_str();
    command.add_option("--head", settings.spot.head, "Head that is spelled out")->capture_default_str();
    command.add_option("--sequence", settings.spot.sequence, "Sequence of the batch")->capture_default_str();
    command.add_option("--max-rows", settings.limits.max_rows, "Rows shown of a longer axis")
        ->check(Between(int64_t{1}, int64_t{1} << 40))
        ->capture_default_str();
    command.add_option("--max-columns", settings.limits.max_columns, "Numbers shown of a longer row")
        ->check(Between(int64_t{1}, int64_t{1} << 40))
        ->capture_default_str();
    command.callback([this, &command] {
      if (explain_.public_question) {
        CheckNoInputFlags(command, "--public-question");
      } else {
        CheckInputFlags(command, " (or --public-question)");
      }
      chosen_ = [this] { return CommandOptions(explain_); };
    });
  }

  void AddWeights() {
    CLI::App* weights = app_.add_subcommand("weights", "Bring weight sets to the server, and look after them");
    weights->require_subcommand(1);
    AddUpload(*weights);
    CLI::App& load = Command(*weights, "load", "Load a checkpoint of the server's weights folder, also again", load_);
    load.add_option("checkpoint", load_.checkpoint, "Its file without the extension")->required();
    AddNumHeads(load, load_.num_heads);
    CLI::App& list = Command(*weights, "list", "List the loaded weight sets", list_);
    list.add_option("--prefix", list_.prefix, "Only names that begin with this");
    list.add_flag("--json", list_.json, "Print JSON");
    CLI::App& show = Command(*weights, "show", "Show one weight set and its parameters", show_);
    show.add_option("name", show_.name, "Name of the weight set")->required();
    AddVersionFlags(show, show_.which);
    show.add_flag("--json", show_.json, "Print JSON");
    CLI::App& unload = Command(*weights, "unload", "Stop serving a checkpoint; its files stay", unload_);
    unload.add_option("checkpoint", unload_.checkpoint, "Name of the checkpoint")->required();
    CLI::App& remove = Command(*weights, "delete", "Delete a checkpoint with its files, or one version of it", delete_);
    remove.add_option("checkpoint", delete_.checkpoint, "Name of the checkpoint")->required();
    remove.add_option("--version", delete_.version, "Only this one; default: all")->check(Version());
    AddAlias(*weights);
    CLI::App& convert =
        Command(*weights, "convert", "Write any checkpoint in the layout of flax; needs no server", convert_);
    convert.add_option("in", convert_.in, "A .safetensors, flax .msgpack or .npz file, in any layout")->required();
    convert.add_option("out", convert_.out, "FILE.safetensors; replaced if it is there")->required();
    AddNumHeads(convert, convert_.num_heads);
    CLI::App& demo =
        Command(*weights, "make-demo", "Write demo.safetensors: weight sets demo/ones, small, base", make_demo_);
    demo.add_option("directory", make_demo_.directory, "Folder; made if missing")->required();
  }

  void AddUpload(CLI::App& weights) {
    CLI::App& upload =
        Command(weights, "upload", "Send a checkpoint's file to the server, which stores and serves it", upload_);
    upload.add_option("file", upload_.file, "A .safetensors, flax .msgpack or .npz file")->required();
    upload.add_option("--checkpoint", upload_.checkpoint, "Name to serve it by; default: the file's");
    AddNumHeads(upload, upload_.num_heads);
  }

  static void AddNumHeads(CLI::App& command, int64_t& num_heads) {
    command
        .add_option("--num-heads", num_heads,
                    "Heads of layers whose shapes do not show them; default: as the file says")
        ->check(Between(int64_t{1}, int64_t{1} << 40));
  }

  void AddAlias(CLI::App& weights) {
    CLI::App* alias = weights.add_subcommand("alias", "Let a name such as stable stand for a version of a checkpoint");
    alias->require_subcommand(1);
    CLI::App& set = Command(*alias, "set", "Let an alias name a version, from now on", alias_);
    CLI::App& remove = Command(*alias, "remove", "Remove an alias", alias_);
    for (CLI::App* command : {&set, &remove}) {
      command->add_option("checkpoint", alias_.change.checkpoint, "Name of the checkpoint")->required();
      command->add_option("alias", alias_.change.alias, "For instance stable, canary")->required();
      command
          ->add_option("--expect", alias_.change.expected_version,
                       "Only if it names this version now; 0: only if it is not there")
          ->check(Between(int64_t{0}, kMaxVersion));
    }
    set.add_option("version", alias_.change.version, "Version that it is to name")->required()->check(Version());
  }

  void AddHealth() {
    CLI::App& command = Command(app_, "health", "Ask whether the server, or one service of it, serves", health_);
    command.add_option("service", health_.service, "For instance attention.v1.AttentionService");
  }

  void AddBench() {
    CLI::App& command = Command(app_, "bench", "Measure latency and throughput with random inputs", bench_);
    const auto count = Between(int64_t{1}, int64_t{1} << 31);
    command.add_option("weight_set", bench_.weight_set, "Name of the weight set")->required();
    AddVersionFlags(command, bench_.which);
    command.add_option("--rate", bench_.rate, "Requests a second, latency from when each is due; default: closed loop")
        ->check(Between(1e-3, 1e6));
    command.add_option("--concurrency", bench_.concurrency, "Calls in flight; default 1, with --rate at most 1000")
        ->check(Between(int64_t{1}, int64_t{100000}));
    command.add_option("--connections", bench_.connections, "Connections")
        ->check(Between(1, 1000))
        ->capture_default_str();
    command.add_option("--batch", bench_.batch, "Sequences in each request")->check(count)->capture_default_str();
    command.add_option("--q-length", bench_.q_length, "Rows that ask")->check(count)->capture_default_str();
    command.add_option("--kv-length", bench_.kv_length, "Rows that are asked; default: self-attention")->check(count);
    command.add_flag("--random-lengths", bench_.random_lengths,
                     "From 1 to so many rows, another number in each request");
    AddSeconds(command, "--duration", duration_, "Length of the measurement")->check(Between(1e-3, 1e6));
    AddSeconds(command, "--warmup", warmup_, "Time before it that is not counted");
    command.add_option("--requests", bench_.requests, "Stop after so many; default: no bound")->check(count);
    command.add_flag("--breakdown", bench_.breakdown, "Show where the time of a request goes that meets no other")
        ->excludes("--rate", "--concurrency", "--connections", "--random-lengths");
    command.add_flag("--json", bench_.json, "Print one JSON object");
  }

  static constexpr int64_t kMaxVersion = std::numeric_limits<int64_t>::max();

  CLI::App app_;
  ServerOptions server_;
  double timeout_ = 60, warmup_ = 1, duration_ = 5;
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
