#pragma once

// Compiles a function once for each of these x86-64 instruction sets, so that its loops are vectorised; the program
// selects the best version for the CPU when it starts. Sums must be split into lanes in the source, so that all
// versions add in the same order.
//
// Has no effect with sanitizers, whose checks are not initialised when the version is selected.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ATTENTION_VECTORIZED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ATTENTION_VECTORIZED
#endif
