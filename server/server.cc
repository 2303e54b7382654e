#include "server/server.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.pb.h"
#include "server/admission/admission.h"
#include "server/connections/connection_acceptor.h"
#include "server/connections/connection_options.h"
#include "server/connections/listen_address.h"
#include "server/connections/listening_socket.h"
#include "server/engine/engine.h"
#include "server/engine/onednn/onednn.h"
#include "server/engine/onednn/warm_up.h"
#include "server/rpc/attend_service.h"
#include "server/rpc/self_test_runner.h"
#include "server/rpc/weight_service.h"
#include "server/runtime/clock.h"
#include "server/runtime/memory_limit.h"
#include "server/runtime/process.h"
#include "server/runtime/serial_executor.h"
#include "server/weights/repository.h"

namespace attention::server {
namespace {

// Changes of the weights that may wait while another one runs.
constexpr size_t kMaxWaitingLoads = 16;

// Nice value of the loader thread, so that loading never competes with requests.
constexpr int kLoaderNice = 19;

// How often --watch-weights checks the weights folder.
constexpr absl::Duration kWatchInterval = absl::Seconds(1);

// Weight sets that the line of the start names.
constexpr size_t kMaxLoggedNames = 20;

// Descriptors that connections leave to files.
constexpr int64_t kDescriptorsForFiles = 64;

// gRPC's memory besides the requests that fit into --max-inflight-bytes, for calls that are small or only begin.
constexpr int64_t kReceiveReserveBytes = int64_t{64} << 20;

// How long the connections stay open after the last call has ended, so that final statuses reach their clients, and
// calls that are still being received get theirs. Only watchers of the health service and idle streams make a stop take
// this long.
constexpr absl::Duration kLeastFlushTime = absl::Milliseconds(200);
constexpr absl::Duration kMostFlushTime = absl::Seconds(2);

// Cost of a batch for each compute thread: some twenty milliseconds. A request that arrives during a batch waits for
// its end, and larger batches are not faster.
constexpr double kBatchCostPerThread = 2e9;

BatchQueueOptions QueueOptions(const Config& config, int threads, int small_threads) {
  BatchQueueOptions options{.max_queued_requests = config.max_queued_requests,
                            .max_queue_delay = config.max_queue_delay,
                            .limits = {.max_batch_tokens = config.max_batch_tokens,
                                       .max_batch_requests = config.max_batch_requests,
                                       .max_batch_cost = kBatchCostPerThread * threads,
                                       .batch_timeout = config.batch_timeout}};
  if (small_threads == 0) options.max_small_cost = 0;
  return options;
}

RepositoryOptions FolderOptions(const Config& config, SelfTestRunner* self_test_runner) {
  RepositoryOptions options{.dir = config.weights_dir,
                            .keep_versions = config.keep_versions,
                            .self_test_runner = self_test_runner,
                            .give_back_memory = ReleaseFreedMemory};
  // Requests, replies and kernels need memory too.
  options.max_weight_bytes = config.max_weight_bytes > 0 ? config.max_weight_bytes : MemoryLimitBytes() / 4 * 3;
  if (config.max_weight_storage > 0) options.max_weight_storage = config.max_weight_storage;
  return options;
}

void SetOptions(const Config& config, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(config.max_message_bytes));
  // PlanReply limits the size of replies before they are allocated.
  builder.SetMaxSendMessageSize(-1);
  SetConnectionOptions({.max_age = config.max_connection_age,
                        .max_age_grace = config.grace,
                        .max_receive_bytes = config.max_inflight_bytes + kReceiveReserveBytes},
                       builder);
}

std::string WeightSetNames(const Registry& registry) {
  std::set<std::string> names;
  for (const ServedWeightSet& served : registry.List()) names.insert(served.weight_set->name);
  if (names.empty()) return "none";
  const size_t more = names.size() - std::min(names.size(), kMaxLoggedNames);
  const std::string first = absl::StrJoin(names.begin(), std::prev(names.end(), static_cast<ptrdiff_t>(more)), ", ");
  return more == 0 ? first : absl::StrCat(first, " and ", more, " more");
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(const Config& config)
      : config_(config),
        admission_(config.max_inflight_bytes),
        self_test_runner_({config.max_message_bytes, config.max_inflight_bytes, admission_.stopped()}),
        repository_(FolderOptions(config, &self_test_runner_), &registry_),
        queue_(QueueOptions(config, threads(), small_threads())),
        attend_service_({.registry = &registry_,
                         .no_weight_set = std::make_shared<const WeightSet>(),
                         .queue = &queue_,
                         .admission = &admission_,
                         .max_message_bytes = config.max_message_bytes,
                         .max_request_cost = config.max_request_cost,
                         .num_threads = threads()}),
        weight_service_(&registry_, &repository_, &loader_, &admission_, config.upload_idle_timeout) {}

  ~Impl() { Stop(); }

  // The order of start. Calls are accepted once StartGrpc returns.
  absl::Status Start(ComputeFn compute) {
    if (auto status = LoadWeights(); !status.ok()) return status;
    if (auto status = StartRunner(std::move(compute)); !status.ok()) return status;
    if (auto status = OpenSockets(); !status.ok()) return status;
    if (auto status = StartGrpc(); !status.ok()) return status;
    SetServing();
    LogStart();
    if (config_.watch_weights) watch_.emplace(&loader_, kWatchInterval, [this] { repository_.PollFolder(); });
    return absl::OkStatus();
  }

  // The order of stop. After a failed start there is no gRPC server to drain.
  void Stop() {
    std::call_once(stop_once_, [this] {
      if (grpc_ != nullptr) Drain();
      queue_.Close();   // lets the runner end
      runner_.reset();  // joins its threads
      grpc_.reset();    // waits for the last callbacks
      watch_.reset();   // waits for the poll of the weights folder
    });
  }

  const std::vector<std::string>& addresses() const { return addresses_; }
  Registry& registry() { return registry_; }

 private:
  int threads() const { return config_.threads > 0 ? config_.threads : UsableCpus(); }
  int small_threads() const { return config_.small_threads >= 0 ? config_.small_threads : std::max(1, threads() / 2); }

  absl::Status LoadWeights() {
    const auto report = repository_.LoadAll();
    if (!report.ok()) return report.status();
    if (!config_.strict_weights || report->broken.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("--strict-weights: cannot load ", absl::StrJoin(report->broken, "; ")));
  }

  absl::Status StartRunner(ComputeFn compute) {
    if (compute == nullptr) {
      auto engine = Engine::Create(threads());
      if (!engine.ok()) return engine.status();
      engine_ = *std::move(engine);
      compute = [this](const WeightSet& weight_set, absl::Span<const AttentionCall* const> calls) {
        return engine_->Compute(weight_set.layer.get(), calls);
      };
    }
    runner_.emplace(&queue_, std::move(compute), BatchRunnerOptions{.num_small_threads = small_threads()});
    return absl::OkStatus();
  }

  absl::Status OpenSockets() {
    for (const std::string& address : config_.listen) {
      auto opened = OpenListeningSockets(address, config_.unix_mode);
      if (!opened.ok()) return opened.status();
      addresses_.push_back(WithPort(address, opened->front().port()));
      std::move(opened->begin(), opened->end(), std::back_inserter(sockets_));
    }
    return absl::OkStatus();
  }

  absl::Status StartGrpc() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    // Without this the linker drops the descriptor of health.proto, and reflection cannot describe the health service.
    google::protobuf::LinkMessageReflection<grpc::health::v1::HealthCheckRequest>();
    grpc::ServerBuilder builder;
    SetOptions(config_, builder);
    builder.RegisterService(&attend_service_);
    builder.RegisterService(&weight_service_);
    const std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> connections =
        builder.experimental().AddExternalConnectionAcceptor(
            grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
    grpc_ = builder.BuildAndStart();
    if (grpc_ == nullptr) return absl::UnavailableError("server: gRPC does not start");
    acceptor_.emplace(std::move(sockets_), MaxConnections(), [connections](int fd) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.fd = fd;
      connections->HandleNewConnection(&connection);
    });
    return absl::OkStatus();
  }

  int64_t MaxConnections() const {
    return std::max<int64_t>(1, std::min(config_.max_connections, MaxDescriptors() - kDescriptorsForFiles));
  }

  void SetServing() {
    for (const char* service : {v1::AttentionService::service_full_name(), v1::WeightService::service_full_name()}) {
      grpc_->GetHealthCheckService()->SetServingStatus(service, true);
    }
  }

  void LogStart() const {
    if (!MultipliesBFloat16()) spdlog::info("this CPU multiplies bfloat16 no faster than float32");
    spdlog::info("attention_server {} is listening on {}; {} threads; {} compiled primitives; weight sets: {}",
                 ATTENTION_VERSION, absl::StrJoin(addresses_, ", "), threads(), WarmPrimitives(),
                 WeightSetNames(registry_));
  }

  // Completes the accepted calls, while new ones are rejected with UNAVAILABLE. gRPC's shutdown must come after that:
  // it would end a call whose request is still being received with CANCELLED, which clients do not retry. Then gRPC
  // waits for such calls, which are rejected once they are received, and ends watchers of the health service and idle
  // streams.
  void Drain() {
    const absl::Time deadline = SteadyNow() + config_.grace;
    spdlog::info("stopping within {}", absl::FormatDuration(config_.grace));
    grpc_->GetHealthCheckService()->Shutdown();  // health: NOT_SERVING
    queue_.Close();                              // batches no longer wait for more requests
    weight_service_.CloseUploads();              // uploads no longer wait for bytes
    const bool drained = admission_.CloseAndWait(config_.grace);
    if (!drained) admission_.StopComputations();
    acceptor_.reset();
    const absl::Duration flush = std::clamp(deadline - SteadyNow(), kLeastFlushTime, kMostFlushTime);
    grpc_->Shutdown(absl::ToChronoTime(absl::Now() + flush));
    spdlog::info(drained ? "stopped" : "stopped; calls that exceeded the grace time were cancelled");
  }

  // In the order of construction. Each member uses only those above it.
  const Config config_;
  Admission admission_;
  Registry registry_;
  RequestSelfTestRunner self_test_runner_;
  Repository repository_;
  SerialExecutor loader_{kMaxWaitingLoads, kLoaderNice};
  BatchQueue queue_;
  std::unique_ptr<Engine> engine_;
  std::optional<BatchRunner> runner_;
  AttendService attend_service_;
  WeightService weight_service_;
  std::unique_ptr<grpc::Server> grpc_;
  std::vector<std::string> addresses_;
  std::vector<ListeningSocket> sockets_;  // until the acceptor owns them
  std::optional<ConnectionAcceptor> acceptor_;
  std::optional<PeriodicTask> watch_;

  std::once_flag stop_once_;
};

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const Config& config, ComputeFn compute) {
  if (auto status = CheckConfig(config); !status.ok()) return status;
  auto impl = std::make_unique<Impl>(config);
  if (auto status = impl->Start(std::move(compute)); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() = default;

const std::vector<std::string>& Server::addresses() const { return impl_->addresses(); }

Registry& Server::registry() { return impl_->registry(); }

void Server::Stop() { impl_->Stop(); }

}  // namespace attention::server
