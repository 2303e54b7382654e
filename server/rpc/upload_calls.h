#pragma once

#include <grpcpp/support/server_callback.h>

#include <deque>
#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "attention/v1/weights.grpc.pb.h"
#include "server/admission/admission.h"
#include "server/runtime/serial_executor.h"
#include "server/weights/repository.h"

namespace attention::server {

// The active UploadCheckpoint calls. Each reads one message at a time, and the next only after the bytes of the last
// one are written. So a client that sends faster has to wait, and a call needs the memory of one message. All work runs
// on the loader thread. The first error ends the call; what the client sends afterwards is ignored. Thread-safe.
class UploadCalls {
 public:
  struct Context {
    Repository* repository = nullptr;
    SerialExecutor* loader = nullptr;
    Admission* admission = nullptr;

    // A call that sends nothing for so long ends with DEADLINE_EXCEEDED.
    absl::Duration idle_timeout = absl::InfiniteDuration();
  };

  // The limits of active uploads and of those that wait for one of them to end. Further calls are UNAVAILABLE, and so
  // is a call that has waited for the idle timeout.
  static constexpr size_t kMaxUploads = 16;
  static constexpr size_t kMaxWaiting = 16;

  // The members of the context must outlive this and its calls.
  explicit UploadCalls(const Context& context);

  // Starts a call. The reactor is destroyed when gRPC is done with it.
  grpc::ServerReadReactor<v1::UploadCheckpointRequest>* Start(grpc::CallbackServerContext* call,
                                                              v1::LoadCheckpointResponse* response)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the calls that still wait for bytes, and all later ones, with UNAVAILABLE. Calls that have received their last
  // byte are completed. Called when the server stops, which would otherwise wait for slow clients.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Call;

  enum class Place { kActive, kWaiting };

  absl::StatusOr<Place> Add(const std::shared_ptr<Call>& call, const absl::Status& entered) ABSL_LOCKS_EXCLUDED(mu_);
  void Leave() ABSL_LOCKS_EXCLUDED(mu_);
  void StopWaiting(const Call* call) ABSL_LOCKS_EXCLUDED(mu_);
  void EndIdleCalls() ABSL_LOCKS_EXCLUDED(mu_);
  void Remove(const std::shared_ptr<Call>& call) ABSL_LOCKS_EXCLUDED(mu_);

  const Context context_;  // constant after construction

  absl::Mutex mu_;
  std::set<std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mu_);  // with ended calls that gRPC has not released yet
  std::deque<std::shared_ptr<Call>> waiting_ ABSL_GUARDED_BY(mu_);
  size_t active_ ABSL_GUARDED_BY(mu_) = 0;  // those of calls_ that were admitted and have not ended
  bool closed_ ABSL_GUARDED_BY(mu_) = false;

  PeriodicTask idle_check_;  // declared last, because it starts in the constructor
};

}  // namespace attention::server
