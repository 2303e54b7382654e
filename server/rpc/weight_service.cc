#include "server/rpc/weight_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/names.h"
#include "server/observability/logging.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/proto_conversion.h"
#include "server/runtime/catch_exceptions.h"
#include "server/runtime/clock.h"

namespace attention::server {
namespace {

constexpr int kMaxPageSize = 1000;

absl::Status CheckVersion(absl::string_view field, int64_t version) {
  if (version >= 0) return absl::OkStatus();
  return FieldError(field, "at least 0", version);
}

// Names a change of one checkpoint in the log.
std::string LogName(absl::string_view change, const std::string& checkpoint) {
  return absl::StrCat(change, " checkpoint=\"", ForLog(checkpoint), "\"");
}

// Whether a weight set is listed after the end of a page. The list is ordered by name, then by version, highest first.
bool IsAfter(const ServedWeightSet& served, const PageEnd& end) {
  const WeightSet& weight_set = *served.weight_set;
  return weight_set.name != end.name ? weight_set.name > end.name : weight_set.version < end.version;
}

}  // namespace

grpc::ServerUnaryReactor* WeightService::ListWeightSets(grpc::CallbackServerContext* call,
                                                        const v1::ListWeightSetsRequest* request,
                                                        v1::ListWeightSetsResponse* response) {
  return Answer(call, *request, [&] { return List(*request, response); });
}

grpc::ServerUnaryReactor* WeightService::GetWeightSet(grpc::CallbackServerContext* call,
                                                      const v1::GetWeightSetRequest* request,
                                                      v1::WeightSetInfo* response) {
  return Answer(call, *request, [&] { return Find(*request, response); });
}

grpc::ServerUnaryReactor* WeightService::LoadCheckpoint(grpc::CallbackServerContext* call,
                                                        const v1::LoadCheckpointRequest* request,
                                                        v1::LoadCheckpointResponse* response) {
  return RunOnLoader(call, *request, LogName("load", request->checkpoint()),
                     [=, this] { return Load(*request, response); });
}

grpc::ServerReadReactor<v1::UploadCheckpointRequest>* WeightService::UploadCheckpoint(
    grpc::CallbackServerContext* call, v1::LoadCheckpointResponse* response) {
  return uploads_.Start(call, response);
}

grpc::ServerUnaryReactor* WeightService::Unload(grpc::CallbackServerContext* call, const v1::UnloadRequest* request,
                                                v1::UnloadResponse* response) {
  return RunOnLoader(call, *request, LogName("unload", request->checkpoint()),
                     [=, this] { return StopServing(*request, response); });
}

grpc::ServerUnaryReactor* WeightService::Delete(grpc::CallbackServerContext* call, const v1::DeleteRequest* request,
                                                v1::DeleteResponse* response) {
  return RunOnLoader(call, *request, LogName("delete", request->checkpoint()),
                     [=, this] { return Remove(*request, response); });
}

grpc::ServerUnaryReactor* WeightService::SetAlias(grpc::CallbackServerContext* call, const v1::SetAliasRequest* request,
                                                  v1::SetAliasResponse* response) {
  return RunOnLoader(call, *request, LogName("alias", request->checkpoint()),
                     [=, this] { return MoveAlias(*request, response); });
}

grpc::ServerUnaryReactor* WeightService::Answer(grpc::CallbackServerContext* call,
                                                const google::protobuf::Message& request,
                                                absl::FunctionRef<absl::Status()> look_up) {
  auto* unary = new UnaryCall(call, admission_->stopped());
  if (unary->Enter(admission_->Enter(static_cast<int64_t>(request.SpaceUsedLong())))) {
    unary->End(CatchExceptions("a look-up of weights", look_up));
  }
  return unary;
}

grpc::ServerUnaryReactor* WeightService::RunOnLoader(grpc::CallbackServerContext* call,
                                                     const google::protobuf::Message& request, std::string what,
                                                     Change change) {
  auto* unary = new UnaryCall(call, admission_->stopped());
  if (!unary->Enter(admission_->Enter(static_cast<int64_t>(request.SpaceUsedLong())))) return unary;
  absl::AnyInvocable<void()> work = [unary, what = std::move(what), change = std::move(change)]() mutable {
    absl::Status status = unary->stop()->Check(SteadyNow());
    if (status.ok()) status = CatchExceptions(what, [&] { return change(); });
    if (!status.ok()) spdlog::warn("{} failed: {}", what, ForLog(status.message()));
    unary->End(status);
  };
  if (auto status = loader_->Run(work); !status.ok()) unary->End(status);
  return unary;
}

absl::Status WeightService::List(const v1::ListWeightSetsRequest& request, v1::ListWeightSetsResponse* response) const {
  if (request.page_size() < 0) {
    return FieldError("page_size", "at least 0", request.page_size());
  }
  std::vector<ServedWeightSet> list = registry_->List(request.prefix());
  auto next = list.begin();
  if (!request.page_token().empty()) {
    const absl::StatusOr<PageEnd> end = ParsePageToken(request.page_token());
    if (!end.ok()) return end.status();
    if (!absl::StartsWith(end->name, request.prefix())) {
      return absl::InvalidArgumentError("page_token: the token belongs to a list with another prefix");
    }
    next = std::find_if(next, list.end(), [&](const ServedWeightSet& served) { return IsAfter(served, *end); });
  }
  const int page_size = request.page_size() == 0 ? kMaxPageSize : std::min(request.page_size(), kMaxPageSize);
  for (int i = 0; i < page_size && next != list.end(); ++i, ++next) FillInfo(*next, response->add_weight_sets());
  if (next != list.end()) {
    const v1::WeightSetInfo& last = *response->weight_sets().rbegin();
    response->set_next_page_token(MakePageToken({last.name(), last.version()}));
  }
  return absl::OkStatus();
}

absl::Status WeightService::Find(const v1::GetWeightSetRequest& request, v1::WeightSetInfo* response) const {
  if (auto status = CheckName("name", request.name()); !status.ok()) return status;
  if (auto status = CheckVersion("version", request.version()); !status.ok()) return status;
  if (!request.alias().empty()) {
    if (auto status = CheckAlias("alias", request.alias()); !status.ok()) return status;
    if (request.version() != 0) return FieldError("alias", "none together with a version", "one");
  }
  const auto found = registry_->Describe(request.name(), request.version(), request.alias());
  if (found.ok()) FillInfo(*found, response);
  return found.status();
}

absl::Status WeightService::Load(const v1::LoadCheckpointRequest& request, v1::LoadCheckpointResponse* response) {
  const auto loaded = repository_->LoadCheckpoint(request.checkpoint(),
                                                  {.num_heads = request.num_heads(), .replace = request.replace()});
  if (!loaded.ok()) return loaded.status();
  FillLoaded(*loaded, response);
  spdlog::info("loaded checkpoint=\"{}\" version={} weight_sets={}{}", loaded->checkpoint, loaded->version,
               loaded->weight_sets.size(), loaded->unchanged ? " unchanged" : "");
  return absl::OkStatus();
}

absl::Status WeightService::StopServing(const v1::UnloadRequest& request, v1::UnloadResponse* response) {
  const auto version = repository_->Unload(request.checkpoint());
  if (!version.ok()) return version.status();
  response->set_version(*version);
  spdlog::info("unloaded checkpoint=\"{}\" version={}", request.checkpoint(), *version);
  return absl::OkStatus();
}

absl::Status WeightService::Remove(const v1::DeleteRequest& request, v1::DeleteResponse* response) {
  if (auto status = CheckVersion("version", request.version()); !status.ok()) return status;
  const auto deleted = repository_->Delete(request.checkpoint(), request.version());
  if (!deleted.ok()) return deleted.status();
  FillDeleted(*deleted, response);
  spdlog::info("deleted checkpoint=\"{}\" versions={}", request.checkpoint(), absl::StrJoin(deleted->versions, ","));
  return absl::OkStatus();
}

absl::Status WeightService::MoveAlias(const v1::SetAliasRequest& request, v1::SetAliasResponse* response) {
  if (auto status = CheckVersion("version", request.version()); !status.ok()) return status;
  std::optional<int64_t> expected;
  if (request.has_expected_version()) expected = request.expected_version();
  if (auto status = CheckVersion("expected_version", expected.value_or(0)); !status.ok()) return status;
  const auto previous = repository_->SetAlias(request.checkpoint(), request.alias(), request.version(), expected);
  if (!previous.ok()) return previous.status();
  response->set_previous_version(*previous);
  spdlog::info("alias checkpoint=\"{}\" alias=\"{}\" version={} before={}", request.checkpoint(), request.alias(),
               request.version(), *previous);
  return absl::OkStatus();
}

std::string MakePageToken(const PageEnd& end) {
  return absl::WebSafeBase64Escape(absl::StrCat(end.version, " ", end.name));
}

absl::StatusOr<PageEnd> ParsePageToken(absl::string_view token) {
  std::string text;
  PageEnd end;
  bool valid = absl::WebSafeBase64Unescape(token, &text);
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  valid = valid && absl::SimpleAtoi(parts.first, &end.version) && CheckName("page_token", parts.second).ok();
  end.name = std::string(parts.second);
  // Rejects other spellings of a valid token, such as "+1" or padded base64.
  if (valid && MakePageToken(end) == token) return end;
  return FieldError("page_token", "the next_page_token of the previous page",
                    absl::StrCat("\"", EscapeForMessage(token), "\""));
}

}  // namespace attention::server
