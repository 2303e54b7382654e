#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests. As root or with sudo, on Debian 12 or 13.
#
#   tests/run.sh                                 everything, Release, in build/
#   tests/run.sh --sanitize address,undefined    everything with these sanitizers, in a folder of its own
#   tests/run.sh --sanitize thread               the tests labelled "threads": gRPC's, oneTBB's and OpenMP's libraries are
#                                                not built for this sanitizer, which then sees races that are none
#   tests/run.sh --clang                         no test: builds server and client with clang, which checks that what
#                                                a lock guards is touched only under it
#   tests/run.sh --fuzz [SECONDS]                no test: libFuzzer looks for files on which a parser of checkpoints
#                                                fails, 60 seconds for each, under clang's sanitizers
#   tests/run.sh --format                        no test: clang-format has nothing to change (Debian 12's version)
#   tests/run.sh --tidy                          no test: clang-tidy has nothing to say (slow)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source docker/setup.sh

# Equal sources in another clone are then equal to ccache, where it is installed.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

usage() {
  sed -n '/^#   tests/,/^[^#]/ { s/^#   //p }' tests/run.sh >&2
  exit 2
}

targets=(all)

# build FOLDER OPTION…: configures, and builds $targets in it.
build() {
  local folder=$1
  shift
  cmake -S . -B "$folder" -G Ninja -DATTENTION_BUILD_TESTS=ON -DATTENTION_WERROR=ON "$@" &&
    cmake --build "$folder" --target "${targets[@]}"
}

# prepare FOLDER SECTION… -- OPTION…: packages, then build.
prepare() {
  local folder=$1 sections=()
  shift
  while [[ $1 != -- ]]; do
    sections+=("$1")
    shift
  done
  shift
  mkdir -p "$folder/logs"
  echo "packages: ${sections[*]} ($folder/logs/packages.log)"
  quietly "$folder/logs/packages.log" install_packages "${sections[@]}"
  echo "build: $folder ($folder/logs/build.log)"
  quietly "$folder/logs/build.log" build "$folder" "$@"
}

run_ctest() {
  local folder=$1
  shift
  ctest --test-dir "$folder" --output-on-failure --no-tests=error --parallel "$(nproc)" "$@"
}

# Some optimization, since the tests compute; line numbers, but no further debug information.
readonly sanitizer_flags=(-DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1")

# fuzz PARSER SECONDS: its files stay in build-fuzz/corpus/PARSER, and are where the next run begins. One of 4 KiB may
# inflate to 4 MiB: more memory in one piece is taken for something that was only claimed.
fuzz() {
  local folder=build-fuzz/corpus/$1
  mkdir -p "$folder"
  echo "fuzz: $1 for $2 s (build-fuzz/logs/$1.log)"
  quietly "build-fuzz/logs/$1.log" "build-fuzz/bin/$1_fuzz" -max_total_time="$2" -max_len=4096 -timeout=5 \
    -malloc_limit_mb=16 -artifact_prefix="build-fuzz/logs/$1-" -print_final_stats=1 "$folder" "build-fuzz/seeds/$1"
  sed -n 's/^stat::number_of_executed_units: */  runs without a finding: /p' "build-fuzz/logs/$1.log"
}

sources() { find server client tests -name '*.cc' -print0 -o -name '*.h' -print0; }

case ${1-} in
  '')
    prepare build build test -- -DCMAKE_BUILD_TYPE=Release
    run_ctest build
    ;;
  --sanitize)
    [[ $# == 2 ]] || usage
    folder=build-${2//,/-}
    [[ $2 != thread ]] || targets=(threads_tests)
    prepare "$folder" build test -- "-DATTENTION_SANITIZE=$2" "${sanitizer_flags[@]}"
    export UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
    if [[ $2 == thread ]]; then run_ctest "$folder" --label-regex '^threads$'; else run_ctest "$folder"; fi
    ;;
  --clang)
    targets=(attention_server attentionctl)  # what has locks to check; the tests would triple the time
    prepare build-clang build clang -- -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Debug -DATTENTION_BUILD_TESTS=OFF
    ;;
  --fuzz)
    targets=(fuzzers)
    prepare build-fuzz build test clang -- -DCMAKE_CXX_COMPILER=clang++ \
      "-DATTENTION_SANITIZE=fuzzer-no-link,address,undefined" "${sanitizer_flags[@]}"
    build-fuzz/bin/fuzz_seeds build-fuzz/seeds
    export UBSAN_OPTIONS=print_stacktrace=1
    for parser in safetensors msgpack npz npy; do fuzz "$parser" "${2-60}"; done
    ;;
  --format)
    mkdir -p build/logs
    quietly build/logs/packages.log install_packages format
    sources | xargs -0 clang-format --dry-run -Werror
    echo "format: nothing to change"
    ;;
  --tidy)
    prepare build build test tidy -- -DCMAKE_BUILD_TYPE=Release
    sources | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build
    ;;
  *)
    usage
    ;;
esac
