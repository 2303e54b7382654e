#!/usr/bin/env bash
# From a fresh Debian 12 or 13 to an answered request: installs what is missing, builds the server and its tool into
# build/, starts the server on a unix socket of its own with demo weights, asks it the public question both ways,
# measures it for a few seconds, and stops it. As root or with sudo. The second run only asks and measures.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source docker/setup.sh

readonly server=build/bin/attention_server attentionctl=build/bin/attentionctl
mkdir -p build/logs
scratch=$(mktemp -d)
readonly scratch address=unix:$scratch/attention.sock
server_pid=

# Returns the server's own exit code.
stop_server() {
  local pid=$server_pid
  server_pid=
  [[ -z $pid ]] || { kill "$pid" 2>/dev/null; wait "$pid"; }
}
trap 'stop_server || true; rm -rf "$scratch"' EXIT

step() { printf '\n==> %s\n' "$*"; }

wait_until_healthy() {
  local attempt
  for ((attempt = 0; attempt < 100; ++attempt)); do
    kill -0 "$server_pid" || return 1
    if "$attentionctl" health --server "$address"; then return 0; fi
    sleep 0.1
  done
  return 1
}

step "Packages"
install_with_log build build

step "Build"
build_server_with_log

step "Server on $address, with demo weights"
quietly build/logs/weights.log "$attentionctl" weights make-demo "$scratch/weights"
"$server" --listen "$address" --weights-dir "$scratch/weights" >build/logs/server.log 2>&1 </dev/null &
server_pid=$!
quietly build/logs/health.log wait_until_healthy || { cat build/logs/server.log >&2; exit 1; }
"$attentionctl" weights list --server "$address"

step "The public question: which input becomes the queries?"
"$attentionctl" explain --public-question --server "$address"

for concurrency in 1 16; do
  step "Load on demo/base (768 features, 12 heads): $concurrency at a time"
  "$attentionctl" bench demo/base --server "$address" --concurrency "$concurrency" --duration 3s
done

step "Stop"
stop_server

cat <<END

Next:
  $attentionctl weights make-demo build/weights     demo weights; or put your own .safetensors there
  $server --weights-dir build/weights    the server, on 127.0.0.1:50051; --help lists its flags
  $attentionctl explain --help                      the same explanation of your own tensors
  README.md                                          the formula, the API, clients in C++ and Python
  tests/run.sh                                       every test
END
