#!/usr/bin/env bash
# Checks that unloading returns memory: uploads a layer of 64 MiB with new content, computes one request and unloads it, 200
# times. The resident memory after every unload may differ by 10 % from that after the tenth. 5 minutes. As root or with
# sudo, on Debian 12 or 13.
#
#   tests/bench/unload_soak.sh [CYCLES]
set -euo pipefail
readonly cycles=${1-200} first=10
((cycles > first)) || { echo "CYCLES: expected more than $first, got $cycles" >&2; exit 2; }
source "$(dirname "${BASH_SOURCE[0]}")/service_setup.sh"
readonly file=$scratch/large.safetensors

resident_kib() { awk '$1 == "VmRSS:" { print $2 }' "/proc/${server_pids[unload]}/status"; }

# bytes_of NUMBER COUNT: prints the number as COUNT bytes, little-endian.
bytes_of() {
  local number=$1 count=$2 i
  for ((i = 0; i < count; ++i)); do printf '%b' "\\x$(printf %02x $((number >> 8 * i & 255)))"; done
}

# Writes a layer with 2048 features and 16 heads. Its kernels are zero except for the bytes that `change` writes.
make_file() {
  local kernel=$((4 << 22)) at=0 name header='{'
  for name in query key value; do
    header+="\"$name/kernel\":{\"dtype\":\"F32\",\"shape\":[2048,16,128],\"data_offsets\":[$at,$((at += kernel))]},"
  done
  header+="\"out/kernel\":{\"dtype\":\"F32\",\"shape\":[16,128,2048],\"data_offsets\":[$at,$((at += kernel))]}}"
  { bytes_of "${#header}" 8 && printf '%s' "$header"; } >"$file"
  truncate -s "$((8 + ${#header} + at))" "$file"
}

change() { bytes_of "$1" 2 | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 4)) conv=notrunc status=none; }

cycle() {
  change "$1"
  "$attentionctl" weights upload "$file" --server "$(address_of unload)" >"$scratch/upload"
  bench unload large --requests 1 --warmup 0 --duration 60s --json >"$scratch/report"
  grep -q '"errors": {}' "$scratch/report" || { cat "$scratch/report" >&2; return 1; }
  "$attentionctl" weights unload large --server "$(address_of unload)" >"$scratch/unload"
}

start_server unload
make_file
printf 'resident memory of the server after\n'
printf '  %4d cycles  %7d KiB\n' 0 "$(resident_kib)"
before=0 least=0 most=0
for ((number = 1; number <= cycles; ++number)); do
  cycle "$number"
  now=$(resident_kib)
  ((number != first)) || before=$now least=$now most=$now
  ((now >= least)) || least=$now
  ((now <= most)) || most=$now
  if ((number == first || number % 50 == 0)); then printf '  %4d cycles  %7d KiB\n' "$number" "$now"; fi
done
awk -v before="$before" -v least="$least" -v most="$most" 'BEGIN {
  printf("after the tenth %+.1f %% to %+.1f %%, ", 100 * (least / before - 1), 100 * (most / before - 1))
  printf("at most 10 %% either way: ")
  flat = (most <= 1.1 * before) && (least >= 0.9 * before)
  print flat ? "flat" : "not flat"
  exit !flat
}'
