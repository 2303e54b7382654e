#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attention::bench {

struct Sequence {
  int64_t queries = 0;
  int64_t keys = 0;
};

// A batch to measure.
struct BenchShape {
  std::string name;   // without '/' and without special characters of regular expressions
  int64_t width = 0;  // in_features, qkv_features and out_features
  int64_t num_heads = 0;
  std::vector<Sequence> sequences;
  bool own_calls = false;  // each sequence is one call; else one call contains all, padded to the longest
  bool self_attention = true;
  bool causal = false;
};

std::vector<BenchShape> AllShapes();

// The necessary work for a shape: without padding, and for visible pairs of query and key only.
struct Work {
  double flops = 0;  // 2·m·n·k of each matrix product of the formula
  double softmax_elements = 0;
};

Work WorkOf(const BenchShape& shape);

}  // namespace attention::bench
