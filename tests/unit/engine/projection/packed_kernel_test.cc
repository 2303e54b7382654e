#include "server/engine/projection/packed_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <new>
#include <random>
#include <vector>

#include "tests/unit/engine/owned_call.h"

namespace attention::server {
namespace {

// The number as the product takes it.
double Rounded(DType operands, float number) {
  if (operands == DType::kFloat32) return number;
  std::byte narrow[2];
  FromFloat32(&number, 1, operands, narrow);
  ToFloat32(operands, narrow, 1, &number);
  return number;
}

std::vector<float> Multiply(Worker& worker, const PackedKernel& kernel, DType operands,
                            const std::vector<float>& rows) {
  const auto count = static_cast<int64_t>(rows.size()) / kernel.k();
  std::vector<float> products(count * kernel.n());
  kernel.Prepare(worker.onednn, operands);
  const void* operand = TileOperand(worker, operands, count, kernel.k(), rows.data());
  kernel.Multiply(worker, operands, count, operand, products.data());
  return products;
}

// The largest difference from plain arithmetic in float64.
double LargestError(Worker& worker, DType operands, int64_t k, int64_t n, bool with_bias, std::mt19937& random) {
  const int64_t count = 1 + (k + n) % 9;
  const std::vector<float> rows = RandomNumbers(count * k, random), kernel = RandomNumbers(k * n, random);
  const std::vector<float> bias = with_bias ? RandomNumbers(n, random) : std::vector<float>();
  const PackedKernel packed(worker.onednn, k, n, kernel, bias);
  const std::vector<float> products = Multiply(worker, packed, operands, rows);
  double largest = 0;
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = with_bias ? bias[column] : 0;
      for (int64_t i = 0; i < k; ++i) {
        sum += Rounded(operands, rows[row * k + i]) * Rounded(operands, kernel[i * n + column]);
      }
      const double error = std::abs(products[row * n + column] - sum);
      if (!(error <= largest)) largest = error;  // NaN as well
    }
  }
  return largest;
}

TEST(PackedKernelTest, IsRightForOddAndEvenSizes) {
  Worker worker;
  std::mt19937 random(1);
  for (const DType operands : {DType::kFloat32, DType::kBFloat16}) {
    for (int64_t k = 1; k <= 40; ++k) {
      for (const int64_t n : {1, 4, 15, 16, 65}) {
        EXPECT_LT(LargestError(worker, operands, k, n, k % 3 == 0, random), 1e-5)
            << DTypeName(operands) << " [" << k << ", " << n << "]";
      }
    }
  }
}

// Address space of the process, limited to what it has now and `more` bytes.
class LimitedMemory {
 public:
  explicit LimitedMemory(rlim_t more) {
    getrlimit(RLIMIT_AS, &before_);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limited{pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + more, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limited);
  }
  ~LimitedMemory() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_;
};

TEST(PackedKernelTest, PacksAgainAfterMemoryRanOut) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer needs address space of its own";
#endif
  constexpr int64_t kSize = 2048;
  Worker worker;
  const PackedKernel kernel(worker.onednn, kSize, kSize, std::vector<float>(kSize * kSize, 1.0f), {});
  {
    const LimitedMemory limited(rlim_t{1} << 20);
    EXPECT_THROW(kernel.Prepare(worker.onednn, DType::kBFloat16), std::bad_alloc);
  }
  EXPECT_THAT(Multiply(worker, kernel, DType::kBFloat16, std::vector<float>(kSize, 1.0f)), testing::Each(kSize));
}

}  // namespace
}  // namespace attention::server
