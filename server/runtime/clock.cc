#include "server/runtime/clock.h"

#include <chrono>

#include "absl/time/clock.h"

namespace attention::server {

absl::Time SteadyNow() {
  using Clock = std::chrono::steady_clock;
  static const struct {
    absl::Time wall = absl::Now();
    Clock::time_point steady = Clock::now();
  } start;
  return start.wall + absl::FromChrono(Clock::now() - start.steady);
}

}  // namespace attention::server
