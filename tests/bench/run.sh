#!/usr/bin/env bash
# Measures the engine: installs missing packages, builds the benchmark in build/ and runs it. Prints a table of all shapes
# and writes it as JSON to build/bench.json. 3 minutes. As root or with sudo, on Debian 12 or 13.
#
#   tests/bench/run.sh [PATH OF THE JSON] [--quick] [--shape TEXT]... [--dtype float32|bfloat16] [--threads N]
#   tests/bench/run.sh --help
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

(
  cd "$root"
  source docker/setup.sh
  install_with_log build build test
  build_with_log build release engine_bench
)
exec "$root/build/bin/engine_bench" "$@"
