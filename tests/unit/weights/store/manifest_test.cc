#include "server/weights/store/manifest.h"

#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using ::attention::test::IsOk;
using ::attention::test::StatusIs;
using ::testing::HasSubstr;

const std::string kDigest(64, 'a');

Manifest Everything() {
  ManifestCheckpoint ocr;
  ocr.last_version = 7;
  ocr.loaded = false;
  ocr.versions[3] = {.sha256 = kDigest, .bytes = 1000, .format = "npz", .num_heads = 8, .blob = true};
  ocr.versions[7] = {
      .sha256 = std::string(64, '0'), .bytes = 5, .format = "safetensors", .num_heads = 0, .blob = false};
  ocr.aliases = {{"stable", 3}, {"canary", 7}};
  ocr.file = {.sha256 = kDigest,
              .num_heads = 2,
              .identity = FileIdentity{.inode = 18446744073709551615u, .bytes = 5, .modified_ns = -1, .changed_ns = 2}};
  ocr.deleted_files["msgpack"] = {.inode = 4, .bytes = 3, .modified_ns = 2, .changed_ns = 1};
  ManifestCheckpoint gone;
  gone.last_version = 2;
  return {{{"shop/ocr", ocr}, {"gone", gone}}};
}

TEST(ManifestTest, ReadsWhatItWrites) {
  const Manifest manifest = Everything();
  const absl::StatusOr<Manifest> read = ParseManifest(SerializeManifest(manifest));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(*read, manifest);
  EXPECT_EQ(*ParseManifest(SerializeManifest(Manifest())), Manifest());
}

TEST(ManifestTest, WritesTheFormatThatItDocuments) {
  Manifest manifest;
  manifest.checkpoints["ocr"].last_version = 1;
  manifest.checkpoints["ocr"].versions[1] = {
      .sha256 = kDigest, .bytes = 2, .format = "npz", .num_heads = 0, .blob = true};
  EXPECT_EQ(SerializeManifest(manifest), R"({
 "checkpoints": {
  "ocr": {
   "aliases": {},
   "deleted_files": {},
   "last_version": 1,
   "loaded": true,
   "versions": {
    "1": {
     "blob": true,
     "bytes": 2,
     "format": "npz",
     "num_heads": 0,
     "sha256": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    }
   }
  }
 },
 "format": 1
}
)");
}

TEST(ManifestTest, RejectsEveryTruncation) {
  const std::string text = SerializeManifest(Everything());
  // Without the last character, a line break, the text is still complete.
  for (size_t size = 0; size + 1 < text.size(); ++size) {
    EXPECT_THAT(ParseManifest(text.substr(0, size)), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_))
        << size;
  }
}

TEST(ManifestTest, RejectsTextThatItDoesNotWrite) {
  const std::string good = SerializeManifest(Everything());
  struct Case {
    std::string from, to, message;
  };
  for (const Case& c : std::vector<Case>{
           {"\"format\": 1\n", "\"format\": 2\n", R"(format: expected 1, got 2)"},
           {"\"format\": 1\n", "\"format\": 1, \"more\": 0\n", "unknown fields or values"},
           {"\"last_version\": 7", "\"last_version\": 7, \"more\": 0", "unknown fields or values"},
           {"\"last_version\": 7", "\"last_version\": \"7\"", "type must be number"},
           {"\"last_version\": 7", "\"last_version\": 7.5", "unknown fields or values"},
           {"\"last_version\": 7", "\"last_version\": 6",
            R"(checkpoint shop/ocr: versions: expected 1 to last_version 6, got 7)"},
           {"\"loaded\": false,", "", "loaded"},
           {"\"7\": {", "\"x\": {", "stoll"},
           {"\"7\": {", "\"7x\": {", "unknown fields or values"},
           {"\"7\": {", "\"-7\": {", R"(versions: expected 1 to last_version 7, got -7)"},
           {"\"canary\": 7", "\"canary\": 6", "aliases: canary names the missing version 6"},
           {"\"canary\": 7", "\"ca/nary\": 7", "aliases: expected an alias"},
           {"\"npz\"", "\"../npz\"", R"(format: expected the name of a checkpoint format, got "../npz")"},
           {kDigest, kDigest + "/../a", "sha256: expected 64 lower case hexadecimal digits, got"},
           {"\"msgpack\": {", "\"pt\": {", R"(deleted_files: expected the name of a checkpoint format, got "pt")"},
           {"\"shop/ocr\"", "\"../ocr\"", "checkpoint: expected a name"},
       }) {
    const std::string bad = absl::StrReplaceAll(good, {{c.from, c.to}});
    ASSERT_NE(bad, good) << c.from;
    EXPECT_THAT(ParseManifest(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message))) << c.to;
  }
}

TEST(ManifestTest, ForgetsDeletedCheckpointsWithTheLowestNumbers) {
  Manifest manifest;
  manifest.checkpoints["a"].last_version = 5;
  manifest.checkpoints["b"].last_version = 1;
  manifest.checkpoints["c"].last_version = 3;
  manifest.checkpoints["file"].file = {.sha256 = kDigest, .num_heads = 0, .identity = {}};
  manifest.checkpoints["removing"].deleted_files["npz"] = {};
  manifest.checkpoints["served"].versions[1] = {};
  Manifest expected = manifest;
  ForgetDeleted(manifest, 3);
  EXPECT_EQ(manifest, expected);
  ForgetDeleted(manifest, 1);
  expected.checkpoints.erase("b");
  expected.checkpoints.erase("c");
  expected.forgotten_last_version = 3;
  EXPECT_EQ(manifest, expected);
  manifest.checkpoints.erase("served");  // not valid as text
  EXPECT_EQ(*ParseManifest(SerializeManifest(manifest)), manifest);
}

}  // namespace
}  // namespace attention::server
