#include "server/admission/admission.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <utility>

namespace attention::server {
namespace {

TEST(AdmissionTest, AdmitsCallsUntilItIsClosed) {
  Admission admission(100);
  EXPECT_TRUE(admission.Enter(0).ok());
  EXPECT_TRUE(admission.Enter(0).ok());
  EXPECT_TRUE(admission.CloseAndWait(absl::ZeroDuration()));
  EXPECT_EQ(admission.Enter(0).status(), absl::UnavailableError("server: the server is stopping"));
}

TEST(AdmissionTest, StopsWaitingAfterTheTimeout) {
  Admission admission(100);
  const absl::StatusOr<Ticket> ticket = admission.Enter(0);
  ASSERT_TRUE(ticket.ok());
  EXPECT_FALSE(admission.CloseAndWait(absl::ZeroDuration()));
}

TEST(AdmissionTest, WaitsForTicketsThatHaveMoved) {
  Admission admission(100);
  absl::StatusOr<Ticket> ticket = admission.Enter(60);
  ASSERT_TRUE(ticket.ok());
  Ticket moved = *std::move(ticket);
  EXPECT_EQ(admission.stats().calls, 1) << "a moved ticket counts once";
  EXPECT_EQ(admission.stats().bytes, 60);
  EXPECT_FALSE(admission.CloseAndWait(absl::ZeroDuration()));
  std::thread call([moved = std::move(moved)] {});
  EXPECT_TRUE(admission.CloseAndWait(absl::InfiniteDuration()));
  call.join();
  EXPECT_EQ(admission.stats().bytes, 0);
}

TEST(AdmissionTest, LimitsTheBytesOfAllTickets) {
  Admission admission(100);
  std::optional<Ticket> first = *admission.Enter(60);
  EXPECT_EQ(admission.Enter(41).status(),
            absl::UnavailableError(
                "server: expected at most 100 bytes in flight (--max-inflight-bytes), got 60 and 41 of this request"));
  EXPECT_EQ(admission.stats().calls, 1) << "a rejected call does not count";
  Ticket second = *admission.Enter(30);
  EXPECT_EQ(second.Reserve(10), absl::OkStatus());
  EXPECT_EQ(second.bytes(), 40);
  EXPECT_EQ(second.Reserve(1).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.bytes(), 40) << "a rejected reservation changes nothing";
  first.reset();
  EXPECT_EQ(second.Reserve(60), absl::OkStatus());
  EXPECT_EQ(admission.stats().bytes, 100);
}

TEST(AdmissionTest, RejectsForGoodWhatAloneExceedsTheLimit) {
  Admission admission(100);
  EXPECT_EQ(admission.Enter(101).status(),
            absl::ResourceExhaustedError(
                "request: expected at most 100 bytes of memory (--max-inflight-bytes), got 0 and 101 more"));
  Ticket ticket = *admission.Enter(30);
  EXPECT_EQ(ticket.Reserve(71),
            absl::ResourceExhaustedError(
                "request: expected at most 100 bytes of memory (--max-inflight-bytes), got 30 and 71 more"));
}

TEST(AdmissionTest, TellsComputationsToStop) {
  Admission admission(100);
  EXPECT_FALSE(admission.stopped()->load());
  admission.StopComputations();
  EXPECT_TRUE(admission.stopped()->load());
}

}  // namespace
}  // namespace attention::server
