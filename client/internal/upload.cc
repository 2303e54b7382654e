#include "client/internal/upload.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/channel.h"
#include "client/internal/conversion.h"
#include "server/checkpoint/sha256.h"

namespace attention {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;

// More than the bytes of a message besides those of its chunk.
constexpr int64_t kEnvelopeBytes = 16;

// A regular file that is open for reading.
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

  // Sets `bytes` to the `count` bytes at `offset`, or fewer if the file was truncated since Open.
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

v1::UploadCheckpointRequest HeaderOf(const CheckpointUpload& upload, int64_t bytes, std::string sha256) {
  v1::UploadCheckpointRequest first;
  v1::UploadHeader& header = *first.mutable_header();
  header.set_checkpoint(upload.checkpoint);
  header.set_bytes(bytes);
  header.set_sha256(std::move(sha256));
  header.set_num_heads(upload.options.num_heads);
  header.set_replace(upload.options.replace);
  return first;
}

using Writer = grpc::ClientWriter<v1::UploadCheckpointRequest>;

// Sends the file. Stops early and returns OK if the server ends the call, whose status has the reason. Returns an error
// only if the file cannot be read.
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

absl::StatusOr<v1::LoadCheckpointResponse> SendCheckpoint(const Connection& connection, const CheckpointUpload& upload,
                                                          const CallOptions& options) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineOf(options));
  const absl::StatusOr<InputFile> file = InputFile::Open(upload.file);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::string> digest = DigestOf(*file);
  if (!digest.ok()) return digest.status();

  const auto stub = v1::WeightService::NewStub(OpenUploadChannel(connection.target, connection.options));
  v1::LoadCheckpointResponse response;
  const std::unique_ptr<Writer> writer = stub->UploadCheckpoint(&context, &response);
  absl::Status sent;
  if (writer->Write(HeaderOf(upload, file->size(), *std::move(digest)))) {
    const int64_t chunk_bytes =
        std::clamp(connection.options.max_message_bytes - kEnvelopeBytes, int64_t{1}, kChunkBytes);
    sent = SendFile(*file, upload, chunk_bytes, *writer);
  }
  if (sent.ok()) {
    writer->WritesDone();
  } else {
    context.TryCancel();
  }
  sent.Update(ToAbslStatus(writer->Finish()));
  if (!sent.ok()) return sent;
  return response;
}

}  // namespace attention
