#!/usr/bin/env bash
# What callers feel of a checkpoint that is replaced while they use it: the 99th percentile of the latency of sixteen
# callers of a small layer, without and with replacements by upload, each of which brings another content of all three
# demo layers, 10 MiB. The two take turns until 200 replacements are through; then the medians are compared, of which
# the one with must be at most 1.5 times the other. Fails also if any call fails. Some 2 minutes. As root or with sudo,
# on Debian 12 or 13.
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
  nice -n 19 "$attentionctl" weights upload "$file" --server "$(address_of replace)" >"$scratch/upload"
}

# Replacements one after the other until the file `stop` is there, counted in the file `count`.
replace_all() {
  local number
  number=$(<"$scratch/count")
  while [[ ! -e $scratch/stop ]]; do
    replace $((++number))
    echo "$number" >"$scratch/count"
  done
}

# The 99th percentile in milliseconds.
measure() {
  bench replace replaced/small --concurrency 16 --warmup 300ms --duration 4s --json >"$scratch/report"
  grep -q '"errors": {}' "$scratch/report" || { cat "$scratch/report" >&2; return 1; }
  awk '/"latency"/ { latency = 1 } latency && /"p99_ns"/ { print $2 / 1e6; exit }' "$scratch/report"
}

measure_replacing() {
  local replacing
  rm -f "$scratch/stop"
  replace_all &
  replacing=$!
  measure
  touch "$scratch/stop"
  wait "$replacing"
}

start_server replace
cp "$scratch/weights/demo.safetensors" "$file"
chmod u+w "$file"
replace 0
echo 0 >"$scratch/count"
printf '%12s  %14s  %14s\n' replacements 'p99 without, ms' 'p99 with, ms'
while (($(<"$scratch/count") < replacements)); do
  measure >>"$scratch/without"
  measure_replacing >>"$scratch/with"
  printf '%12d  %15.3f  %12.3f\n' \
    "$(<"$scratch/count")" "$(tail -n 1 "$scratch/without")" "$(tail -n 1 "$scratch/with")"
done
awk -v without="$(median <"$scratch/without")" -v with="$(median <"$scratch/with")" -v most="$most" 'BEGIN {
  ratio = with / without
  good = ratio <= most
  printf("medians %.3f and %.3f ms, %.2f times; ", without, with, ratio)
  printf("at most %.1f: %s\n", most, good ? "good" : "too much")
  exit !good
}'
