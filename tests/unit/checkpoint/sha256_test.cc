#include "server/checkpoint/sha256.h"

#include <gtest/gtest.h>

namespace attention {
namespace {

absl::Span<const std::byte> Bytes(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

// The examples of FIPS 180-4.
TEST(Sha256Test, ComputesTheDigestsOfTheStandard) {
  EXPECT_EQ(Sha256Of({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Of(Bytes("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 pieces;
  for (int i = 0; i < 500; ++i) {
    pieces.Update(Bytes(std::string(1000, 'a')));
    pieces.Update(std::string(1000, 'a'));
  }
  EXPECT_EQ(pieces.Finish(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, TellsWhetherTextIsADigest) {
  EXPECT_TRUE(IsSha256(std::string(60, 'a') + "09f0"));
  EXPECT_FALSE(IsSha256(std::string(63, 'a')));
  EXPECT_FALSE(IsSha256(std::string(65, 'a')));
  EXPECT_FALSE(IsSha256(std::string(63, 'a') + "A"));
  EXPECT_FALSE(IsSha256(std::string(63, 'a') + "g"));
  EXPECT_FALSE(IsSha256(std::string(63, 'a') + "/"));
}

}  // namespace
}  // namespace attention
