#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "attention/v1/attention.pb.h"
#include "client/attention_client.h"
#include "server/config.h"

namespace attention::test {

// A config under which `requests` requests of one weight set that are in flight together are always one batch: a batch
// waits for that many. Fewer would wait for a minute.
server::Config SharingConfig(int requests);

// Sends all requests before it waits for the first reply; replies in the order of the requests.
std::vector<absl::StatusOr<AttendReply>> AttendTogether(const Client& client,
                                                        const std::vector<v1::AttendRequest>& requests);

// The requests over and over, `count` in all. REQUIRES: there is one.
std::vector<v1::AttendRequest> RepeatTo(size_t count, const std::vector<v1::AttendRequest>& requests);

}  // namespace attention::test
