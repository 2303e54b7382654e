#!/usr/bin/env bash
# Installs what is missing, builds the benchmark in build/, and runs it: a table of all shapes, and the same as JSON in
# build/bench.json. Some 3 minutes. As root or with sudo, on Debian 12 or 13.
#
#   tests/bench/run.sh [PATH OF THE JSON] [--quick] [--shape TEXT]... [--dtype float32|bfloat16] [--threads N]
#   tests/bench/run.sh --help
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

build() {
  cmake -S . -B build -G Ninja -DATTENTION_BUILD_TESTS=ON -DATTENTION_WERROR=ON -DCMAKE_BUILD_TYPE=Release &&
    cmake --build build --target engine_bench
}

(
  cd "$root"
  source docker/setup.sh
  # Equal sources in another clone are then equal to ccache, where it is installed.
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  mkdir -p build/logs
  echo "packages: build test (build/logs/packages.log)"
  quietly build/logs/packages.log install_packages build test
  echo "build: build (build/logs/bench.log)"
  quietly build/logs/bench.log build
)
exec "$root/build/bin/engine_bench" "$@"
