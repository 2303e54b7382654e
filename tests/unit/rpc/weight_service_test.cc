#include "server/rpc/weight_service.h"

#include <gmock/gmock.h>

#include "absl/strings/escaping.h"
#include "tests/testing/matchers.h"

namespace attention::server {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(PageTokenTest, ParsesWhatItMade) {
  for (const PageEnd& end : {PageEnd{"ocr/layer0", 1}, PageEnd{std::string(128, 'a'), 9223372036854775807}}) {
    const absl::StatusOr<PageEnd> parsed = ParsePageToken(MakePageToken(end));
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(parsed->name, end.name);
    EXPECT_EQ(parsed->version, end.version);
  }
}

TEST(PageTokenTest, RejectsWhatItDidNotMake) {
  const auto encoded = [](absl::string_view text) { return absl::WebSafeBase64Escape(text); };
  for (const std::string& token :
       {std::string("x"), std::string("%%%"), std::string(1 << 20, 'A'), encoded("1"), encoded("1 "), encoded("1 ../a"),
        encoded("one ocr"), encoded(" ocr"), encoded("+1 ocr"), encoded("01 ocr"), encoded("99999999999999999999 ocr"),
        encoded("1 ocr") + "=", encoded("1 ocr\n")}) {
    const auto parsed = ParsePageToken(token);
    EXPECT_THAT(parsed, StatusIs(absl::StatusCode::kInvalidArgument,
                                 AllOf(StartsWith("page_token: "), HasSubstr("next_page_token"))))
        << token.substr(0, 50);
    EXPECT_LT(parsed.status().message().size(), 300u);
  }
}

}  // namespace
}  // namespace attention::server
