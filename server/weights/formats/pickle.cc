#include "server/weights/formats/pickle.h"

namespace attention::server {

absl::Status PickleError() {
  return absl::UnimplementedError(
      "a pickle (of PyTorch: .pt, .pth, .bin) can run any program, so it is not read; in Python, save "
      "safetensors.torch.save_file(model.state_dict(), \"model.safetensors\") instead");
}

}  // namespace attention::server
