#include "tests/bench/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "server/runtime/process.h"

namespace attention::bench {
namespace {

using server::DType;

constexpr Pace kThorough = {.total = 200, .max_rounds = 25, .of_roofline = 0.02, .of_case = 0.03};
constexpr Pace kQuick = {.total = 35, .max_rounds = 9, .of_roofline = 0.01, .of_case = 0.015};

std::vector<BenchShape> ShapesWith(const std::vector<std::string>& parts_of_names) {
  std::vector<BenchShape> shapes;
  for (BenchShape& shape : AllShapes()) {
    const bool selected = parts_of_names.empty() ||
                          std::any_of(parts_of_names.begin(), parts_of_names.end(),
                                      [&](const std::string& part) { return absl::StrContains(shape.name, part); });
    if (selected) shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::string ShapeNames() {
  std::string names;
  for (const BenchShape& shape : AllShapes()) names += "\n  " + shape.name;
  return names;
}

}  // namespace

Options ParseOptions(int argc, const char* const* argv) {
  Options options;
  std::vector<std::string> parts_of_names;
  std::vector<std::string> dtypes = {"float32", "bfloat16"};
  options.threads = {1};
  if (server::UsableCpus() > 1) options.threads.push_back(server::UsableCpus());
  options.json_path = ATTENTION_BENCH_JSON;

  CLI::App app("Compares the time of the engine with the ideal time on this machine, for each shape.");
  app.footer("Shapes, named batch x length x width x heads, or with queries:keys as the length:" + ShapeNames());
  app.add_option("json", options.json_path, "Path of the JSON report")->capture_default_str();
  app.add_option("--shape", parts_of_names, "Only shapes whose name contains this")->allow_extra_args(false);
  app.add_option("--dtype", dtypes, "Only this compute dtype")
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option("--threads", options.threads, "Only this number of threads; default: 1 and the number of CPUs")
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024));
  app.add_flag("--quick", options.quick, "Fewer and shorter rounds and fewer comparisons of bits: about 30 seconds");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  for (const std::string& name : dtypes) {
    options.compute_dtypes.push_back(name == "float32" ? DType::kFloat32 : DType::kBFloat16);
  }
  options.pace = options.quick ? kQuick : kThorough;
  options.shapes = ShapesWith(parts_of_names);
  if (options.shapes.empty()) std::exit(app.exit(CLI::ValidationError("--shape", "no shape has such a name")));
  return options;
}

}  // namespace attention::bench
