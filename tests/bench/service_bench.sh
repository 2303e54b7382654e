#!/usr/bin/env bash
# Compares the service with the engine, over a unix socket: where the time of a single request goes, small and large, and how
# many requests per second 1, 8 and 64 callers get without batching and with it. Each number is a median; the two servers
# take turns. 2 minutes. As root or with sudo, on Debian 12 or 13.
#
#   tests/bench/service_bench.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/service_setup.sh"
readonly rounds=5

median() { sort -n | awk '{ values[NR] = $1 } END { print values[int((NR + 1) / 2)] }'; }

# rate NAME CONCURRENCY OPTION…: prints the requests per second.
rate() {
  local name=$1 concurrency=$2
  shift 2
  bench "$name" "$@" --concurrency "$concurrency" --warmup 300ms --duration 1500ms |
    sed -n 's|^\([0-9.]*\) requests/s,.*|\1|p'
}

# rates OPTION…: prints a line for each number of callers.
rates() {
  local concurrency round
  printf '%-8s  %20s  %8s  %6s\n' callers '--max-batch-requests 1' default times
  for concurrency in 1 8 64; do
    : >"$scratch/alone"
    : >"$scratch/batched"
    for ((round = 0; round < rounds; ++round)); do
      rate alone "$concurrency" "$@" >>"$scratch/alone"
      rate batched "$concurrency" "$@" >>"$scratch/batched"
    done
    awk -v callers="$concurrency" -v alone="$(median <"$scratch/alone")" -v batched="$(median <"$scratch/batched")" \
      'BEGIN { printf "%-8d  %20.0f  %8.0f  %6.2f\n", callers, alone, batched, batched / alone }'
  done
}

start_server batched
start_server alone --max-batch-requests 1

step "A small request, 16 KiB each way"
bench batched demo/small --breakdown --duration 10s
step "A large request, 12 MiB each way"
bench batched demo/base --batch 8 --q-length 512 --breakdown --duration 20s
step "Requests per second: demo/small, 16 rows each"
rates demo/small
step "Requests per second: demo/base, one row each"
rates demo/base --q-length 1
