#pragma once

#include "attention/v1/attention.pb.h"
#include "client/attention_client.h"
#include "server/engine/layer.h"
#include "tests/testing/matchers.h"

namespace attention::test {

// Largest difference from the reference: |actual − expected| <= abs + rel · |expected|. The default is for float32.
struct Tolerance {
  double abs = 2e-5;
  double rel = 1e-5;
};

// Compares a whole reply with the reference: shapes, numbers, the number of empty rows, and that exactly the requested
// parts are present. `layer` is null for a request without a weight set. Compares top_keys with the weights of the
// reply if both are requested.
void ExpectAnswer(const v1::AttendRequest& request, const server::LayerParameters* layer, const AttendReply& reply,
                  const Tolerance& tolerance = {});

// Compares the top keys of a reply with its weights: each row is sorted by weight, the lower index first if weights are
// equal; −1 and 0 fill a row with fewer weights above 0; rows after q_lengths are zeros. REQUIRES: the reply has both.
void ExpectTopKeysOfWeights(const v1::AttendRequest& request, const AttendReply& reply);

}  // namespace attention::test
