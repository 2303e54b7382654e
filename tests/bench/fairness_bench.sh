#!/usr/bin/env bash
# How long a small request (1 × 16 × 256) waits while 0, 1, 4 and 16 callers send expensive ones (8 × 512 × 768), and what
# that costs the expensive ones. 1 minute. As root or with sudo, on Debian 12 or 13.
#
#   tests/bench/fairness_bench.sh
set -euo pipefail
# Another server than this tree's can be measured too.
server=${ATTENTION_BENCH_SERVER-build/bin/attention_server}
source "$(dirname "${BASH_SOURCE[0]}")/service_setup.sh"
readonly seconds=6

# field FILE EXPRESSION: a number of a report of attentionctl bench.
field() { /usr/bin/python3 -c "import json, sys; r = json.load(open(sys.argv[1])); print($2)" "$1"; }

expensive() {
  bench shared demo/base --batch 8 --q-length 512 --concurrency "$1" --warmup 1s --duration "$((seconds + 2))s" --json
}
small() { bench shared demo/small --warmup 2s --duration "${seconds}s" --json; }

start_server shared

printf '%18s %12s %12s %22s\n' 'expensive callers' 'small p50' 'small p99' 'expensive requests/s'
for callers in 0 1 4 16; do
  alone=- beside=-
  if ((callers > 0)); then
    expensive "$callers" >"$scratch/alone"
    expensive "$callers" >"$scratch/beside" &
    background=$!
  fi
  small >"$scratch/small"
  if ((callers > 0)); then
    wait "$background"
    alone=$(field "$scratch/alone" 'format(r["requests_per_second"], ".1f")')
    beside=$(field "$scratch/beside" 'format(r["requests_per_second"], ".1f")')
  fi
  printf '%18d %9.2f ms %9.2f ms %22s\n' "$callers" "$(field "$scratch/small" 'r["latency"]["p50_ns"] / 1e6')" \
    "$(field "$scratch/small" 'r["latency"]["p99_ns"] / 1e6')" "$beside (alone $alone)"
done
