#include "tests/bench/shapes.h"

#include <algorithm>

namespace attention::bench {
namespace {

// `count` equally spaced lengths from `shortest` to `longest`, shuffled. REQUIRES: `step` and `count` are coprime.
std::vector<Sequence> Ragged(int64_t count, int64_t shortest, int64_t longest, int64_t step) {
  std::vector<Sequence> sequences;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = shortest + (longest - shortest) * (i * step % count) / (count - 1);
    sequences.push_back({length, length});
  }
  return sequences;
}

std::vector<Sequence> Equal(int64_t count, int64_t queries, int64_t keys) {
  return std::vector<Sequence>(count, {queries, keys});
}

BenchShape Causal(BenchShape shape) {
  shape.name += " causal";
  shape.causal = true;
  return shape;
}

double VisiblePairs(const BenchShape& shape, const Sequence& sequence) {
  int64_t pairs = 0;
  for (int64_t query = 0; query < sequence.queries; ++query) {
    pairs += shape.causal ? std::min(query + 1, sequence.keys) : sequence.keys;
  }
  return static_cast<double>(pairs);
}

}  // namespace

std::vector<BenchShape> AllShapes() {
  const BenchShape long_shape = {"1x2048x1024x16", 1024, 16, Equal(1, 2048, 2048)};
  const BenchShape longest_shape = {"1x8192x512x8", 512, 8, Equal(1, 8192, 8192)};
  return {
      {"1x16x256x4", 256, 4, Equal(1, 16, 16)},
      {.name = "32x4-64x256x4 calls",
       .width = 256,
       .num_heads = 4,
       .sequences = Ragged(32, 4, 64, 13),
       .own_calls = true},
      {"1x128x768x12", 768, 12, Equal(1, 128, 128)},
      {"8x128x768x12", 768, 12, Equal(8, 128, 128)},
      {"32x128x768x12", 768, 12, Equal(32, 128, 128)},
      {"8x16-512x768x12 padded", 768, 12, Ragged(8, 16, 512, 5)},
      {"1x512x768x12", 768, 12, Equal(1, 512, 512)},
      {"8x512x768x12", 768, 12, Equal(8, 512, 512)},
      long_shape,
      Causal(long_shape),
      longest_shape,
      Causal(longest_shape),
      // Most of the time is the projection of keys and values.
      {"64x1:1024x768x12 calls", 768, 12, Equal(64, 1, 1024), /*own_calls=*/true, /*self_attention=*/false},
  };
}

Work WorkOf(const BenchShape& shape) {
  const auto width = static_cast<double>(shape.width);
  Work work;
  for (const Sequence& sequence : shape.sequences) {
    const double projected_rows = 2.0 * static_cast<double>(sequence.queries) +  // query and output
                                  2.0 * static_cast<double>(sequence.keys);      // key and value
    const double pairs = VisiblePairs(shape, sequence);
    // Summed over all heads, the scores and the context each multiply `width` numbers per pair.
    work.flops += 2 * projected_rows * width * width + 2 * 2 * pairs * width;
    work.softmax_elements += pairs * static_cast<double>(shape.num_heads);
  }
  return work;
}

}  // namespace attention::bench
