#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {

// numpy's .npz format: a zip file of .npy files, as they are (numpy.savez) or deflated (numpy.savez_compressed).

// Reads a whole file; the map has storage of its own for all tensors. The entry "a/b.npy" is the tensor "a/b"; an array
// without axes becomes metadata.
//
// INVALID_ARGUMENT (with the array, what was wanted and what came) for a damaged zip file, also where only the checksum
// of an entry is wrong; encryption, other compression, and entries that overlap; sizes that deflate cannot give; an
// entry that is no .npy file as ParseNpy wants it, or whose name stands twice, is not UTF-8 or has a control character;
// more than 100,000 entries. UNIMPLEMENTED if an entry is a pickle of PyTorch. RESOURCE_EXHAUSTED, before anything is
// inflated, if the arrays say that they take more than `max_bytes` together.
//
// Memory is taken as the bytes come, never more than twice as much as came, and up to the file's size.
absl::StatusOr<TensorMap> ParseNpz(absl::Span<const std::byte> file, uint64_t max_bytes);

// True for the name that the pickle has in the zip files of torch.save: "data.pkl" in any folder.
bool IsPickleEntry(absl::string_view name);

}  // namespace attention::server
