#include "client/cli/options.h"

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <sstream>

#include "client/cli/input_flags.h"

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
    CLI::App* weights = app_.add_subcommand("weights", "List, show, load and unload weight sets");
    weights->require_subcommand(1);
    CLI::App& list = Command(*weights, "list", "List the loaded weight sets", list_);
    list.add_flag("--json", list_.json, "Print JSON");
    CLI::App& show = Command(*weights, "show", "Show one weight set and its parameters", show_);
    show.add_option("name", show_.name, "Name of the weight set")->required();
    show.add_flag("--json", show_.json, "Print JSON");
    CLI::App& load = Command(*weights, "load", "Load a checkpoint of the server's weights folder, also again", load_);
    load.add_option("checkpoint", load_.checkpoint, "Its file without the extension")->required();
    CLI::App& unload = Command(*weights, "unload", "Stop serving a weight set", unload_);
    unload.add_option("name", unload_.name, "Name of the weight set")->required();
    CLI::App& demo =
        Command(*weights, "make-demo", "Write demo.safetensors: weight sets demo/ones, small, base", make_demo_);
    demo.add_option("directory", make_demo_.directory, "Folder; made if missing")->required();
  }

  void AddHealth() {
    CLI::App& command = Command(app_, "health", "Ask whether the server, or one service of it, serves", health_);
    command.add_option("service", health_.service, "For instance attention.v1.AttentionService");
  }

  void AddBench() {
    CLI::App& command = Command(app_, "bench", "Measure latency and throughput with random inputs", bench_);
    const auto count = Between(int64_t{1}, int64_t{1} << 31);
    command.add_option("weight_set", bench_.weight_set, "Name of the weight set")->required();
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

  CLI::App app_;
  ServerOptions server_;
  double timeout_ = 60, warmup_ = 1, duration_ = 5;
  AttendOptions attend_;
  ExplainOptions explain_;
  ListOptions list_;
  ShowOptions show_;
  LoadOptions load_;
  UnloadOptions unload_;
  MakeDemoOptions make_demo_;
  HealthOptions health_;
  BenchOptions bench_;
  std::function<CommandOptions()> chosen_;
};

}  // namespace

std::variant<Options, Usage> ParseOptions(int argc, const char* const* argv) { return Parser().Parse(argc, argv); }

}  // namespace attention::cli
