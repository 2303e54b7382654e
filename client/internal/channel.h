#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/attention_client.h"

namespace attention {

// Makes the threads on which gRPC runs callbacks live until the process ends. To be called before a call with
// callbacks; all but the first time it does nothing. Thread-safe.
//
// gRPC ends these threads with the last channel that uses them, and waits for them where that channel goes. When it
// goes on one of these threads, since a call outlives its Client or its callback held the last one, the thread would
// wait for itself: gRPC 1.51 then frees its queue twice.
void KeepCallbackThreads();

// INVALID_ARGUMENT, with the option's name, for one that is out of range.
absl::Status CheckOptions(const ClientOptions& options);

// gRPC's service config that repeats calls: which ones, and how patiently. Only calls that change nothing on the server
// are repeated. REQUIRES: CheckOptions is OK.
std::string ServiceConfigJson(const ClientOptions& options);

// A channel of its own connections: it shares none with another channel to the same target. REQUIRES: as above.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target, const ClientOptions& options);

// The same for a call that sends a whole file: it repeats no call, for which it would have to keep what was sent.
std::shared_ptr<grpc::Channel> OpenUploadChannel(const std::string& target, const ClientOptions& options);

}  // namespace attention
