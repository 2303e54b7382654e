#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/attention_client.h"
#include "client/cli/options.h"

namespace attention::cli {

// A client of the server on the command line, and the options of its calls.
struct ServerConnection {
  static absl::StatusOr<ServerConnection> Open(const ServerOptions& server);

  Client client;
  CallOptions options;
};

// One function per command: runs it and returns the text for standard output. Errors are those of the server, code and
// text, or concern the files and numbers on the command line.
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
