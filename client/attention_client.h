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
  // Longest message in either direction, in bytes. Default and greatest value: 2147483647, protobuf's own limit. A
  // longer reply is RESOURCE_EXHAUSTED.
  int64_t max_message_bytes = 2147483647;

  // A call that failed with UNAVAILABLE (the server is full, stops, or is not there) is sent again, up to this many
  // attempts in all, after a random part of a time that starts at `retry_initial_backoff` and doubles up to
  // `retry_max_backoff`, or as long as the server asks. 1 = no retry; 5 is the most that gRPC allows. Never past the
  // deadline. Holds for Attend, AttendAsync, AttendFuture, ListWeightSets, GetWeightSet and CheckHealth; not for what
  // changes the server's weight sets, which would act twice, nor for streams.
  int max_attempts = 4;
  std::chrono::milliseconds retry_initial_backoff{20};
  std::chrono::milliseconds retry_max_backoff{1000};
};

struct CallOptions {
  // How long the call may take, retries included; DEADLINE_EXCEEDED after that. Default: no limit. For a stream, from
  // its opening to its end.
  std::optional<std::chrono::nanoseconds> timeout = {};
};

// Where the heads stand in the inputs, and in the output, of attention without projections.
enum class HeadAxes : uint8_t {
  kLengthFeatures = 1,  // [batch…, length, heads × head_dim], head 0 first. ONNX's 3-D layout.
  kLengthHeads = 2,     // [batch…, length, heads, head_dim]. flax, JAX.
  kHeadsLength = 3,  // [batch…, heads, length, head_dim]. PyTorch's scaled_dot_product_attention, ONNX's 4-D layout.
};

struct HeadLayout {
  int64_t num_heads = 0;     // of inputs_q; required
  int64_t num_kv_heads = 0;  // of inputs_k and inputs_v; divides num_heads; 0: num_heads, 1: multi-query attention
  HeadAxes axes = {};        // required
};

// What becomes of a query that sees no key.
enum class EmptyRows : uint8_t {
  kUniform = 1,  // weights 1/kv_length at every key, hidden ones too; context the mean of the values. flax.
  kZero = 2,     // weights and context 0, so the output is the output bias. ONNX, PyTorch.
  kError = 3,    // INVALID_ARGUMENT, with the number of such rows and the first of them.
};

// One request; attention.v1.AttendRequest documents the meaning of each field, attention.v1.AttentionService the
// formula. Tensors of numbers are float32, bfloat16, float16 or float64.
//
// Without a weight set it is attention without projections: inputs_q, inputs_k and inputs_v are query, key and value
// themselves, `heads` says where their heads stand, and the output is the context.
struct AttendRequest {
  std::string weight_set = {};             // empty: attention without projections
  int64_t version = 0;                     // 0: the highest; one that is not served is NOT_FOUND
  std::string alias = {};                  // an alias instead of a version
  TensorRef inputs_q = {};                 // [batch…, q_length, in_features]
  std::optional<TensorRef> inputs_k = {};  // [batch…, kv_length, in_k_features]; default: inputs_q
  std::optional<TensorRef> inputs_v = {};  // [batch…, kv_length, in_v_features]; default: inputs_k
  Mask mask = {};                          // which query sees which key; default: each sees all
  // Added to the scores, after the soft cap; broadcast to [batch…, num_heads, q_length, kv_length] as Mask::dense.
  // −∞ hides a key. `bias` of flax and JAX, the float attn_mask of PyTorch and ONNX.
  std::optional<TensorRef> bias = {};
  std::optional<HeadLayout> heads = {};  // required without a weight set, INVALID_ARGUMENT with one
  std::optional<float> scale = {};       // factor of the query before it meets the keys; finite; default: 1/√head_dim
  std::optional<float> softcap = {};     // bounds the scores to ±softcap; positive; default: no bound
  EmptyRows empty_rows = EmptyRows::kUniform;
  bool return_attn_weights = false;           // AttendReply::attn_weights
  bool return_intermediates = false;          // AttendReply::intermediates and attn_weights; not meant for throughput
  bool return_mean_attn_weights = false;      // AttendReply::mean_attn_weights
  bool return_log_sum_exp = false;            // AttendReply::log_sum_exp
  int64_t top_k = 0;                          // AttendReply::top_keys with so many keys, at most kv_length; 0: none
  std::optional<DataType> output_dtype = {};  // of AttendReply::output; default: that of inputs_q
  // Type of the numbers that are multiplied: float32 (default) or bfloat16, which is faster where the CPU multiplies
  // it, and right to some three digits. Sums and the softmax are float32 in any case.
  std::optional<DataType> compute_dtype = {};
  std::string request_id = {};  // returned as it is, and written in the server's log; at most 128 bytes
  int32_t priority = 0;         // higher numbers leave the queue of their weight set first
};

struct Timing {
  std::chrono::nanoseconds queue_time{0};
  std::chrono::nanoseconds compute_time{0};
  int32_t batch_requests = 0;
  int64_t batch_tokens = 0;
  std::string batch_close_reason;  // "QUEUE_DRAINED", …
};

// Every line of the formula, float32, as it was computed.
struct Intermediates {
  // Not set without a weight set: there they are the inputs.
  std::optional<Tensor> query = {};          // [batch…, q_length, num_heads, head_dim], before the scale
  std::optional<Tensor> key = {};            // [batch…, kv_length, num_kv_heads, head_dim]
  std::optional<Tensor> value = {};          // [batch…, kv_length, num_kv_heads, value_head_dim]
  Tensor scores;                             // [batch…, num_heads, q_length, kv_length], with the scale
  std::optional<Tensor> capped_scores = {};  // the same shape; only with a soft cap
  Tensor masked_scores;                      // the same shape: what the softmax sees, −∞ at hidden keys
  Tensor context;                            // [batch…, q_length, num_heads, value_head_dim]
};

// The keys with the largest weights, the largest first, of equal ones the lower index.
struct TopKeys {
  Tensor keys;     // [batch…, num_heads, q_length, top_k], int32; −1 where fewer keys have a weight above 0
  Tensor weights;  // the same shape, float32; 0 where the key is −1
};

struct AttendReply {
  Tensor output;  // [batch…, q_length, out_features]; without a weight set the context, with the axes of `heads`
  std::string weight_set;  // "" without one
  int64_t version = 0;
  std::string request_id;
  Timing timing;
  // How many rows of [batch…, num_heads, q_length], those behind q_lengths left out, see no key.
  int64_t empty_rows = 0;

  // The others only if asked for, float32 but for the keys.
  std::optional<Tensor> attn_weights;  // [batch…, num_heads, q_length, kv_length]; each row sums to 1
  std::optional<Intermediates> intermediates;
  std::optional<Tensor> mean_attn_weights;  // [batch…, q_length, kv_length], averaged over the heads
  std::optional<TopKeys> top_keys;
  // [batch…, num_heads, q_length], of masked_scores; −∞ for an empty row. merge.h joins replies for parts of the keys.
  std::optional<Tensor> log_sum_exp;
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

  // Those whose names begin with `prefix`, sorted by name, of equal names the highest version first.
  absl::StatusOr<std::vector<WeightSetInfo>> ListWeightSets(const std::string& prefix = "",
                                                            const CallOptions& options = {}) const;
  absl::StatusOr<WeightSetInfo> GetWeightSet(const std::string& name, const VersionChoice& which = {},
                                             const CallOptions& options = {}) const;

  // Loads a checkpoint from the server's weights folder.
  absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& checkpoint,
                                                  const CheckpointOptions& checkpoint_options = {},
                                                  const CallOptions& options = {}) const;
  // Sends a file to the server, which stores and serves it. Reads it twice, since the server is told its digest first,
  // and holds a MiB of it at a time. The call has a connection of its own, so that others do not wait behind it. If the
  // server refuses the file, sending ends and the status is the server's. The system's reason for a file that cannot be
  // read: NOT_FOUND, PERMISSION_DENIED, …; INVALID_ARGUMENT if it is not a regular file.
  absl::StatusOr<LoadedCheckpoint> UploadCheckpoint(const CheckpointUpload& upload,
                                                    const CallOptions& options = {}) const;

  // The highest version that was served until now.
  absl::StatusOr<int64_t> Unload(const std::string& checkpoint, const CallOptions& options = {}) const;
  // Deletes one version, or all of them with 0; returns which.
  absl::StatusOr<std::vector<int64_t>> Delete(const std::string& checkpoint, int64_t version = 0,
                                              const CallOptions& options = {}) const;
  // The version that the alias named before; 0: it was not there.
  absl::StatusOr<int64_t> SetAlias(const AliasChange& change, const CallOptions& options = {}) const;

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
