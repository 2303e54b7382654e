#pragma once

#include <string>
#include <vector>

#include "server/checkpoint/tensor.h"
#include "tests/bench/shapes.h"

namespace attention::bench {

// Durations of measurements in seconds. The rounds end at the first limit that is reached.
struct Pace {
  double total;  // the whole run, approximately
  int max_rounds;
  double of_roofline;  // one measurement of a oneDNN primitive
  double of_case;      // one measurement of a case, at least one run of it
};

struct Options {
  std::vector<BenchShape> shapes;
  std::vector<server::DType> compute_dtypes;
  std::vector<int> threads;
  bool quick = false;
  Pace pace;
  std::string json_path;
};

// Exits the process for --help and for invalid options.
Options ParseOptions(int argc, const char* const* argv);

}  // namespace attention::bench
