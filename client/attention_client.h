#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace attention {

struct ClientOptions {
  // Longest message in either direction, in bytes. Default and greatest value: 2147483647, protobuf's own limit. A
  // longer reply is RESOURCE_EXHAUSTED.
  int64_t max_message_bytes = 2147483647;

  // A call that failed with UNAVAILABLE (the server is full, stops, or is not there) is sent again, up to this many
  // attempts in all, after a random part of a time that starts at `retry_initial_backoff` and doubles up to
  // `retry_max_backoff`, or as long as the server asks. 1 = no retry; 5 is the most that gRPC allows. Never past the
  // deadline. Holds for Attend, AttendAsync, AttendFuture, ListWeightSets, GetWeightSet and CheckHealth; not for
  // LoadCheckpoint and Unload, which would act twice, nor for streams.
  int max_attempts = 4;
  std::chrono::milliseconds retry_initial_backoff{20};
  std::chrono::milliseconds retry_max_backoff{1000};
};

struct CallOptions {
  // How long the call may take, retries included; DEADLINE_EXCEEDED after that. Default: no limit. For a stream, from
  // its opening to its end.
  std::optional<std::chrono::nanoseconds> timeout = {};
};

// One request; attention.v1.AttendRequest documents the meaning of each field.
struct AttendRequest {
  std::string weight_set = {};
  int64_t version = 0;
  TensorRef inputs_q = {};                 // [batch…, q_length, in_features]
  std::optional<TensorRef> inputs_k = {};  // [batch…, kv_length, in_k_features]; default: inputs_q
  std::optional<TensorRef> inputs_v = {};  // [batch…, kv_length, in_v_features]; default: inputs_k
  std::optional<TensorRef> mask = {};  // bool, true = attend, broadcast to [batch…, num_heads, q_length, kv_length]
  bool return_attn_weights = false;
  bool return_intermediates = false;
  std::optional<DataType> output_dtype = {};  // default: that of inputs_q
  std::string request_id = {};
  int32_t priority = 0;
};

struct Timing {
  std::chrono::nanoseconds queue_time{0};
  std::chrono::nanoseconds compute_time{0};
  int32_t batch_requests = 0;
  int64_t batch_tokens = 0;
  std::string batch_close_reason;  // "QUEUE_DRAINED", …
};

struct Intermediates {
  Tensor query;    // [batch…, q_length, num_heads, head_dim]
  Tensor key;      // [batch…, kv_length, num_heads, head_dim]
  Tensor value;    // [batch…, kv_length, num_heads, head_dim]
  Tensor scores;   // [batch…, num_heads, q_length, kv_length], before the mask
  Tensor context;  // [batch…, q_length, num_heads, head_dim]
};

struct AttendReply {
  Tensor output;  // [batch…, q_length, out_features]
  std::string weight_set;
  int64_t version = 0;
  std::string request_id;
  Timing timing;
  std::optional<Tensor> attn_weights;  // [batch…, num_heads, q_length, kv_length]
  std::optional<Intermediates> intermediates;
};

struct ParameterInfo {
  std::string name;
  std::string dtype;  // "float32", …
  std::vector<int64_t> shape;
};

struct WeightSetInfo {
  std::string name;
  int64_t version = 0;
  std::string checkpoint;
  int64_t in_features = 0;
  int64_t in_k_features = 0;
  int64_t in_v_features = 0;
  int64_t num_heads = 0;
  int64_t head_dim = 0;
  int64_t out_features = 0;
  int64_t bytes = 0;
  std::vector<ParameterInfo> parameters;
};

struct LoadedCheckpoint {
  std::vector<WeightSetInfo> weight_sets;
  std::vector<std::string> unused_tensors;
};

class AttendStream;
class Connection;

// A client of the attention server.
//
//   auto client = attention::Client::Connect("localhost:50051");
//   const int64_t shape[] = {1, 2, 3};
//   const float numbers[] = {1, 1, 1, 1, 1, 1};
//   auto reply = client->Attend({.weight_set = "demo/ones", .inputs_q = attention::Float32(numbers, shape)});
//   if (!reply.ok()) …reply.status()…
//   reply->output.Floats();
//
// A cheap value: copies share one connection, which closes with the last of them (calls under way still end).
// Thread-safe.
//
// Errors are those of the server, code and text; besides, INVALID_ARGUMENT for a request that cannot be sent (its shape
// and bytes disagree), and RESOURCE_EXHAUSTED for one larger than max_message_bytes, both before anything is copied or
// sent; UNAVAILABLE if there is no server; INTERNAL for a reply whose tensors are damaged.
//
// Do not fork a process after its first use of a client and then use that client in the child: gRPC's threads do not
// live there. Fork before, or exec after.
class Client {
 public:
  // `target` is an address as gRPC takes it: "host:port", "unix:/path", "dns:///name:port" (calls go in turn to all the
  // addresses that it resolves to). Returns at once; the connection is made by the first call, or by WaitUntilReady.
  // Each Connect opens connections of its own, not encrypted. INVALID_ARGUMENT if `target` is empty or `options` are
  // out of range.
  static absl::StatusOr<Client> Connect(const std::string& target, const ClientOptions& options = {});

  // Waits until a connection to the server stands; DEADLINE_EXCEEDED with the target if none does within `timeout`.
  // Every other call fails at once, but for its retries, while there is no server.
  absl::Status WaitUntilReady(std::chrono::nanoseconds timeout) const;

  // Computes one request and waits for the reply.
  absl::StatusOr<AttendReply> Attend(const AttendRequest& request, const CallOptions& options = {}) const;

  // The same without waiting: `done` runs exactly once, on a thread of gRPC, also when the request is refused before it
  // is sent; it should neither block nor throw. What `request` points to is copied before the return.
  void AttendAsync(const AttendRequest& request, std::function<void(absl::StatusOr<AttendReply>)> done,
                   const CallOptions& options = {}) const;
  std::future<absl::StatusOr<AttendReply>> AttendFuture(const AttendRequest& request,
                                                        const CallOptions& options = {}) const;

  // Many requests over one call, replies in the order in which they finish. Never null; a stream that could not be
  // opened ends at once, and Finish says why.
  std::unique_ptr<AttendStream> OpenStream(const CallOptions& options = {}) const;

  absl::StatusOr<std::vector<WeightSetInfo>> ListWeightSets(const CallOptions& options = {}) const;
  absl::StatusOr<WeightSetInfo> GetWeightSet(const std::string& name, const CallOptions& options = {}) const;
  absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& checkpoint, const CallOptions& options = {}) const;
  // The version that was served until now.
  absl::StatusOr<int64_t> Unload(const std::string& name, const CallOptions& options = {}) const;

  // Asks grpc.health.v1 for one service of the server, "" for all of it: OK if it serves, UNAVAILABLE if not, NOT_FOUND
  // if it does not know the service.
  absl::Status CheckHealth(const std::string& service = "", const CallOptions& options = {}) const;

 private:
  explicit Client(std::shared_ptr<Connection> connection);

  std::shared_ptr<Connection> connection_;
};

// One AttendStream call. Write and WritesDone may run at the same time as Read and Cancel on another thread. It may go
// at any time, which gives up the call; it needs not its Client.
//
//   auto stream = client->OpenStream();
//   for (const auto& request : requests) stream->Write(request);
//   stream->WritesDone();
//   while (auto item = stream->Read()) …item->request_id, item->reply…
//   absl::Status status = stream->Finish();
//
// Replies that came before they were read wait in memory, so that one thread may first write everything and then read.
class AttendStream {
 public:
  struct Item {
    std::string request_id;
    absl::StatusOr<AttendReply> reply;         // an error is that of this request; the stream goes on
    std::chrono::milliseconds retry_after{0};  // beside UNAVAILABLE: how long to wait before writing the request again
  };

  virtual ~AttendStream() = default;

  // Sends one request. Blocks while 64 of the stream's requests have no reply. The request is copied before the return.
  //
  // INVALID_ARGUMENT or RESOURCE_EXHAUSTED for a request that cannot be sent, as in Client, and FAILED_PRECONDITION
  // after WritesDone: these leave the stream as it is. Else the stream has ended, and the status is that of Finish, or
  // ABORTED if the server ended it early without an error. OK does not say that the request arrived: its reply does.
  virtual absl::Status Write(const AttendRequest& request) = 0;

  // Says that no more requests follow.
  virtual void WritesDone() = 0;

  // The next reply; blocks until there is one. Nothing at the end of the stream, which comes after WritesDone, Cancel
  // or an error.
  virtual std::optional<Item> Read() = 0;

  // The status of the whole call, for which it waits. Does what WritesDone does, if that was not called.
  virtual absl::Status Finish() = 0;

  // Gives up the call: Read returns what has already come and then nothing, Finish CANCELLED. Any thread.
  virtual void Cancel() = 0;
};

}  // namespace attention
