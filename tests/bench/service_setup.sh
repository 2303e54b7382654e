# shellcheck shell=bash
# What the scripts that measure the service share; sourced by them. Builds server and tool, and starts servers on
# unix sockets of their own with demo weights, which end with the script.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
source docker/setup.sh

readonly server=build/bin/attention_server attentionctl=build/bin/attentionctl
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

build_service() {
  # A folder that tests/run.sh set up serves as it is.
  { [[ -f build/build.ninja ]] || cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DATTENTION_BUILD_TESTS=OFF; } &&
    cmake --build build --target attention_server attentionctl
}

# Equal sources in another clone are then equal to ccache, where it is installed.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
mkdir -p build/logs
echo "packages: build (build/logs/packages.log)"
quietly build/logs/packages.log install_packages build
echo "build: build (build/logs/service.log)"
quietly build/logs/service.log build_service
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

# start_server NAME OPTION…: one that listens on address_of NAME.
start_server() {
  local name=$1
  shift
  "$server" --listen "$(address_of "$name")" --weights-dir "$scratch/weights" "$@" \
    >"build/logs/server_$name.log" 2>&1 </dev/null &
  server_pids[$name]=$!
  quietly build/logs/health.log wait_until_healthy "$name" || { cat "build/logs/server_$name.log" >&2; exit 1; }
}

# bench NAME WEIGHT_SET OPTION…: attentionctl bench against that server.
bench() {
  local name=$1
  shift
  "$attentionctl" bench --server "$(address_of "$name")" "$@"
}
