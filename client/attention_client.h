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
#include "client/mask.h"
#include "client/tensor.h"
#include "client/weights.h"

namespace attention {

struct ClientOptions {
  // Longest message in either direction, in bytes: 1 to 2147483647, protobuf's own limit, which is the default. A
  // longer reply is RESOURCE_EXHAUSTED.
  int64_t max_message_bytes = 2147483647;

  // Number of attempts for one call, 1 (no retry) to 5 (the most that gRPC allows). A call that fails with UNAVAILABLE
  // (the server is full, stopping or unreachable) is sent again, but never after its deadline. Before each retry the
  // client waits as long as the server says, or else a random part of a backoff that starts at `retry_initial_backoff`
  // and doubles up to `retry_max_backoff`.
  //
  // Retried are Attend, AttendAsync, AttendFuture, ListWeightSets, GetWeightSet and CheckHealth. Calls that change the
  // server's weight sets are not, because they would take effect twice; nor are streams.
  int max_attempts = 4;
  std::chrono::milliseconds retry_initial_backoff{20};  // at least 1 ms
  std::chrono::milliseconds retry_max_backoff{1000};    // at least retry_initial_backoff
};

struct CallOptions {
  // Time limit of the call, retries included; a call that exceeds it fails with DEADLINE_EXCEEDED. Default: no limit.
  // For a stream it is the time from opening to end.
  std::optional<std::chrono::nanoseconds> timeout = {};
};

// Axis order of the inputs and of the output of attention without projections.
enum class HeadAxes : uint8_t {
  kLengthFeatures = 1,  // [batch…, length, heads × head_dim], head 0 first. ONNX's 3-D layout.
  kLengthHeads = 2,     // [batch…, length, heads, head_dim]. flax, JAX.
  kHeadsLength = 3,  // [batch…, heads, length, head_dim]. PyTorch's scaled_dot_product_attention, ONNX's 4-D layout.
};

struct HeadLayout {
  int64_t num_heads = 0;     // of inputs_q; required, at least 1
  int64_t num_kv_heads = 0;  // of inputs_k and inputs_v; divides num_heads. 0: num_heads. 1: multi-query attention
  HeadAxes axes = {};        // required
};

// Result for a query that sees no key.
enum class EmptyRows : uint8_t {
  kUniform = 1,  // every key, hidden or not, has weight 1/kv_length; the context is the mean of the values. flax.
  kZero = 2,     // weights and context are 0, so the output is the output bias. ONNX, PyTorch.
  kError = 3,    // the request fails with INVALID_ARGUMENT, which gives the number of such rows and the first of them
};

// One request. attention.v1.AttendRequest documents each field, attention.v1.AttentionService the formula. Input
// tensors are float32, bfloat16, float16 or float64.
//
// Without a weight set the request is attention without projections: inputs_q, inputs_k and inputs_v are the query, key
// and value, `heads` gives their axis order, and the output is the context.
struct AttendRequest {
  std::string weight_set = {};             // empty: attention without projections
  int64_t version = 0;                     // 0: the highest. NOT_FOUND if it is not served
  std::string alias = {};                  // an alias instead of a version
  TensorRef inputs_q = {};                 // [batch…, q_length, in_features]
  std::optional<TensorRef> inputs_k = {};  // [batch…, kv_length, in_k_features]; default: inputs_q
  std::optional<TensorRef> inputs_v = {};  // [batch…, kv_length, in_v_features]; default: inputs_k
  Mask mask = {};                          // which query sees which key; default: every query sees every key
  // Added to the scores after the soft cap. Broadcast to [batch…, num_heads, q_length, kv_length], as Mask::dense. −∞
  // hides a key. `bias` of flax and JAX, the float attn_mask of PyTorch and ONNX.
  std::optional<TensorRef> bias = {};
  std::optional<HeadLayout> heads = {};  // required without a weight set, INVALID_ARGUMENT with one
  std::optional<float> scale = {};       // factor of query · key; finite; default: 1/√head_dim
  std::optional<float> softcap = {};     // bounds the scores to ±softcap; positive; default: no bound
  EmptyRows empty_rows = EmptyRows::kUniform;
  bool return_attn_weights = false;       // fill AttendReply::attn_weights
  bool return_intermediates = false;      // fill AttendReply::intermediates and attn_weights; slow, for inspection
  bool return_mean_attn_weights = false;  // fill AttendReply::mean_attn_weights
  bool return_log_sum_exp = false;        // fill AttendReply::log_sum_exp
  int64_t top_k = 0;                      // fill AttendReply::top_keys with this many keys, at most kv_length; 0: none
  std::optional<DataType> output_dtype = {};  // of AttendReply::output; default: that of inputs_q
  // Type of the operands of each product: float32 (default) or bfloat16. bfloat16 is faster on CPUs that multiply it,
  // and accurate to about three digits. Sums and the softmax are always float32.
  std::optional<DataType> compute_dtype = {};
  std::string request_id = {};  // returned unchanged and written to the server's log; at most 128 bytes
  int32_t priority = 0;         // requests with higher numbers leave the queue of their weight set first
};

// What happened to the request on the server. All zero and "UNSPECIFIED" for a reply without elements.
struct Timing {
  std::chrono::nanoseconds queue_time{0};    // from admission to the queue until the batch was closed
  std::chrono::nanoseconds compute_time{0};  // of the whole batch
  int32_t batch_requests = 0;                // in the batch, this one included
  int64_t batch_tokens = 0;                  // query and key rows in the batch; see attention.v1.Timing
  std::string batch_close_reason;  // a name of attention.v1.BatchCloseReason: "QUEUE_DRAINED", "MAX_TOKENS", …
};

// The result of each line of the formula, float32, as it was computed.
struct Intermediates {
  // Not set without a weight set, because they are the inputs.
  std::optional<Tensor> query = {};          // [batch…, q_length, num_heads, head_dim], before the scale
  std::optional<Tensor> key = {};            // [batch…, kv_length, num_kv_heads, head_dim]
  std::optional<Tensor> value = {};          // [batch…, kv_length, num_kv_heads, value_head_dim]
  Tensor scores;                             // [batch…, num_heads, q_length, kv_length], with the scale
  std::optional<Tensor> capped_scores = {};  // the same shape; only with a soft cap
  Tensor masked_scores;                      // the same shape; input of the softmax, −∞ at hidden keys
  Tensor context;                            // [batch…, q_length, num_heads, value_head_dim]
};

// The keys with the largest weights, in descending order; of keys with equal weights the lower index is first.
struct TopKeys {
  Tensor keys;     // [batch…, num_heads, q_length, top_k], int32; −1 where fewer keys have a weight above 0
  Tensor weights;  // the same shape, float32; 0 where the key is −1
};

struct AttendReply {
  Tensor output;  // [batch…, q_length, out_features]; without a weight set the context, in the axis order of `heads`
  std::string weight_set;  // empty without a weight set
  int64_t version = 0;     // 0 without a weight set
  std::string request_id;  // as in the request
  Timing timing;
  // Number of rows of [batch…, num_heads, q_length] that see no key. Rows after q_lengths do not count.
  int64_t empty_rows = 0;

  // Set only if requested. All are float32, except for TopKeys::keys.
  std::optional<Tensor> attn_weights;  // [batch…, num_heads, q_length, kv_length]; each row sums to 1
  std::optional<Intermediates> intermediates;
  std::optional<Tensor> mean_attn_weights;  // [batch…, q_length, kv_length], averaged over the heads
  std::optional<TopKeys> top_keys;
  // [batch…, num_heads, q_length], over the keys' masked_scores; −∞ for an empty row. merge.h uses it to merge replies
  // for parts of the keys.
  std::optional<Tensor> log_sum_exp;
};

class AttendStream;
struct Connection;

// A client of the attention server.
//
//   auto client = attention::Client::Connect("localhost:50051");
//   const int64_t shape[] = {1, 2, 3};
//   const float numbers[] = {1, 1, 1, 1, 1, 1};
//   auto reply = client->Attend({.weight_set = "demo/ones", .inputs_q = attention::Float32(numbers, shape)});
//   if (!reply.ok()) return reply.status();
//   const std::vector<float> output = reply->output.Floats();
//
// Copies are cheap and share one connection, which closes when the last copy is destroyed. Calls in progress still
// finish. Thread-safe.
//
// Errors have the server's code and text. The client itself returns:
//   INVALID_ARGUMENT     the shape and the bytes of a tensor disagree; nothing was copied or sent
//   RESOURCE_EXHAUSTED   the request is longer than max_message_bytes; nothing was copied or sent
//   UNAVAILABLE          no server is reachable
//   INTERNAL             the reply is malformed
//
// Do not use a client in a child process that was forked after the client's first use: gRPC's threads do not exist in
// the child. Fork before the first use, or call exec after the fork.
class Client {
 public:
  // `target` is an address in gRPC's syntax: "host:port", "unix:/path", or "dns:///name:port", whose calls take turns
  // among all addresses of the name. Returns at once; the first call or WaitUntilReady makes the connection. Each
  // Connect opens its own unencrypted connections. INVALID_ARGUMENT if `target` is empty or an option is out of range.
  static absl::StatusOr<Client> Connect(const std::string& target, const ClientOptions& options = {});

  // Blocks until the client is connected to the server. DEADLINE_EXCEEDED, with the target, if that takes longer than
  // `timeout`. Any other call fails as soon as its retries are used up if there is no server.
  absl::Status WaitUntilReady(std::chrono::nanoseconds timeout) const;

  // Sends one request and blocks until its reply.
  absl::StatusOr<AttendReply> Attend(const AttendRequest& request, const CallOptions& options = {}) const;

  // Like Attend, without blocking. `done` runs exactly once, on a gRPC thread, even if the request is refused before it
  // is sent. It must not throw and should not block. The tensors of `request` are copied before the return.
  void AttendAsync(const AttendRequest& request, std::function<void(absl::StatusOr<AttendReply>)> done,
                   const CallOptions& options = {}) const;
  std::future<absl::StatusOr<AttendReply>> AttendFuture(const AttendRequest& request,
                                                        const CallOptions& options = {}) const;

  // Opens one call for many requests, whose replies arrive in order of completion. Never null: if the stream cannot be
  // opened it ends at once, and Finish returns the reason.
  std::unique_ptr<AttendStream> OpenStream(const CallOptions& options = {}) const;

  // The weight sets whose names begin with `prefix`, sorted by name, then by version in descending order.
  absl::StatusOr<std::vector<WeightSetInfo>> ListWeightSets(const std::string& prefix = "",
                                                            const CallOptions& options = {}) const;

  // One version of a weight set. NOT_FOUND if it is not served.
  absl::StatusOr<WeightSetInfo> GetWeightSet(const std::string& name, const VersionChoice& which = {},
                                             const CallOptions& options = {}) const;

  // Loads a checkpoint from the server's weights folder.
  absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& checkpoint,
                                                  const CheckpointOptions& checkpoint_options = {},
                                                  const CallOptions& options = {}) const;

  // Sends a file to the server, which stores and serves it. Reads the file twice, because the server receives its
  // SHA-256 first, and holds at most 1 MiB of it in memory. Uses a connection of its own, so that other calls are not
  // delayed. Stops sending as soon as the server refuses the file, and returns the server's status. If the file cannot
  // be read, returns the operating system's reason: NOT_FOUND, PERMISSION_DENIED, …; INVALID_ARGUMENT if it is not a
  // regular file.
  absl::StatusOr<LoadedCheckpoint> UploadCheckpoint(const CheckpointUpload& upload,
                                                    const CallOptions& options = {}) const;

  // Stops serving a checkpoint. Returns the highest version that was served.
  absl::StatusOr<int64_t> Unload(const std::string& checkpoint, const CallOptions& options = {}) const;

  // Deletes one version of a checkpoint, or all versions if `version` is 0, with the file in the server's weights
  // folder that has its content.
  absl::StatusOr<DeletedCheckpoint> Delete(const std::string& checkpoint, int64_t version = 0,
                                           const CallOptions& options = {}) const;

  // Sets or removes an alias of a checkpoint. Returns the version that the alias named before, 0 if it did not exist.
  absl::StatusOr<int64_t> SetAlias(const AliasChange& change, const CallOptions& options = {}) const;

  // Checks the health of one service of the server, or of the whole server if `service` is empty, over grpc.health.v1.
  // OK if it serves, UNAVAILABLE if it does not, NOT_FOUND if the server does not know the service.
  absl::Status CheckHealth(const std::string& service = "", const CallOptions& options = {}) const;

 private:
  explicit Client(std::shared_ptr<Connection> connection);

  std::shared_ptr<Connection> connection_;
};

// One AttendStream call. Write and WritesDone may run on one thread while Read and Cancel run on another. May be
// destroyed at any time, which cancels the call. Does not need its Client to stay alive.
//
//   auto stream = client->OpenStream();
//   for (const auto& request : requests) {
//     if (!stream->Write(request).ok()) break;
//   }
//   stream->WritesDone();
//   while (auto item = stream->Read()) Use(item->request_id, item->reply);
//   absl::Status status = stream->Finish();
//
// Unread replies are kept in memory, so one thread may write all requests before it reads the first reply.
class AttendStream {
 public:
  struct Item {
    std::string request_id;
    absl::StatusOr<AttendReply> reply;  // an error concerns this request only and does not end the stream
    // With UNAVAILABLE: how long to wait before sending the request again. Negative: the server cannot answer before
    // the deadline. 0: it has no advice.
    std::chrono::milliseconds retry_after{0};
  };

  virtual ~AttendStream() = default;

  // Sends one request. Blocks while 64 requests of the stream have no reply. The request is copied before the return.
  // OK does not mean that the server received the request; only its reply does.
  //
  // Errors that leave the stream open: INVALID_ARGUMENT and RESOURCE_EXHAUSTED for a request that cannot be sent, as in
  // Client; FAILED_PRECONDITION after WritesDone. Any other error means that the stream has ended: the status is that
  // of Finish, or ABORTED if the server ended the stream early without an error.
  virtual absl::Status Write(const AttendRequest& request) = 0;

  // Declares that no more requests follow.
  virtual void WritesDone() = 0;

  // The next reply. Blocks until there is one. std::nullopt at the end of the stream: after the last reply once
  // WritesDone was called, after Cancel, or after an error.
  virtual std::optional<Item> Read() = 0;

  // Calls WritesDone, blocks until the call ends, and returns its status. Unread replies can still be read.
  virtual absl::Status Finish() = 0;

  // Cancels the call. Read returns the replies already received, then std::nullopt; Finish returns CANCELLED.
  // Thread-safe.
  virtual void Cancel() = 0;
};

}  // namespace attention
