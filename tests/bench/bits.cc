#include "tests/bench/bits.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attention::bench {
namespace {

using server::DType;
using Outputs = std::vector<std::vector<float>>;

// How the calls are computed.
struct Setup {
  int threads;
  bool after_other;  // in one batch after another call; else each call alone
};

std::string Describe(const Setup& setup) {
  return absl::StrCat(setup.after_other ? "after another call" : "alone", " on ", setup.threads,
                      setup.threads == 1 ? " thread" : " threads");
}

bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

absl::Status Compare(const Outputs& expected, const Outputs& outputs, const std::string& what) {
  for (size_t call = 0; call < outputs.size(); ++call) {
    const auto [expected_number, actual] =
        std::mismatch(expected[call].begin(), expected[call].end(), outputs[call].begin(), SameBits);
    if (expected_number == expected[call].end()) continue;
    return absl::InternalError(
        absl::StrFormat("%s: element %d of call %d: expected %.9g as alone on 1 thread, got %.9g", what,
                        expected_number - expected[call].begin(), call, *expected_number, *actual));
  }
  return absl::OkStatus();
}

// If nothing were computed, all bits would be equal.
absl::Status CheckComputed(const Outputs& outputs, const std::string& what) {
  for (const std::vector<float>& output : outputs) {
    const bool computed = std::any_of(output.begin(), output.end(), [](float number) { return number != 0; });
    if (!computed) return absl::InternalError(absl::StrCat(what, ": the output of a call is all zeros"));
  }
  return absl::OkStatus();
}

class BitCheck {
 public:
  BitCheck(Workload& workload, DType compute_dtype, const Engines& engines)
      : workload_(workload),
        compute_dtype_(compute_dtype),
        engines_(engines),
        other_(Other(workload), workload.layer()) {}

  absl::Status Run(bool quick) {
    constexpr Setup kReference = {.threads = 1, .after_other = false};
    if (absl::Status status = Compute(kReference); !status.ok()) return status;
    if (absl::Status status = CheckComputed(workload_.outputs(), Name(kReference)); !status.ok()) return status;
    const Outputs expected = workload_.outputs();
    for (const auto& [threads, engine] : engines_) {
      for (const Setup& setup : {Setup{threads, false}, Setup{threads, true}}) {
        if (!setup.after_other && (quick || threads == kReference.threads)) continue;
        if (absl::Status status = Compute(setup); !status.ok()) return status;
        if (absl::Status status = Compare(expected, workload_.outputs(), Name(setup)); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  // A short call that shares projections with those of the shape.
  static BenchShape Other(const Workload& workload) {
    BenchShape other = workload.shape();
    other.sequences = {{5, 5}};
    return other;
  }

  absl::Status Compute(const Setup& setup) {
    server::Engine& engine = *engines_.at(setup.threads);
    workload_.ClearOutputs();
    return setup.after_other ? workload_.ComputeAfter(other_, engine, compute_dtype_)
                             : workload_.ComputeAlone(engine, compute_dtype_);
  }

  std::string Name(const Setup& setup) const {
    return absl::StrCat(workload_.shape().name, " ", DTypeName(compute_dtype_), " ", Describe(setup));
  }

  Workload& workload_;
  const DType compute_dtype_;
  const Engines& engines_;
  Workload other_;
};

}  // namespace

absl::Status CheckBits(Workload& workload, DType compute_dtype, const Engines& engines, bool quick) {
  return BitCheck(workload, compute_dtype, engines).Run(quick);
}

}  // namespace attention::bench
