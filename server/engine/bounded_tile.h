#pragma once

#include "server/engine/tile.h"

namespace attention::server {

// True if AttendBounded can compute the call: lengths and diagonals alone hide keys, nothing changes the scores before
// the softmax, and nobody wants to see scores or weights.
bool IsBounded(const AttentionCall& call);

// Attention without a pass for the softmax. By Cauchy and Schwarz no score of a query passes bound = |query| · |key|,
// with the longest key that the query sees; so exp(score − bound) is at most 1, and can be taken by the product of
// query and keys itself, chunk by chunk, without knowing the largest score. The sum of these weights divides the
// context at the end.
//
// What a query does not see changes no bit of it: the bound is that of the keys that it sees, and no row depends on
// another. A row is unreliable where the scores lie so far below the bound that subtracting it costs digits, and where
// a number is not finite.
//
// REQUIRES: IsBounded.
TileResult AttendBounded(const Tile& tile);

}  // namespace attention::server
