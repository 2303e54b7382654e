#include "tests/testing/server/together.h"

#include <future>

#include "tests/testing/server/wire.h"

namespace attention::test {

server::Config SharingConfig(int requests) {
  server::Config config;
  config.small_threads = 0;  // all requests share batches
  config.batch_timeout = absl::Minutes(1);
  config.max_batch_requests = requests;
  config.max_batch_tokens = 1 << 20;
  return config;
}

std::vector<absl::StatusOr<AttendReply>> AttendTogether(const Client& client,
                                                        const std::vector<v1::AttendRequest>& requests) {
  std::vector<std::future<absl::StatusOr<AttendReply>>> futures;
  for (const v1::AttendRequest& request : requests) futures.push_back(client.AttendFuture(ClientRequest(request)));
  std::vector<absl::StatusOr<AttendReply>> replies;
  for (auto& future : futures) replies.push_back(future.get());
  return replies;
}

std::vector<v1::AttendRequest> RepeatTo(size_t count, const std::vector<v1::AttendRequest>& requests) {
  std::vector<v1::AttendRequest> result;
  while (result.size() < count) result.push_back(requests[result.size() % requests.size()]);
  return result;
}

}  // namespace attention::test
