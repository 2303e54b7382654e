#include "client/cli/commands.h"

#include <utility>

namespace attention::cli {

absl::StatusOr<ServerConnection> ServerConnection::Open(const ServerOptions& server) {
  absl::StatusOr<Client> client = Client::Connect(server.address);
  if (!client.ok()) return client.status();
  return ServerConnection{*std::move(client), {.timeout = server.timeout}};
}

absl::StatusOr<std::string> Run(const ServerOptions& server, const HealthOptions& options) {
  const absl::StatusOr<ServerConnection> connection = ServerConnection::Open(server);
  if (!connection.ok()) return connection.status();
  const absl::Status status = connection->client.CheckHealth(options.service, connection->options);
  if (!status.ok()) return status;
  return "SERVING\n";
}

}  // namespace attention::cli
