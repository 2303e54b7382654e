#!/usr/bin/env bash
# Checks that the server's memory does not grow: sends a million small requests of random lengths, 1 to 64 rows, sixteen at a
# time, and compares the resident memory after the last one with that after the first 10 000. They may differ by 5 %. At most
# 30 minutes. As root or with sudo, on Debian 12 or 13.
#
#   tests/bench/soak.sh [REQUESTS]
set -euo pipefail
readonly requests=${1-1000000} first=10000
((requests > first)) || { echo "REQUESTS: expected more than $first, got $requests" >&2; exit 2; }
source "$(dirname "${BASH_SOURCE[0]}")/service_setup.sh"

resident_kib() { awk '$1 == "VmRSS:" { print $2 }' "/proc/${server_pids[soak]}/status"; }

# send COUNT: fails unless all of them succeed.
send() {
  bench soak demo/small --random-lengths --q-length 64 --concurrency 16 --requests "$1" --warmup 0 --duration 900s --json \
    >"$scratch/report"
  grep -q "^  \"requests\": $1,$" "$scratch/report" && grep -q '^  "errors": {},$' "$scratch/report" ||
    { cat "$scratch/report" >&2; return 1; }
}

start_server soak
printf 'resident memory of the server after\n'
printf '  %9d requests  %7d KiB\n' 0 "$(resident_kib)"
send "$first"
before=$(resident_kib)
printf '  %9d requests  %7d KiB\n' "$first" "$before"
send "$((requests - first))"
after=$(resident_kib)
printf '  %9d requests  %7d KiB\n' "$requests" "$after"
awk -v before="$before" -v after="$after" 'BEGIN {
  change = 100 * (after - before) / before
  flat = (change <= 5) && (change >= -5)
  printf("%+.1f %%, at most 5 %% either way: %s\n", change, flat ? "flat" : "not flat")
  exit !flat
}'
