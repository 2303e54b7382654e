#include "client/cli/explain/public_question.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/unit/cli/explain/explain_example.h"

namespace attention::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PublicQuestionTest, ShowsBothResultsAndTheOriginOfTheThird) {
  const std::string text = ExplainPublicQuestion(*QueriesFromDst().Call(), *QueriesFromSrc().Call(), {}).value();
  EXPECT_THAT(text, AllOf(HasSubstr("A. inputs_q = dst, inputs_k = src (queries from dst, keys and values from src):\n"
                                    "     every output 3.9975274; the same steps in float64 give 3.9975274\n"),
                          HasSubstr("B. inputs_q = src, inputs_k = dst (queries from src, keys and values from dst):\n"
                                    "     every output 3.0; the same steps in float64 give 3.0\n"),
                          HasSubstr("query input: dst, 2 rows\n"),
                          HasSubstr("0.99609375 · 4.0 + 0.0024719238 · 3.0 = 3.9917908\n")));
}

TEST(PublicQuestionTest, RoundedWeightsGiveTheManualResult) {
  EXPECT_EQ(BFloat16Context(*QueriesFromDst().Call(), {}, 0), 3.991790771484375);
}

TEST(PublicQuestionTest, WithoutRoundingTheContextIsThatOfTheFormula) {
  EXPECT_DOUBLE_EQ(Float64Context(*QueriesFromDst().Call(), {}, 0), 3 + 1 / (1 + std::exp(-6.0)));
}

TEST(PublicQuestionTest, FindsTheManualResultInBFloat16) {
  Example from_dst = QueriesFromDst(), from_src = QueriesFromSrc();
  from_dst.options.compute_dtype = from_src.options.compute_dtype = DataType::kBFloat16;
  from_dst.reply.intermediates->context =
      Literal("[[[[3.9917908, 3.9917908, 3.9917908, 3.9917908]], [[3.9917908, 3.9917908, 3.9917908, 3.9917908]]]]");
  from_dst.reply.output =
      Literal("[[[3.984375, 3.984375, 3.984375, 3.984375], [3.984375, 3.984375, 3.984375, 3.984375]]]");
  const std::string text = ExplainPublicQuestion(*from_dst.Call(), *from_src.Call(), {}).value();
  EXPECT_THAT(text,
              AllOf(HasSubstr("every context 3.9917908, every output 3.984375; the same steps in float64 give "
                              "3.9975274\n"),
                    HasSubstr("The question's own result, 3.9917908, is the context of A. It was calculated on a TPU"),
                    Not(HasSubstr("--compute-dtype"))));
  EXPECT_THAT(
      ExplainPublicQuestion(*QueriesFromDst().Call(), *QueriesFromSrc().Call(), {}).value(),
      AllOf(HasSubstr("3.9917908, is neither of the two."),
            HasSubstr("(With --compute-dtype bfloat16 the server does the same, and its context is this number.)\n")));
}

}  // namespace
}  // namespace attention::cli
