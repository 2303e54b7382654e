#include "server/runtime/catch_exceptions.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <new>
#include <string_view>

namespace attention::server {

absl::Status CatchExceptions(absl::string_view what, absl::FunctionRef<absl::Status()> body) {
  const std::string_view work(what.data(), what.size());
  try {
    return body();
  } catch (const std::bad_alloc&) {
    spdlog::error("{} failed: out of memory", work);
    return absl::ResourceExhaustedError("memory: the server is out of memory");
  } catch (const std::exception& error) {
    spdlog::error("{} failed: {}", work, error.what());
  } catch (...) {
    spdlog::error("{} failed: unknown exception", work);
  }
  return absl::InternalError("server: internal error, see the server's log for details");
}

}  // namespace attention::server
