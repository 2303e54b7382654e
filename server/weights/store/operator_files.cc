#include "server/weights/store/operator_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/checkpoint/field_error.h"
#include "server/checkpoint/formats/format.h"
#include "server/weights/store/digest.h"

namespace attention::server {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNsPerSecond = 1'000'000'000;

// Resolution of file times: some milliseconds on local file systems, up to two seconds on those that store seconds.
constexpr absl::Duration kFineResolution = absl::Milliseconds(50);
constexpr absl::Duration kCoarseResolution = absl::Seconds(2);

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * kNsPerSecond + time.tv_nsec; }

FileIdentity IdentityOf(const struct stat& info) {
  return {.inode = info.st_ino,
          .bytes = info.st_size,
          .modified_ns = Nanoseconds(info.st_mtim),
          .changed_ns = Nanoseconds(info.st_ctim)};
}

// True if a later change of the file will change its identity: its last change differs from the present time by more
// than the resolution of the file times. It is in the future if the clock was set back.
bool IsSettled(const FileIdentity& identity, absl::Time now) {
  const bool fine = identity.changed_ns % kNsPerSecond != 0;
  const absl::Duration age = now - absl::FromUnixNanos(identity.changed_ns);
  return absl::AbsDuration(age) > (fine ? kFineResolution : kCoarseResolution);
}

// The path of the folder entry, which may be a symbolic link.
std::string EntryPath(const std::string& dir, const std::string& checkpoint, const std::string& extension) {
  return absl::StrCat(dir, "/", checkpoint, ".", extension);
}

// The real path of a regular file inside of the folder; empty if there is none.
std::string RealPath(const std::string& dir, const std::string& checkpoint, const std::string& extension) {
  if (dir.empty() || absl::StrContains(checkpoint, "/.")) return "";
  std::error_code error;
  const fs::path folder = fs::canonical(dir, error);
  if (error) return "";
  const fs::path file = fs::canonical(EntryPath(dir, checkpoint, extension), error);
  if (error || !fs::is_regular_file(file, error)) return "";
  const bool inside = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end();
  return inside ? file.string() : "";
}

// Adds the file if it exists.
void AddFile(const std::string& dir, const std::string& checkpoint, const std::string& extension,
             OperatorFiles& files) {
  const std::string path = RealPath(dir, checkpoint, extension);
  struct stat info;
  if (path.empty() || stat(path.c_str(), &info) != 0) return;
  files.emplace(extension, IdentityOf(info));
}

// Why the file of an entry has no real path; empty if it was removed meanwhile.
std::string SkipReason(const fs::directory_entry& entry) {
  std::error_code error;
  const bool is_link = entry.is_symlink(error);
  if (fs::is_regular_file(entry.path(), error)) return is_link ? "the link leaves the weights folder" : "";
  if (is_link && error) return absl::StrCat("the link cannot be followed: ", error.message());
  return is_link ? "the target of the link is missing, or not a regular file" : "not a regular file";
}

bool IsOtherCheckpoint(absl::string_view extension) {
  constexpr absl::string_view kExtensions[] = {".bin", ".ckpt", ".gguf", ".h5", ".keras",
                                               ".npy", ".onnx", ".pkl",  ".pt", ".pth"};
  return absl::c_linear_search(kExtensions, extension);
}

// Adds a file, a link or a folder, whose name does not begin with a dot.
void AddEntry(const std::string& dir, const fs::directory_entry& entry, FolderContent& content) {
  std::error_code ignored;
  const std::string name = entry.path().lexically_relative(dir).string();
  const std::string extension = entry.path().extension().string();
  if (entry.is_directory(ignored)) {
    if (entry.is_symlink(ignored)) content.skipped[name] = "links to folders are not followed";
    return;
  }
  if (FindCheckpointFormat(extension.empty() ? "" : extension.substr(1)) == nullptr) {
    if (IsOtherCheckpoint(extension)) {
      content.skipped[name] = absl::StrCat("expected ", CheckpointExtensions(), ", got ", extension);
    }
    return;
  }
  const std::string checkpoint = fs::path(name).replace_extension().string();
  OperatorFiles files;
  AddFile(dir, checkpoint, extension.substr(1), files);
  if (!files.empty()) {
    content.files[checkpoint].merge(files);
  } else if (const std::string reason = SkipReason(entry); !reason.empty()) {
    content.skipped[name] = reason;
  }
}

// nullopt if the file no longer exists.
absl::StatusOr<std::optional<OperatorFile>> Open(const std::string& path, const std::string& checkpoint) {
  if (path.empty()) return std::nullopt;
  // O_NONBLOCK, because opening a pipe that replaced the file would block.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file.is_open() || fstat(file.get(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return absl::FailedPreconditionError(absl::StrCat("checkpoint ", EscapeForMessage(checkpoint),
                                                      ": its file cannot be opened: ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return std::nullopt;
  FileReader bytes(file, static_cast<uint64_t>(info.st_size), "its file");
  return OperatorFile{std::move(file), IdentityOf(info), std::move(bytes), {}, {}};
}

const OperatorFiles& FilesOf(const FolderWatch::Files& files, const std::string& checkpoint) {
  static const OperatorFiles* const none = new OperatorFiles;
  const auto found = files.find(checkpoint);
  return found == files.end() ? *none : found->second;
}

bool AreSettled(const OperatorFiles& files, absl::Time now) {
  return std::all_of(files.begin(), files.end(), [&](const auto& file) { return IsSettled(file.second, now); });
}

}  // namespace

absl::StatusOr<FolderContent> FindOperatorFiles(const std::string& dir) {
  FolderContent content;
  std::error_code error;
  // skip_permission_denied applies to the folder itself too, which must be readable.
  const fs::directory_iterator readable(dir, error);
  fs::recursive_directory_iterator it;
  if (!error) it = fs::recursive_directory_iterator(dir, fs::directory_options::skip_permission_denied, error);
  while (!error && it != fs::recursive_directory_iterator()) {
    if (absl::StartsWith(it->path().filename().string(), ".")) {
      it.disable_recursion_pending();
    } else {
      AddEntry(dir, *it, content);
    }
    it.increment(error);
  }
  if (error) return absl::NotFoundError(absl::StrCat("weights folder ", dir, ": cannot be read: ", error.message()));
  return content;
}

OperatorFiles FindOperatorFiles(const std::string& dir, const std::string& checkpoint) {
  OperatorFiles files;
  for (const CheckpointFormat& format : CheckpointFormats()) {
    AddFile(dir, checkpoint, std::string(format.name), files);
  }
  return files;
}

absl::Status OperatorFile::CheckUnchanged() const {
  struct stat info;
  if (fstat(file.get(), &info) == 0) {
    const FileIdentity now = IdentityOf(info);
    // Not the change time of the inode: renaming a new file over this one changes it, but not the bytes.
    if (now.bytes == identity.bytes && now.modified_ns == identity.modified_ns) return absl::OkStatus();
  }
  return absl::AbortedError("its file changed while it was read");
}

absl::StatusOr<std::optional<OperatorFile>> OpenOperatorFile(const std::string& dir, const std::string& checkpoint,
                                                             const ManifestCheckpoint& known, absl::Time now) {
  OperatorFiles files = FindOperatorFiles(dir, checkpoint);
  std::erase_if(files, [&](const auto& file) {
    const auto deleted = known.deleted_files.find(file.first);
    return deleted != known.deleted_files.end() && deleted->second == file.second;
  });
  const std::string name = EscapeForMessage(checkpoint);
  if (files.size() > 1) {
    return FieldError(absl::StrCat("checkpoint ", name), "one file in the weights folder",
                      absl::StrCat(name, ".", files.begin()->first, " and ", name, ".", files.rbegin()->first));
  }
  if (files.empty()) return std::nullopt;
  auto file = Open(RealPath(dir, checkpoint, files.begin()->first), checkpoint);
  if (!file.ok() || !*file) return file;
  OperatorFile& opened = **file;
  const bool is_known = known.file && known.file->identity == opened.identity;
  const absl::StatusOr<std::string> sha256 = is_known ? known.file->sha256 : DigestOf(opened.bytes);
  if (!sha256.ok()) {
    return absl::Status(sha256.status().code(), absl::StrCat("checkpoint ", name, ": ", sha256.status().message()));
  }
  opened.sha256 = *sha256;
  if (IsSettled(opened.identity, now)) opened.settled_identity = opened.identity;
  return file;
}

absl::Status RemoveOperatorFiles(const Disk& disk, const std::string& dir, const std::string& checkpoint,
                                 const OperatorFiles& files) {
  const OperatorFiles present = FindOperatorFiles(dir, checkpoint);
  for (const auto& [extension, identity] : files) {
    const auto file = present.find(extension);
    if (file == present.end() || file->second != identity) continue;
    const std::string path = EntryPath(dir, checkpoint, extension);
    if (auto status = disk.Remove(path); !status.ok()) return status;
    if (auto status = disk.SyncFolder(fs::path(path).parent_path().string()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void FolderWatch::Begin(Files files, absl::Time now) {
  for (const auto& [checkpoint, state] : files) {
    if (AreSettled(state, now)) reported_[checkpoint] = state;
  }
  seen_ = std::move(files);
}

std::vector<std::string> FolderWatch::Update(Files files, absl::Time now) {
  std::set<std::string> known;
  for (const Files* states : {&files, &seen_, &reported_}) {
    for (const auto& [checkpoint, state] : *states) known.insert(checkpoint);
  }
  std::vector<std::string> changed;
  for (const std::string& checkpoint : known) {
    const OperatorFiles& state = FilesOf(files, checkpoint);
    if (state == FilesOf(reported_, checkpoint) || state != FilesOf(seen_, checkpoint) || !AreSettled(state, now)) {
      continue;
    }
    changed.push_back(checkpoint);
    if (state.empty()) {
      reported_.erase(checkpoint);
    } else {
      reported_[checkpoint] = state;
    }
  }
  seen_ = std::move(files);
  return changed;
}

}  // namespace attention::server
