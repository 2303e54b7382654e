#pragma once

#include <string>
#include <vector>

#include "server/checkpoint/tensor.h"
#include "tests/bench/shapes.h"

namespace attention::bench {

// How long things are measured, in seconds; the rounds end with whichever limit comes first.
struct Pace {
  double total;  // about how long the whole run may take
  int most_rounds;
  double of_roofline;  // one measurement of a primitive
  double of_case;      // one measurement of a case, or one run of it if that takes longer
};

struct Options {
  std::vector<BenchShape> shapes;
  std::vector<server::DType> compute_dtypes;
  std::vector<int> threads;
  bool quick = false;
  Pace pace;
  std::string json_path;
};

// Ends the process for --help and for what makes no sense.
Options ParseOptions(int argc, const char* const* argv);

}  // namespace attention::bench
