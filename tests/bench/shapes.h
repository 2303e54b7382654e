#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attention::bench {

struct Sequence {
  int64_t queries = 0;
  int64_t keys = 0;
};

// One batch that is timed.
struct BenchShape {
  std::string name;   // without '/' and without what has a meaning in a regular expression
  int64_t width = 0;  // in_features, qkv_features and out_features
  int64_t num_heads = 0;
  std::vector<Sequence> sequences;
  bool own_calls = false;  // each sequence is a request of its own; else one call holds all, padded to the longest
  bool self_attention = true;
  bool causal = false;
};

std::vector<BenchShape> AllShapes();

// What has to be done for a shape, and no more: for the real tokens, and the pairs of query and key that the mask
// leaves.
struct Work {
  double flops = 0;  // 2·m·n·k of each product of the formula
  double softmax_elements = 0;
};

Work WorkOf(const BenchShape& shape);

}  // namespace attention::bench
