#include "server/weights/operator_files.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/format.h"

namespace attention::server {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNsPerSecond = 1'000'000'000;

// Steps of a clock: of local file systems some milliseconds, of those that keep seconds up to two of these.
constexpr absl::Duration kFineStep = absl::Milliseconds(50);
constexpr absl::Duration kCoarseStep = absl::Seconds(2);

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * kNsPerSecond + time.tv_nsec; }

FileIdentity IdentityOf(const struct stat& info) {
  return {.inode = info.st_ino,
          .bytes = info.st_size,
          .modified_ns = Nanoseconds(info.st_mtim),
          .changed_ns = Nanoseconds(info.st_ctim)};
}

bool IsExtension(absl::string_view extension) {
  for (const auto format : {CheckpointFormat::kSafetensors, CheckpointFormat::kMsgpack, CheckpointFormat::kNpz}) {
    if (extension == FormatName(format)) return true;
  }
  return false;
}

// The real path of a regular file; empty if there is none within the folder.
std::string RealPath(const std::string& dir, const std::string& checkpoint, const std::string& extension) {
  if (dir.empty() || absl::StrContains(checkpoint, "/.")) return "";
  std::error_code error;
  const fs::path folder = fs::canonical(dir, error);
  if (error) return "";
  const fs::path file = fs::canonical(OperatorFilePath(dir, checkpoint, extension), error);
  if (error || !fs::is_regular_file(file, error)) return "";
  const bool within = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
  return within ? file.string() : "";
}

// Adds the file if it is there.
void AddFile(const std::string& dir, const std::string& checkpoint, const std::string& extension,
             OperatorFiles& files) {
  const std::string path = RealPath(dir, checkpoint, extension);
  struct stat info;
  if (path.empty() || stat(path.c_str(), &info) != 0) return;
  files.emplace(extension, IdentityOf(info));
}

}  // namespace

absl::StatusOr<std::map<std::string, OperatorFiles>> FindOperatorFiles(const std::string& dir) {
  std::map<std::string, OperatorFiles> found;
  std::error_code error;
  // The folder itself must be readable; what is not readable below it is not for the server.
  const fs::directory_iterator readable(dir, error);
  fs::recursive_directory_iterator it;
  if (!error) it = fs::recursive_directory_iterator(dir, fs::directory_options::skip_permission_denied, error);
  while (!error && it != fs::recursive_directory_iterator()) {
    std::error_code ignored;
    const fs::path path = it->path();
    const bool hidden = absl::StartsWith(path.filename().string(), ".");
    const std::string extension = path.extension().string();
    if (hidden) it.disable_recursion_pending();
    if (!hidden && !it->is_directory(ignored) && IsExtension(extension.empty() ? "" : extension.substr(1))) {
      const std::string checkpoint = path.lexically_relative(dir).replace_extension().string();
      OperatorFiles files;
      AddFile(dir, checkpoint, extension.substr(1), files);
      if (!files.empty()) found[checkpoint].merge(files);
    }
    it.increment(error);
  }
  if (error) return absl::NotFoundError(absl::StrCat("weights folder ", dir, ": cannot be read: ", error.message()));
  return found;
}

OperatorFiles FindOperatorFiles(const std::string& dir, const std::string& checkpoint) {
  OperatorFiles files;
  for (const auto format : {CheckpointFormat::kSafetensors, CheckpointFormat::kMsgpack, CheckpointFormat::kNpz}) {
    AddFile(dir, checkpoint, std::string(FormatName(format)), files);
  }
  return files;
}

bool OpenOperatorFile::IsUnchanged() const {
  struct stat info;
  if (fstat(file.get(), &info) != 0) return false;
  const FileIdentity now = IdentityOf(info);
  // Not the time of the inode: a new file that is renamed over this one changes it.
  return now.bytes == identity.bytes && now.modified_ns == identity.modified_ns;
}

absl::StatusOr<OpenOperatorFile> OpenFile(const std::string& dir, const std::string& checkpoint,
                                          const std::string& extension) {
  const std::string path = RealPath(dir, checkpoint, extension);
  const absl::Status gone =
      absl::NotFoundError(absl::StrCat("checkpoint ", EscapeForMessage(checkpoint), ": its file went"));
  if (path.empty()) return gone;
  // Not blocking: a pipe that took the file's place must not hold up the caller.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file.is_open() || fstat(file.get(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return gone;
    return absl::FailedPreconditionError(absl::StrCat("checkpoint ", EscapeForMessage(checkpoint),
                                                      ": its file cannot be opened: ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return gone;
  auto mapping = FileMapping::Map(file, info.st_size);
  if (!mapping.ok()) return mapping.status();
  return OpenOperatorFile{std::move(file), IdentityOf(info), *std::move(mapping)};
}

std::string OperatorFilePath(const std::string& dir, const std::string& checkpoint, const std::string& extension) {
  return absl::StrCat(dir, "/", checkpoint, ".", extension);
}

bool IsSettled(const FileIdentity& identity, absl::Time now) {
  const bool fine = identity.changed_ns % kNsPerSecond != 0;
  return now - absl::FromUnixNanos(identity.changed_ns) > (fine ? kFineStep : kCoarseStep);
}

}  // namespace attention::server
