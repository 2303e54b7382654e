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

// Whether the calls share a batch, and with whom.
enum class Company { kNone, kOther };

struct Way {
  int threads;
  Company company;
};

std::string Describe(const Way& way) {
  return absl::StrCat(way.company == Company::kNone ? "alone" : "behind another request", " on ", way.threads,
                      way.threads == 1 ? " thread" : " threads");
}

bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

absl::Status Compare(const Outputs& expected, const Outputs& outputs, const std::string& what) {
  for (size_t call = 0; call < outputs.size(); ++call) {
    const auto [wanted, came] =
        std::mismatch(expected[call].begin(), expected[call].end(), outputs[call].begin(), SameBits);
    if (wanted == expected[call].end()) continue;
    return absl::InternalError(absl::StrFormat("%s: number %d of call %d is %.9g, but %.9g alone on 1 thread", what,
                                               wanted - expected[call].begin(), call, *came, *wanted));
  }
  return absl::OkStatus();
}

// Equal bits of nothing would prove nothing.
absl::Status CheckComputed(const Outputs& outputs, const std::string& what) {
  for (const std::vector<float>& output : outputs) {
    const bool computed = std::any_of(output.begin(), output.end(), [](float number) { return number != 0; });
    if (!computed) return absl::InternalError(absl::StrCat(what, ": a call has no output"));
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
    constexpr Way kReference = {1, Company::kNone};
    if (absl::Status status = Compute(kReference); !status.ok()) return status;
    if (absl::Status status = CheckComputed(workload_.outputs(), Name(kReference)); !status.ok()) return status;
    const Outputs expected = workload_.outputs();
    for (const auto& [threads, engine] : engines_) {
      for (const Way& way : {Way{threads, Company::kNone}, Way{threads, Company::kOther}}) {
        if (way.company == Company::kNone && (quick || threads == kReference.threads)) continue;
        if (absl::Status status = Compute(way); !status.ok()) return status;
        if (absl::Status status = Compare(expected, workload_.outputs(), Name(way)); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  // A short request that is projected together with those of the shape.
  static BenchShape Other(const Workload& workload) {
    BenchShape other = workload.shape();
    other.sequences = {{5, 5}};
    return other;
  }

  absl::Status Compute(const Way& way) {
    server::Engine& engine = *engines_.at(way.threads);
    workload_.ClearOutputs();
    return way.company == Company::kNone ? workload_.ComputeAlone(engine, compute_dtype_)
                                         : workload_.ComputeBehind(other_, engine, compute_dtype_);
  }

  std::string Name(const Way& way) const {
    return absl::StrCat(workload_.shape().name, " ", DTypeName(compute_dtype_), " ", Describe(way));
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
