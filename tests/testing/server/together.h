#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "client/attention_client.h"
#include "server/config.h"

namespace attention::test {

// A config with which `requests` concurrent requests for one weight set always share a batch: a batch waits for that
// many requests, for up to a minute.
server::Config SharingConfig(int requests);

// Sends all requests, then waits for the replies. Returns them in the order of the requests.
std::vector<absl::StatusOr<AttendReply>> AttendTogether(const Client& client,
                                                        const std::vector<v1::AttendRequest>& requests);

// Repeats the requests until there are `count`. REQUIRES: `requests` is not empty.
std::vector<v1::AttendRequest> RepeatTo(size_t count, const std::vector<v1::AttendRequest>& requests);

}  // namespace attention::test
