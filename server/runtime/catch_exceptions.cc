#include "server/runtime/catch_exceptions.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <new>
#include <string_view>

namespace attention::server {

absl::Status CatchExceptions(absl::string_view what, absl::FunctionRef<absl::Status()> body) {
  const std::string_view failed(what.data(), what.size());
  try {
    return body();
  } catch (const std::bad_alloc&) {
    spdlog::error("{}: out of memory", failed);
    return absl::ResourceExhaustedError("memory: the server has none left for this");
  } catch (const std::exception& error) {
    spdlog::error("{}: {}", failed, error.what());
  } catch (...) {
    spdlog::error("{}: unknown exception", failed);
  }
  return absl::InternalError("the server failed on its own account; its log has the details");
}

}  // namespace attention::server
