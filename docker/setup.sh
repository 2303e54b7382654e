# shellcheck shell=bash
# Functions that server/quickstart.sh, tests/run.sh and docker/Dockerfile share. To be sourced by bash, from the
# repository's root.

# Prints the packages of the named sections of docker/packages.txt, one a line.
packages() {
  local section
  for section in "$@"; do
    awk -v wanted="[$section]" '{ sub(/#.*/, "") } /^\[/ { inside = ($1 == wanted); next } inside && NF { print $1 }' \
      docker/packages.txt
  done
}

# Installs what is missing of the named sections. Asks neither for the network nor for root where nothing is.
install_packages() {
  local missing as_root=()
  missing=$(comm -23 <(packages "$@" | sort -u) \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | awk '$1 == "installed" { print $2 }' | sort -u))
  [[ -n $missing ]] || return 0
  mapfile -t missing <<<"$missing"
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "To be installed as root first: apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  # An unreachable source of somebody else's packages need not matter: the installation decides.
  "${as_root[@]}" apt-get update -q -o Acquire::Retries=3 || true
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "${missing[@]}"
}

# Prints the packages that hold the shared libraries of the given programs. Their names carry the libraries' versions, so
# they differ between the releases.
runtime_packages() {
  local libraries library path
  libraries=$(ldd "$@")
  if grep 'not found' <<<"$libraries" >&2; then return 1; fi
  awk '$2 == "=>" { print $3 }' <<<"$libraries" | sort -u | while read -r library; do
    path=$(realpath "$library")
    # dpkg may know a file of /usr/lib by its name in /lib.
    dpkg-query -S "$path" 2>/dev/null || dpkg-query -S "${path#/usr}"
  done | cut -d : -f 1 | sort -u
}

# Runs a command with its output in a log file, which is shown only if it fails: quietly LOG COMMAND…
quietly() {
  local log=$1 status=0
  shift
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if ((status != 0)); then
    tail -n 60 "$log" >&2
    echo "failed with $status (the whole log: $log): $*" >&2
  fi
  return "$status"
}

# As quietly, and shows the last line of the log while the command runs: over the line before on a terminal, elsewhere every
# twenty seconds. with_progress LOG COMMAND…
with_progress() {
  local log=$1 pause=20 status=0 pid line
  shift
  [[ ! -t 2 ]] || pause=1
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  while sleep 1 && kill -0 "$pid" 2>/dev/null; do
    ((SECONDS % pause == 0)) || continue
    line=$(tail -n 1 "$log" | cut -c "1-$((${COLUMNS:-80} - 1))")
    if [[ -t 2 ]]; then printf '\r\033[K%s' "$line" >&2; else echo "  $line" >&2; fi
  done
  [[ ! -t 2 ]] || printf '\r\033[K' >&2
  wait "$pid" || status=$?
  if ((status != 0)); then
    tail -n 60 "$log" >&2
    echo "failed with $status (the whole log: $log): $*" >&2
  fi
  return "$status"
}

# Configures FOLDER by a preset of tests/CMakePresets.json, and builds targets, separated by commas.
configure_and_build() {
  local folder=$1 preset=$2 targets
  IFS=, read -ra targets <<<"$3"
  # CMake reads presets from the root only. There the file is the user's own: an existing one is kept.
  [[ -e CMakeUserPresets.json ]] || ln -s tests/CMakePresets.json CMakeUserPresets.json
  cmake --preset "$preset" "${@:4}" && cmake --build "$folder" --target "${targets[@]}"
}

# install_with_log FOLDER SECTION…: installs what is missing of the sections of docker/packages.txt.
install_with_log() {
  local folder=$1
  shift
  mkdir -p "$folder/logs"
  echo "packages: $* ($folder/logs/packages.log)"
  with_progress "$folder/logs/packages.log" install_packages "$@"
}

# build_with_log FOLDER PRESET TARGETS OPTION…
build_with_log() {
  mkdir -p "$1/logs"
  echo "build: $3 ($1/logs/build.log)"
  with_progress "$1/logs/build.log" configure_and_build "$@"
}
