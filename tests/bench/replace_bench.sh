#!/usr/bin/env bash
# What callers feel of a checkpoint that is replaced while they use it: the 99th percentile of the latency of sixteen
# callers of a small layer, without and with replacements by upload, four a second, each of which brings another content
# of all three demo layers, 10 MiB. The two take turns until 200 replacements are through; then the medians are compared,
# of which the one with must be at most 1.5 times the other. Fails also if any call fails. Some 2 minutes. As root or
# with sudo, on Debian 12 or 13.
#
# The callers take all there is of the CPUs, so whatever else runs shows: the last column is what copying a file of that
# size as often does to them.
#
#   tests/bench/replace_bench.sh [REPLACEMENTS]
set -euo pipefail
readonly replacements=${1-200} most=1.5
source "$(dirname "${BASH_SOURCE[0]}")/service_setup.sh"
readonly file=$scratch/replaced.safetensors

median() { sort -n | awk '{ values[NR] = $1 } END { print values[int((NR + 1) / 2)] }'; }

# One more replacement, whose number goes into the last parameter.
replace() {
  local number=$1
  printf '%b' "\\x$(printf %02x $((number % 256)))\\x$(printf %02x $((number / 256)))" |
    dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 4)) conv=notrunc status=none
  # The client that uploads takes no time from the callers: elsewhere it has a machine of its own.
  chrt --idle 0 "$attentionctl" weights upload "$file" --server "$(address_of replace)" >"$scratch/upload"
}

# repeat COMMAND…: four times a second, until the file `stop` is there.
repeat() {
  local wait
  while [[ ! -e $scratch/stop ]]; do
    sleep 0.25 &
    wait=$!
    "$@"
    wait "$wait"
  done
}

# One more replacement, counted in the file `count`.
replace_next() {
  local number=$(($(<"$scratch/count") + 1))
  replace "$number"
  echo "$number" >"$scratch/count"
}

copy() { cp "$file" "$scratch/copy"; }

# The 99th percentile in milliseconds.
measure() {
  bench replace replaced/small --concurrency 16 --warmup 300ms --duration 4s --json >"$scratch/report"
  grep -q '"errors": {}' "$scratch/report" || { cat "$scratch/report" >&2; return 1; }
  awk '/"latency"/ { latency = 1 } latency && /"p99_ns"/ { print $2 / 1e6; exit }' "$scratch/report"
}

# measure_beside COMMAND…: while the command is repeated.
measure_beside() {
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
printf '%12s  %15s  %12s  %20s\n' replacements 'p99 without, ms' 'p99 with, ms' 'p99 beside a copy, ms'
while (($(<"$scratch/count") < replacements)); do
  measure >>"$scratch/without"
  measure_beside replace_next >>"$scratch/with"
  measure_beside copy >>"$scratch/beside"
  printf '%12d  %15.3f  %12.3f  %20.3f\n' "$(<"$scratch/count")" \
    "$(tail -n 1 "$scratch/without")" "$(tail -n 1 "$scratch/with")" "$(tail -n 1 "$scratch/beside")"
done
awk -v without="$(median <"$scratch/without")" -v with="$(median <"$scratch/with")" \
  -v beside="$(median <"$scratch/beside")" -v most="$most" 'BEGIN {
  ratio = with / without
  good = ratio <= most
  printf("medians %.3f, %.3f and %.3f ms: %.2f times, a copy %.2f; ", without, with, beside, ratio, beside / without)
  printf("at most %.1f: %s\n", most, good ? "good" : "too much")
  exit !good
}'
