#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {

// The .npz format of numpy: a zip file of .npy files, stored (numpy.savez) or deflated (numpy.savez_compressed).

// Reads a whole file. The map owns the data of all tensors. The entry "a/b.npy" becomes the tensor "a/b"; an array
// without axes becomes metadata.
//
// INVALID_ARGUMENT, with the array, for a damaged zip file (a wrong checksum included); encryption, compression other
// than deflate, and entries that overlap; a size that deflate cannot reach; an entry that ParseNpy refuses; an entry
// name that does not end in .npy, is duplicate, is not UTF-8 or has a control character; more than 100,000 entries.
// UNIMPLEMENTED if an entry is a pickle of PyTorch. RESOURCE_EXHAUSTED, before anything is inflated, if the sizes that
// the zip file states for the arrays exceed `max_bytes` together.
//
// For each entry it allocates at most the size of the file in advance, and otherwise at most twice what it has
// inflated.
absl::StatusOr<TensorMap> ParseNpz(absl::Span<const std::byte> file, uint64_t max_bytes);

// True for the name of the pickle in the zip files of torch.save: "data.pkl" in any folder.
bool IsPickleEntry(absl::string_view name);

// UNIMPLEMENTED, with a way to convert the file. A pickle is a program that its reader executes, so it is never read.
absl::Status PickleError();

}  // namespace attention::server
