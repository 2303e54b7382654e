#pragma once

#include <future>
#include <string>
#include <vector>

#include "tests/testing/vectors/report_case.h"
#include "tests/vectors/vector_checks.h"

namespace attention::test {

// REQUIRES: VectorsFolder() has a value.
inline absl::StatusOr<Report> ReadReport(const std::string& name) {
  return ParseReport(ReadText(*VectorsFolder() / "reports" / (name + ".json")));
}

inline void ExpectRight(const ReportCall& call, const absl::Status& status, const Tensor& output) {
  std::string why;
  EXPECT_TRUE(IsRightAnswer(call, status, output, why)) << call.name << ": " << why;
}

inline void ExpectRight(const ReportCall& call, const absl::StatusOr<v1::AttendResponse>& response) {
  ExpectRight(call, response.status(), response.ok() ? ClientTensor(response->output()) : Tensor());
}

inline void ExpectRight(const ReportCall& call, const absl::StatusOr<AttendReply>& reply) {
  ExpectRight(call, reply.status(), reply.ok() ? reply->output : Tensor());
}

// Sends `calls` repeatedly, kInFlight in all, to a server in which they share one batch. `others`, which join no batch,
// are sent and answered while that batch waits with half of its requests. REQUIRES: all calls use one weight set.
inline void ExpectRightInOneBatch(const std::vector<ReportCall>& calls, RunningServer& sharing,
                                  const std::vector<ReportCall>& others = {}) {
  std::vector<std::future<absl::StatusOr<AttendReply>>> futures;
  for (size_t i = 0; i < kInFlight; ++i) {
    if (i == kInFlight / 2) {
      for (const ReportCall& other : others) ExpectRight(other, sharing.AttendRaw(other.request));
    }
    futures.push_back(sharing.client().AttendFuture(ClientRequest(calls[i % calls.size()].request)));
  }
  for (size_t i = 0; i < kInFlight; ++i) {
    const absl::StatusOr<AttendReply> reply = futures[i].get();
    ExpectRight(calls[i % calls.size()], reply);
    ASSERT_THAT(reply, IsOk());
    EXPECT_EQ(reply->timing.batch_requests, kInFlight);
  }
}

}  // namespace attention::test
