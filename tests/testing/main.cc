#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

// The exit code that ctest reports as skipped.
constexpr int kSkipped = 77;

}  // namespace

// Exits with kSkipped if every test was skipped, because the data that they need is missing.
int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  const bool all_skipped = tests.test_to_run_count() > 0 && tests.skipped_test_count() == tests.test_to_run_count();
  return failed == 0 && all_skipped ? kSkipped : failed;
}
