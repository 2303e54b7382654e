#pragma once

// Marks a function whose loops the compiler may vectorise for more than the oldest x86-64: it is compiled once for each
// of these instruction sets, and the program picks the best that its CPU has when it starts. Sums must be split into
// lanes in the source; then every version adds in the same order.
//
// Not under sanitizers, whose checks are not ready when the choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ATTENTION_VECTORIZED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ATTENTION_VECTORIZED
#endif
