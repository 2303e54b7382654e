#!/usr/bin/env bash
# Installs the missing packages, builds, and runs the tests. As root or with sudo, on Debian 12 or 13.
#
#   tests/run.sh                                 every test, Release, in build/
#   tests/run.sh --sanitize address,undefined    every test with these sanitizers
#   tests/run.sh --sanitize thread               the tests labelled "threads". The libraries of gRPC, oneTBB and OpenMP are
#                                                not built for this sanitizer, so it reports false races in them
#   tests/run.sh --clang                         no test: builds server and client with clang, which checks that the
#                                                fields that a lock guards are used only under it
#   tests/run.sh --fuzz [SECONDS]                no test: libFuzzer runs all parsers of checkpoint files for SECONDS (60
#                                                by default) under clang's sanitizers
#   tests/run.sh --format                        no test: formatting (clang-format 14), includes and wording
#   tests/run.sh --tidy [SECONDS]                no test: clang-tidy 14. With SECONDS it stops after that
#                                                time, and the commit decides which files come first
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source docker/setup.sh

usage() {
  sed -n '/^#   tests/,/^[^#]/ { s/^#   //p }' tests/run.sh >&2
  exit 2
}

# prepare FOLDER PRESET TARGET SECTION…: installs the packages of these sections, then builds the target.
prepare() {
  local folder=$1 preset=$2 target=$3
  shift 3
  install_with_log "$folder" "$@"
  build_with_log "$folder" "$preset" "$target"
}

run_ctest() {
  local folder=$1
  shift
  ctest --test-dir "$folder" --output-on-failure --no-tests=error --parallel "$(nproc)" "$@"
}

# fuzz PROGRAM SECONDS: keeps its corpus in build-fuzz/corpus/PROGRAM and starts there the next time. An input of 4 KiB can
# inflate to 4 MiB, so a single larger allocation is a finding: the parser believed a size that the file only claims.
fuzz() {
  local folder=build-fuzz/corpus/$1
  mkdir -p "$folder"
  echo "fuzz: $1 for $2 s (build-fuzz/logs/$1.log)"
  quietly "build-fuzz/logs/$1.log" "build-fuzz/bin/$1_fuzz" -max_total_time="$2" -max_len=4096 -timeout=5 \
    -malloc_limit_mb=16 -artifact_prefix="build-fuzz/logs/$1-" -print_final_stats=1 "$folder" build-fuzz/seeds
  sed -n 's/^stat::number_of_executed_units: */  runs without a finding: /p' "build-fuzz/logs/$1.log"
}

# Prints the source files, in an order that depends on the commit alone.
sources_by_commit() {
  local commit
  commit=$(git rev-parse HEAD 2>/dev/null || echo none)
  git ls-files 'server/*.cc' 'client/*.cc' 'tests/*.cc' | while read -r file; do
    echo "$(printf '%s %s' "$commit" "$file" | sha256sum | cut -c 1-16) $file"
  done | sort | cut -d ' ' -f 2
}

# tidy SECONDS: stops starting files after that time; 0 is no limit. A header is checked with the files that include it.
tidy() {
  local end=$((SECONDS + $1)) file checked=0 total
  mapfile -t files < <(sources_by_commit)
  total=${#files[@]}
  while ((checked < total)) && (($1 == 0 || SECONDS < end)); do
    printf '%s\n' "${files[@]:checked:8}" |
      xargs -n 1 -P "$(nproc)" clang-tidy --quiet -p build-tidy 2>/dev/null || return 1
    checked=$((checked + 8 < total ? checked + 8 : total))
  done
  echo "tidy: nothing found in $checked of $total files"
}

case ${1-} in
  '')
    prepare build release all build test
    run_ctest build
    ;;
  --sanitize)
    export UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
    case ${2-} in
      address,undefined)
        prepare build-asan-ubsan asan-ubsan all build test
        run_ctest build-asan-ubsan
        ;;
      thread)
        prepare build-tsan tsan unit_threads build test
        run_ctest build-tsan --label-regex '^threads$'
        ;;
      *) usage ;;
    esac
    ;;
  --clang)
    # Only what has locks to check: with the tests it would take three times as long.
    prepare build-clang clang attention_server,attentionctl build test clang
    ;;
  --fuzz)
    prepare build-fuzz fuzz fuzzers build test clang
    build-fuzz/bin/fuzz_seeds build-fuzz/seeds
    export UBSAN_OPTIONS=print_stacktrace=1
    fuzz checkpoint "${2-60}"
    ;;
  --format)
    install_with_log build format
    git ls-files '*.cc' '*.h' | xargs clang-format --dry-run -Werror
    echo "format: nothing to change"
    tests/includes_check.py
    tests/prose_check.sh
    ;;
  --tidy)
    install_with_log build-tidy build test clang tidy
    # Its own folder: clang cannot read the precompiled headers of gcc.
    build_with_log build-tidy tidy attention_proto_sources
    tidy "${2-0}"
    ;;
  *) usage ;;
esac
