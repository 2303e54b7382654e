#pragma once

#include "attention/v1/attention.pb.h"
#include "client/attention_client.h"
#include "server/engine/layer.h"
#include "tests/testing/matchers.h"

namespace attention::test {

// How far an answer may be from the reference: |got − wanted| <= abs + rel · |wanted|. The default is that of float32.
struct Tolerance {
  double abs = 2e-5;
  double rel = 1e-5;
};

// Holds everything in a reply to the reference: shapes, numbers, the count of empty rows, and that what was asked for
// is there and nothing else. `layer` is that of the weight set, or null without projections. top_keys are held to the
// weights of the reply, if both were asked for.
void ExpectAnswer(const v1::AttendRequest& request, const server::LayerParameters* layer, const AttendReply& reply,
                  const Tolerance& tolerance = {});

// Holds the keys of a reply to its weights: each row of them sorted, of equal ones the lower index first, −1 and 0
// where fewer weights are above 0; rows behind q_lengths are zeros. REQUIRES: both were asked for.
void ExpectTopKeysOfWeights(const v1::AttendRequest& request, const AttendReply& reply);

}  // namespace attention::test
