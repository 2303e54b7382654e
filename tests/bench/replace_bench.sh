#!/usr/bin/env bash
# Measures the latency of calls while their checkpoint is replaced: the 99th percentile of sixteen callers of a small layer,
# with and without four replacements per second. Each replacement uploads new content of all three demo layers, 10 MiB. The
# two kinds of rounds alternate until 200 replacements are done. Fails if the median with replacements is more than 1.5 times
# the median without, or if any call fails. 2 minutes. As root or with sudo, on Debian 12 or 13.
#
# The callers use all CPU time, so any other work is visible in their latency. For comparison the last column shows the effect
# of copying a file of the same size as often.
#
#   tests/bench/replace_bench.sh [REPLACEMENTS]
set -euo pipefail
readonly replacements=${1-200} most=1.5
source "$(dirname "${BASH_SOURCE[0]}")/service_setup.sh"
readonly file=$scratch/replaced.safetensors

median() { sort -n | awk '{ values[NR] = $1 } END { print values[int((NR + 1) / 2)] }'; }

# Replaces the checkpoint. The number becomes part of its last parameter, so that the content is new.
replace() {
  local number=$1
  printf '%b' "\\x$(printf %02x $((number % 256)))\\x$(printf %02x $((number / 256)))" |
    dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 4)) conv=notrunc status=none
  # At idle priority: in practice the uploading client runs on another machine.
  chrt --idle 0 "$attentionctl" weights upload "$file" --server "$(address_of replace)" >"$scratch/upload"
}

# repeat COMMAND…: runs it four times per second until the file `stop` exists.
repeat() {
  local wait
  while [[ ! -e $scratch/stop ]]; do
    sleep 0.25 &
    wait=$!
    "$@"
    wait "$wait"
  done
}

# Replaces the checkpoint with the next number, which it keeps in the file `count`.
replace_next() {
  local number=$(($(<"$scratch/count") + 1))
  replace "$number"
  echo "$number" >"$scratch/count"
}

copy() { cp "$file" "$scratch/copy"; }

# Prints the 99th percentile in milliseconds.
measure() {
  bench replace replaced/small --concurrency 16 --warmup 300ms --duration 4s --json >"$scratch/report"
  grep -q '"errors": {}' "$scratch/report" || { cat "$scratch/report" >&2; return 1; }
  awk '/"latency"/ { latency = 1 } latency && /"p99_ns"/ { print $2 / 1e6; exit }' "$scratch/report"
}

# measure_during COMMAND…: measures while the command is repeated.
measure_during() {
  local repeating
  rm -f "$scratch/stop"
  repeat "$@" &
  repeating=$!
  measure
  touch "$scratch/stop"
  wait "$repeating"
}

start_server replace
cp "$scratch/weights/demo.safetensors" "$file"
chmod u+w "$file"
replace 0
echo 0 >"$scratch/count"
printf '%12s  %15s  %12s  %20s\n' replacements 'p99 without, ms' 'p99 with, ms' 'p99 with a copy, ms'
while (($(<"$scratch/count") < replacements)); do
  measure >>"$scratch/without"
  measure_during replace_next >>"$scratch/with"
  measure_during copy >>"$scratch/with_copy"
  printf '%12d  %15.3f  %12.3f  %20.3f\n' "$(<"$scratch/count")" \
    "$(tail -n 1 "$scratch/without")" "$(tail -n 1 "$scratch/with")" "$(tail -n 1 "$scratch/with_copy")"
done
awk -v without="$(median <"$scratch/without")" -v with="$(median <"$scratch/with")" \
  -v copy="$(median <"$scratch/with_copy")" -v most="$most" 'BEGIN {
  ratio = with / without
  good = ratio <= most
  printf("medians %.3f, %.3f and %.3f ms; ", without, with, copy)
  printf("with replacements %.2f times the first, with a copy %.2f times; ", ratio, copy / without)
  printf("at most %.1f times: %s\n", most, good ? "good" : "too much")
  exit !good
}'
