#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/byte_source.h"
#include "server/checkpoint/formats/tensor_map.h"

namespace attention::server {

// The .npz format of numpy: a zip file of .npy files, stored (numpy.savez) or deflated (numpy.savez_compressed).

// Describes the arrays of a whole file, which must outlive the map. The entry "a/b.npy" becomes the tensor "a/b"; an
// array without axes becomes metadata. Inflates only the headers of the arrays, at most 64 KiB of each. The reader of
// the map inflates one array at a time, into as many bytes as its header states.
//
// INVALID_ARGUMENT, with the array, for a damaged zip file (a wrong checksum included); encryption, compression other
// than deflate, and entries that overlap; a size that deflate cannot reach; an entry that ParseNpy refuses; a duplicate
// name; more than 100,000 entries. An entry whose name does not end in .npy, is not UTF-8 or has a control character,
// and an array of a type that is not supported, only make the tensor unusable.
// UNIMPLEMENTED if an entry is a pickle of PyTorch.
absl::StatusOr<TensorMap> DescribeNpz(const ByteSource& file);

// True for the name of the pickle in the zip files of torch.save: "data.pkl" in any folder.
bool IsPickleEntry(absl::string_view name);

// UNIMPLEMENTED, with a way to convert the file. A pickle is a program that its reader executes, so it is never read.
absl::Status PickleError();

}  // namespace attention::server
