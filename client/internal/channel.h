#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/attention_client.h"

namespace attention {

// Keeps the threads on which gRPC runs callbacks alive until the process ends. Must be called before the first call
// with callbacks; further calls do nothing. Thread-safe.
//
// Without it, gRPC stops these threads when the last channel that uses them is destroyed, and the destroying thread
// waits for them. If that thread is one of them, because a call outlives its Client or its callback owned the last
// Client, it would wait for itself: gRPC 1.51 then frees its queue twice.
void KeepCallbackThreads();

// INVALID_ARGUMENT, with the option's name, if an option is out of range.
absl::Status CheckOptions(const ClientOptions& options);

// gRPC's service config: which calls are retried and how often. Only calls that change nothing on the server are
// retried. REQUIRES: CheckOptions is OK.
std::string ServiceConfigJson(const ClientOptions& options);

// A channel that shares no connection with other channels to the same target. REQUIRES: CheckOptions is OK.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target, const ClientOptions& options);

// The same for calls that send a whole file, without retries, for which gRPC would have to keep the sent bytes.
std::shared_ptr<grpc::Channel> OpenUploadChannel(const std::string& target, const ClientOptions& options);

}  // namespace attention
