#pragma once

#include <cstddef>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

namespace attention::server {

// A primitive with its memory objects. Creating a memory object takes longer than a small matmul, but changing its
// pointer takes no time.
class Prepared {
 public:
  // The memory objects may have null pointers; Bind sets them.
  using Arguments = std::vector<std::pair<int, dnnl::memory>>;

  Prepared(dnnl::primitive primitive, const Arguments& arguments, int64_t scratchpad_bytes)
      : primitive_(std::move(primitive)), scratchpad_bytes_(scratchpad_bytes) {
    for (const auto& [argument, of_memory] : arguments) {
      memories_.push_back(of_memory);
      arguments_.push_back({argument, of_memory.get()});
    }
  }

  int64_t scratchpad_bytes() const { return scratchpad_bytes_; }

  // oneDNN's interface takes mutable pointers for inputs, too.
  void Bind(int argument, const void* data) {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].arg == argument) memories_[i].set_data_handle(const_cast<void*>(data));
    }
  }

  // dnnl::primitive::execute would build this array from a map in every call.
  void Execute(const dnnl::stream& stream) const {
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(arguments_.size()), arguments_.data());
    dnnl::error::wrap_c_api(status, "could not execute a primitive");
  }

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  int64_t scratchpad_bytes_;
};

}  // namespace attention::server
