#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/options.h"

namespace attention::cli {

// One function a command: does it, and returns what goes to standard output. Errors are those of the server, code and
// text, or of the files and numbers that the command line names.
absl::StatusOr<std::string> Run(const ServerOptions& server, const AttendOptions& options);
absl::StatusOr<std::string> Run(const ServerOptions& server, const ExplainOptions& options);
absl::StatusOr<std::string> Run(const ServerOptions& server, const ListOptions& options);
absl::StatusOr<std::string> Run(const ServerOptions& server, const ShowOptions& options);
absl::StatusOr<std::string> Run(const ServerOptions& server, const LoadOptions& options);
absl::StatusOr<std::string> Run(const ServerOptions& server, const UploadOptions& options);
absl::StatusOr<std::string> Run(const ServerOptions& server, const UnloadOptions& options);
absl::StatusOr<std::string> Run(const ServerOptions& server, const DeleteOptions& options);
absl::StatusOr<std::string> Run(const ServerOptions& server, const AliasOptions& options);
absl::StatusOr<std::string> Run(const ServerOptions& server, const ConvertOptions& options);
absl::StatusOr<std::string> Run(const ServerOptions& server, const MakeDemoOptions& options);
absl::StatusOr<std::string> Run(const ServerOptions& server, const HealthOptions& options);
absl::StatusOr<std::string> Run(const ServerOptions& server, const BenchOptions& options);

}  // namespace attention::cli
