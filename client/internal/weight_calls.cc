#include "client/internal/weight_calls.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/conversion.h"
#include "client/internal/sha256.h"
#include "client/internal/unary_call.h"

namespace attention {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;

// What a chunk's message holds beside its bytes, with room to spare.
constexpr int64_t kEnvelopeBytes = 16;

// A regular file that is read from its beginning, as often as one likes.
class InputFile {
 public:
  static absl::StatusOr<InputFile> Open(const std::string& path) {
    InputFile file(path, open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat info = {};
    if (file.fd_ < 0 || fstat(file.fd_, &info) != 0) return absl::ErrnoToStatus(errno, path);
    if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
    file.size_ = info.st_size;
    return file;
  }

  InputFile(InputFile&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  ~InputFile() {
    if (fd_ >= 0) close(fd_);
  }

  int64_t size() const { return size_; }

  // Fills `bytes` with what stands at `offset`; fewer at the end of a file that was shortened meanwhile.
  absl::Status Read(int64_t offset, int64_t count, std::string& bytes) const {
    bytes.resize(count);
    size_t filled = 0;
    while (filled < bytes.size()) {
      const ssize_t read = pread(fd_, bytes.data() + filled, bytes.size() - filled, offset + filled);
      if (read < 0 && errno == EINTR) continue;
      if (read < 0) return absl::ErrnoToStatus(errno, path_);
      if (read == 0) break;
      filled += read;
    }
    bytes.resize(filled);
    return absl::OkStatus();
  }

 private:
  InputFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  int64_t size_ = 0;
};

absl::StatusOr<std::string> DigestOf(const InputFile& file) {
  Sha256 digest;
  std::string bytes;
  for (int64_t offset = 0; offset < file.size(); offset += kChunkBytes) {
    const int64_t count = std::min(kChunkBytes, file.size() - offset);
    if (absl::Status status = file.Read(offset, count, bytes); !status.ok()) return status;
    digest.Update(bytes);
  }
  return digest.Finish();
}

using Writer = grpc::ClientWriter<v1::UploadCheckpointRequest>;

// Sends the file, or as much of it as the server takes: it may end the call at any time, and the call's status says
// why. An error is one of reading.
absl::Status SendFile(const InputFile& file, const CheckpointUpload& upload, int64_t chunk_bytes, Writer& writer) {
  v1::UploadCheckpointRequest part;
  for (int64_t sent = 0; sent < file.size(); sent += static_cast<int64_t>(part.chunk().size())) {
    if (upload.progress) upload.progress(sent, file.size());
    const int64_t count = std::min(chunk_bytes, file.size() - sent);
    if (absl::Status status = file.Read(sent, count, *part.mutable_chunk()); !status.ok()) return status;
    if (part.chunk().empty() || !writer.Write(part)) return absl::OkStatus();
  }
  if (upload.progress) upload.progress(file.size(), file.size());
  return absl::OkStatus();
}

}  // namespace

using Stub = v1::WeightService::Stub;

absl::StatusOr<std::vector<WeightSetInfo>> WeightCalls::List(const std::string& prefix,
                                                             const CallOptions& options) const {
  const gpr_timespec deadline = DeadlineOf(options);  // of all pages together
  std::vector<WeightSetInfo> infos;
  v1::ListWeightSetsRequest request;
  request.set_prefix(prefix);
  do {
    const auto response = Call(*stub_, &Stub::ListWeightSets, request, deadline);
    if (!response.ok()) return response.status();
    for (const v1::WeightSetInfo& info : response->weight_sets()) infos.push_back(FromProto(info));
    request.set_page_token(response->next_page_token());
  } while (!request.page_token().empty());
  return infos;
}

absl::StatusOr<WeightSetInfo> WeightCalls::Get(const std::string& name, const VersionChoice& which,
                                               const CallOptions& options) const {
  v1::GetWeightSetRequest request;
  request.set_name(name);
  request.set_version(which.version);
  request.set_alias(which.alias);
  const auto response = Call(*stub_, &Stub::GetWeightSet, request, options);
  if (!response.ok()) return response.status();
  return FromProto(*response);
}

absl::StatusOr<LoadedCheckpoint> WeightCalls::Load(const std::string& checkpoint,
                                                   const CheckpointOptions& checkpoint_options,
                                                   const CallOptions& options) const {
  v1::LoadCheckpointRequest request;
  request.set_checkpoint(checkpoint);
  request.set_num_heads(checkpoint_options.num_heads);
  const auto response = Call(*stub_, &Stub::LoadCheckpoint, request, options);
  if (!response.ok()) return response.status();
  return FromProto(*response);
}

absl::StatusOr<int64_t> WeightCalls::Unload(const std::string& checkpoint, const CallOptions& options) const {
  v1::UnloadRequest request;
  request.set_checkpoint(checkpoint);
  const auto response = Call(*stub_, &Stub::Unload, request, options);
  if (!response.ok()) return response.status();
  return response->version();
}

absl::StatusOr<std::vector<int64_t>> WeightCalls::Delete(const std::string& checkpoint, int64_t version,
                                                         const CallOptions& options) const {
  v1::DeleteRequest request;
  request.set_checkpoint(checkpoint);
  request.set_version(version);
  const auto response = Call(*stub_, &Stub::Delete, request, options);
  if (!response.ok()) return response.status();
  return std::vector<int64_t>(response->versions().begin(), response->versions().end());
}

absl::StatusOr<int64_t> WeightCalls::SetAlias(const AliasChange& change, const CallOptions& options) const {
  v1::SetAliasRequest request;
  request.set_checkpoint(change.checkpoint);
  request.set_alias(change.alias);
  request.set_version(change.version);
  if (change.expected_version) request.set_expected_version(*change.expected_version);
  const auto response = Call(*stub_, &Stub::SetAlias, request, options);
  if (!response.ok()) return response.status();
  return response->previous_version();
}

absl::StatusOr<v1::LoadCheckpointResponse> SendCheckpoint(v1::WeightService::Stub& stub, const CheckpointUpload& upload,
                                                          int64_t max_message_bytes, const CallOptions& options) {
  grpc::ClientContext context;
  SetDeadline(options, context);
  const absl::StatusOr<InputFile> file = InputFile::Open(upload.file);
  if (!file.ok()) return file.status();
  const absl::StatusOr<std::string> digest = DigestOf(*file);
  if (!digest.ok()) return digest.status();
  v1::UploadCheckpointRequest first;
  v1::UploadHeader& header = *first.mutable_header();
  header.set_checkpoint(upload.checkpoint);
  header.set_bytes(file->size());
  header.set_sha256(*digest);
  header.set_num_heads(upload.options.num_heads);

  v1::LoadCheckpointResponse response;
  const std::unique_ptr<Writer> writer = stub.UploadCheckpoint(&context, &response);
  absl::Status sent;
  if (writer->Write(first)) {
    sent = SendFile(*file, upload, std::clamp(max_message_bytes - kEnvelopeBytes, int64_t{1}, kChunkBytes), *writer);
  }
  sent.ok() ? static_cast<void>(writer->WritesDone()) : context.TryCancel();
  const absl::Status status = ToAbslStatus(writer->Finish());
  sent.Update(status);
  if (!sent.ok()) return sent;
  return response;
}

}  // namespace attention
