#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "attention/v1/weights.grpc.pb.h"
#include "server/admission/call_gate.h"
#include "server/runtime/serial_executor.h"
#include "server/weights/repository.h"

namespace attention::server {

// The UploadCheckpoint calls that are under way. Each reads one message at a time, and the next only when the bytes of
// the last are written: a client that sends faster waits, and a call takes the memory of one message. All work is done
// on the loader; the first error ends the call, whatever its client still sends. Thread-safe.
class UploadCalls {
 public:
  struct Context {
    Repository* repository = nullptr;
    SerialExecutor* loader = nullptr;
    CallGate* gate = nullptr;
  };

  // At most so many at a time; others are UNAVAILABLE.
  static constexpr size_t kMaxCalls = 16;

  // All of the context outlives this and its calls.
  explicit UploadCalls(const Context& context) : context_(context) {}

  // Begins a call. The reactor is owned until gRPC is done with it.
  grpc::ServerReadReactor<v1::UploadCheckpointRequest>* Start(grpc::CallbackServerContext* call,
                                                              v1::LoadCheckpointResponse* response)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the calls that still wait for bytes, and all that begin later, with UNAVAILABLE; those whose last byte is
  // there end well. For a server that stops: it would wait for them as long as their clients please.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Call;

  absl::Status Add(const std::shared_ptr<Call>& call) ABSL_LOCKS_EXCLUDED(mu_);
  void Leave() ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(const std::shared_ptr<Call>& call) ABSL_LOCKS_EXCLUDED(mu_);

  const Context context_;  // constant after construction

  absl::Mutex mu_;
  std::set<std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mu_);  // with those that gRPC is still about to end
  size_t under_way_ ABSL_GUARDED_BY(mu_) = 0;                   // of these, those that were let in and have not ended
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace attention::server
