# shellcheck shell=bash
# Functions shared by server/quickstart.sh, tests/run.sh and docker/Dockerfile. Source this file with bash in the root of the
# repository.

# Prints the packages of the named sections of docker/packages.txt, one a line.
packages() {
  local section
  for section in "$@"; do
    awk -v header="[$section]" '{ sub(/#.*/, "") } /^\[/ { inside = ($1 == header); next } inside && NF { print $1 }' \
      docker/packages.txt
  done
}

# Installs the missing packages of the named sections. Needs neither network nor root if none is missing.
install_packages() {
  local missing as_root=()
  missing=$(comm -23 <(packages "$@" | sort -u) \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | awk '$1 == "installed" { print $2 }' | sort -u))
  [[ -n $missing ]] || return 0
  mapfile -t missing <<<"$missing"
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "missing packages; as root, run: apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  # A failed update is not fatal: another, unreachable package source may not matter. The installation decides.
  "${as_root[@]}" apt-get update -q -o Acquire::Retries=3 || true
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "${missing[@]}"
}

# Prints the packages of the shared libraries that the given programs use. Their names contain the libraries' versions, so
# they differ between the releases.
runtime_packages() {
  local libraries library path
  libraries=$(ldd "$@")
  if grep 'not found' <<<"$libraries" >&2; then return 1; fi
  awk '$2 == "=>" { print $3 }' <<<"$libraries" | sort -u | while read -r library; do
    path=$(realpath "$library")
    # dpkg may list a file of /usr/lib under /lib.
    dpkg-query -S "$path" 2>/dev/null || dpkg-query -S "${path#/usr}"
  done | cut -d : -f 1 | sort -u
}

# report_failure STATUS LOG COMMAND…: shows the end of the log if the command has failed. Returns the status.
report_failure() {
  (($1 == 0)) || { tail -n 60 "$2" && echo "failed with exit code $1: ${*:3} (whole log: $2)"; } >&2
  return "$1"
}

# quietly LOG COMMAND…: runs a command with its output in a log file.
quietly() {
  local status=0
  "${@:2}" >"$1" 2>&1 </dev/null || status=$?
  report_failure "$status" "$@"
}

# with_progress LOG COMMAND…: like quietly, but shows the last line of the log while the command runs: on a terminal in one
# line that changes, elsewhere every twenty seconds.
with_progress() {
  local log=$1 pause=20 status=0 pid line
  [[ ! -t 2 ]] || pause=1
  "${@:2}" >"$log" 2>&1 </dev/null &
  pid=$!
  while sleep 1 && kill -0 "$pid" 2>/dev/null; do
    ((SECONDS % pause == 0)) || continue
    line=$(tail -n 1 "$log" | cut -c "1-$((${COLUMNS:-80} - 1))")
    if [[ -t 2 ]]; then printf '\r\033[K%s' "$line" >&2; else echo "  $line" >&2; fi
  done
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
  wait "$pid" || status=$?
  report_failure "$status" "$@"
}

# configure_and_build FOLDER PRESET TARGETS OPTION…: configures with a preset of tests/CMakePresets.json, and builds the
# targets, which are separated by commas.
configure_and_build() {
  local folder=$1 preset=$2 targets
  # Makes the results of ccache, if it is installed, independent of the folder of the clone.
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
  IFS=, read -ra targets <<<"$3"
  # CMake reads presets only from the root. A user's own file there is kept.
  [[ -e CMakeUserPresets.json ]] || ln -s tests/CMakePresets.json CMakeUserPresets.json
  cmake --preset "$preset" "${@:4}" && cmake --build "$folder" --target "${targets[@]}"
}

# install_with_log FOLDER SECTION…: install_packages with a log in the folder.
install_with_log() {
  local folder=$1
  shift
  mkdir -p "$folder/logs"
  echo "packages: $* ($folder/logs/packages.log)"
  with_progress "$folder/logs/packages.log" install_packages "$@"
}

# build_with_log FOLDER PRESET TARGETS OPTION…: configure_and_build with a log in the folder.
build_with_log() {
  mkdir -p "$1/logs"
  echo "build: $3 ($1/logs/build.log)"
  with_progress "$1/logs/build.log" configure_and_build "$@"
}

# Builds attention_server and attentionctl in build/. A folder that tests/run.sh has configured keeps its tests.
build_server_with_log() {
  local tests=OFF
  [[ ! -f build/CMakeCache.txt ]] || tests=$(sed -n 's/^ATTENTION_BUILD_TESTS:[A-Z]*=//p' build/CMakeCache.txt)
  build_with_log build release attention_server,attentionctl "-DATTENTION_BUILD_TESTS=$tests"
}
