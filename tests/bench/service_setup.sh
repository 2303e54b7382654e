# shellcheck shell=bash
# Shared by the scripts that measure the service, which source it. Builds server and tool, and starts servers with demo
# weights, each on its own unix socket. They are stopped when the script ends.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
source docker/setup.sh

# A script that sources this may choose another server, and a command that runs it.
server=${server-build/bin/attention_server}
readonly server attentionctl=build/bin/attentionctl
server_command=("$server")
scratch=$(mktemp -d)
readonly scratch
declare -A server_pids=()

stop_servers() {
  local pid
  for pid in "${server_pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$scratch"
}
trap stop_servers EXIT

step() { printf '\n==> %s\n' "$*"; }

install_with_log build build
build_server_with_log
quietly build/logs/weights.log "$attentionctl" weights make-demo "$scratch/weights"

address_of() { echo "unix:$scratch/$1.sock"; }

wait_until_healthy() {
  local attempt
  for ((attempt = 0; attempt < 100; ++attempt)); do
    kill -0 "${server_pids[$1]}" || return 1
    if "$attentionctl" health --server "$(address_of "$1")"; then return 0; fi
    sleep 0.1
  done
  return 1
}

# start_server NAME OPTION…: starts a server on the address `address_of NAME`.
start_server() {
  local name=$1
  shift
  "${server_command[@]}" --listen "$(address_of "$name")" --weights-dir "$scratch/weights" "$@" \
    >"build/logs/server_$name.log" 2>&1 </dev/null &
  server_pids[$name]=$!
  quietly build/logs/health.log wait_until_healthy "$name" || { cat "build/logs/server_$name.log" >&2; exit 1; }
}

# bench NAME WEIGHT_SET OPTION…: runs attentionctl bench with that server.
bench() {
  local name=$1
  shift
  "$attentionctl" bench --server "$(address_of "$name")" "$@"
}
