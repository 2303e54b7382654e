#include "tests/testing/server/running_server.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/engine/engine.h"
#include "tests/testing/server/raw_call.h"

namespace attention::test {
namespace {

constexpr char kExtension[] = ".safetensors";

// A channel without limits of its own, so that only the server's limits apply.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// Called once per process: turns logging off, and keeps gRPC initialised, because its last shutdown would wait up to
// ten seconds for idle threads.
void PrepareProcess() {
  static const bool prepared = [] {
    spdlog::set_level(spdlog::level::off);
    grpc_init();
    return true;
  }();
  static_cast<void>(prepared);
}

absl::StatusOr<server::ComputeFn> ChooseCompute(const RunningServerOptions& options) {
  server::ComputeFn compute = options.compute;
  if (options.gate == nullptr) return compute;
  if (compute == nullptr) {
    auto engine = EngineCompute(std::max(options.config.threads, 1));
    if (!engine.ok()) return engine.status();
    compute = *std::move(engine);
  }
  return options.gate->Before(std::move(compute));
}

}  // namespace

RunningServer::RunningServer() = default;

RunningServer::~RunningServer() = default;

absl::StatusOr<std::unique_ptr<RunningServer>> RunningServer::Start(const RunningServerOptions& options) {
  PrepareProcess();
  std::unique_ptr<RunningServer> running(new RunningServer());
  if (absl::Status status = running->Run(options); !status.ok()) return status;
  return running;
}

absl::Status RunningServer::Run(const RunningServerOptions& options) {
  for (const auto& [name, parameters] : options.checkpoints) {
    weights_folder_.Write(name + kExtension, Serialize(parameters));
  }
  for (const auto& [name, bytes] : options.files) weights_folder_.Write(name + kExtension, bytes);
  server::Config config = options.config;
  config.listen = {"127.0.0.1:0"};
  config.weights_dir = weights_folder_.path().string();
  if (options.gate != nullptr) config.small_threads = 0;
  auto compute = ChooseCompute(options);
  if (!compute.ok()) return compute.status();
  auto server = server::Server::Start(config, *std::move(compute));
  if (!server.ok()) return server.status();
  server_ = *std::move(server);

  auto client = Client::Connect(address(), options.client);
  if (!client.ok()) return client.status();
  client_ = *std::move(client);
  raw_ = std::make_unique<RawStubs>(OpenChannel(address()));
  return absl::OkStatus();
}

absl::Status RunningServer::Load(const std::string& checkpoint, const Parameters& parameters) {
  weights_folder_.Write(checkpoint + kExtension, Serialize(parameters));
  return client().LoadCheckpoint(checkpoint).status();
}

absl::StatusOr<v1::AttendResponse> RunningServer::AttendRaw(const v1::AttendRequest& request) {
  grpc::ClientContext context;
  v1::AttendResponse response;
  const grpc::Status status = raw_->attention->Attend(&context, request, &response);
  if (!status.ok()) return ToAbsl(status);
  return response;
}

absl::StatusOr<server::ComputeFn> EngineCompute(int num_threads) {
  auto created = server::Engine::Create(num_threads);
  if (!created.ok()) return created.status();
  const std::shared_ptr<server::Engine> engine = *std::move(created);
  return [engine](const server::WeightSet& weight_set, absl::Span<const server::AttentionCall* const> calls) {
    return engine->Compute(weight_set.layer.get(), calls);
  };
}

}  // namespace attention::test
