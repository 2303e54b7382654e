#pragma once

#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace attention::test {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// Matches an absl::Status or StatusOr that is OK.
MATCHER(IsOk, negation ? "is an error" : "is OK") {
  *result_listener << "which is " << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

// Matches an absl::Status or StatusOr by code and message: StatusIs(kNotFound, HasSubstr("no-such-set")).
MATCHER_P2(StatusIs, code, message, "is " + absl::StatusCodeToString(code) + " with the expected message") {
  *result_listener << "which is " << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         ::testing::ExplainMatchResult(message, std::string(StatusOf(arg).message()), result_listener);
}

// The expected value of a tensor.
struct Expected {
  std::vector<int64_t> shape;
  std::vector<double> values;  // row-major
  double abs_tolerance = 0;
  double rel_tolerance = 0;        // of the expected value; added to abs_tolerance
  std::vector<uint8_t> rows = {};  // one byte per row of the last axis, 0 = do not compare it; empty: compare all
};

// The elements of a tensor of any type of the client.
std::vector<double> Values(const Tensor& tensor);

// Returns true if the shapes are equal and each compared element is within the tolerance. NaN matches only NaN, and an
// infinity only itself. Otherwise `why` names the first index with the expected and actual values, and the number of
// wrong elements.
bool IsNear(const Tensor& tensor, const Expected& expected, std::string& why);

// Matches a Tensor as IsNear does.
MATCHER_P(Near, expected, "is near the expected tensor") {
  std::string why;
  const bool near = IsNear(arg, expected, why);
  *result_listener << why;
  return near;
}

// Matches a Tensor of the same type, shape and bits. Explains the first element that differs.
MATCHER_P(SameBits, tensor, "has the bits of the expected tensor") {
  std::string why;
  const bool same = arg.dtype == tensor.dtype && arg.shape == tensor.shape && arg.bytes == tensor.bytes;
  if (!same && IsNear(arg, {tensor.shape, Values(tensor)}, why)) why = "types, signs of zeros or bits of NaN differ";
  *result_listener << (same ? "which are equal" : why);
  return same;
}

}  // namespace attention::test
