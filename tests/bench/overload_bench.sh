#!/usr/bin/env bash
# What the service still answers in time when callers ask for more than it can compute, and how long a small request waits
# beside expensive ones. Server on the first CPU, callers on the second; requests of 1 × 64 × 768, with deadlines. 3 minutes
# on 2 CPUs. As root or with sudo, on Debian 12 or 13.
#
#   tests/bench/overload_bench.sh [SECONDS]    SECONDS of each measurement, 5 by default
set -euo pipefail
readonly seconds=${1-5}
# Another server than this tree's can be measured too.
server=${ATTENTION_BENCH_SERVER-build/bin/attention_server}
source "$(dirname "${BASH_SOURCE[0]}")/service_setup.sh"

callers() { taskset -c 1 "$attentionctl" --server "$(address_of overloaded)" --timeout "$1" bench demo/base "${@:2}" --json; }

# field FILE EXPRESSION: a number of a report of attentionctl bench.
field() { /usr/bin/python3 -c "import json, sys; r = json.load(open(sys.argv[1])); print($2)" "$1"; }

server_command=(taskset -c 0 "$server")
start_server overloaded --threads 1

step "Capacity: 8 callers without deadlines"
callers 60s --q-length 64 --concurrency 8 --duration "${seconds}s" >"$scratch/capacity"
capacity=$(field "$scratch/capacity" 'r["requests_per_second"]')
printf '%.0f requests/s\n' "$capacity"

step "Replies in time, as a share of what is offered and of the capacity"
printf '%8s %8s %10s %10s %9s %9s %12s\n' deadline offered offered/s in_time/s 'of offer' 'of peak' 'error p99'
for deadline in 50ms 500ms; do
  for load in 0.5 1 2 5 10; do
    rate=$(awk -v load="$load" -v capacity="$capacity" 'BEGIN { printf "%.1f", load * capacity }')
    callers "$deadline" --q-length 64 --rate "$rate" --concurrency 4000 --connections 4 --duration "${seconds}s" \
      >"$scratch/report" 2>"$scratch/errors" || true
    if [[ ! -s $scratch/report ]]; then
      printf '%8s %8s %10s  no reply in time: %s\n' "$deadline" "$load" "$rate" "$(tail -n 1 "$scratch/errors")"
      continue
    fi
    awk -v deadline="$deadline" -v load="$load" -v capacity="$capacity" \
      -v sent="$(field "$scratch/report" 'r["requests"] / r["elapsed_ns"] * 1e9')" \
      -v in_time="$(field "$scratch/report" 'r["requests_per_second"]')" \
      -v error="$(field "$scratch/report" 'r["error_latency"]["p99_ns"] / 1e6')" 'BEGIN {
        printf "%8s %7s× %10.0f %10.0f %8.0f%% %8.0f%% %9.1f ms\n", deadline, load, sent, in_time, 100 * in_time / sent,
          100 * in_time / capacity, error }'
  done
done
