#include "server/engine/catch_exceptions.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <new>

namespace attention::server {

absl::Status CatchExceptions(const char* what, absl::FunctionRef<absl::Status()> body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    spdlog::error("{}: out of memory", what);
    return absl::ResourceExhaustedError("the server is out of memory");
  } catch (const std::exception& error) {
    spdlog::error("{}: {}", what, error.what());
  } catch (...) {
    spdlog::error("{}: an exception of unknown type", what);
  }
  return absl::InternalError("the server failed on its own account; its log says why");
}

}  // namespace attention::server
