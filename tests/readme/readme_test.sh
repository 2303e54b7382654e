#!/usr/bin/env bash
# Checks the READMEs against the programs and the tree.
#
#   tests/readme/readme_test.sh commands BUILD_FOLDER    runs the marked blocks; exit code 77 (skipped) if all pass, but
#                                                        those that need Python's packages for gRPC could not be run
#   tests/readme/readme_test.sh references BUILD_FOLDER  checks the paths in the text and the table of the server's flags
#
# The first word after ``` is the block's language, the others are marks:
#
#   run          a shell runs the block; any command that fails is an error
#   file=PATH    the block is written to PATH
#   output       every line of the block is printed, in this order, by the README's `run` blocks; "…" stands for the rest
#                of a line, or for any lines
#   python       the block needs Python's packages for gRPC
#
# The blocks of all READMEs run in order in one shell, in a scratch folder that looks like a clone with a finished build.
# The address localhost:50051 is replaced by a unix socket, so that the test can run beside a server.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[[ $# == 2 ]] || { sed -n '/^#   tests/,/^#$/ s/^#   //p' "${BASH_SOURCE[0]}" >&2; exit 2; }
readonly root=$PWD mode=$1
build=$(cd "$2" && pwd)
scratch=$(mktemp -d)
readonly build scratch address=unix:$scratch/attention.sock
trap 'rm -rf "$scratch"' EXIT

readonly readmes=(README.md client/README.md server/README.md docker/README.md tests/README.md)

# Writes each marked block of a README to $scratch/blocks/NAME:LINE.MARK, where NAME is the README's path with dots for
# slashes.
extract_blocks() {
  awk -v prefix="$scratch/blocks/${1//\//.}" -v readme="$1" '
    !inside && /^```[a-z]+ / {
      inside = 1; mark = ""; suffix = ""; target = ""
      for (i = 2; i <= NF; ++i) {
        if ($i == "python") suffix = ".python"
        else if ($i == "run" || $i == "output") mark = $i
        else if ($i ~ /^file=/) { mark = "file"; target = substr($i, 6) }
        else { print readme ":" NR ": unknown mark " $i >"/dev/stderr"; exit 1 }
      }
      name = sprintf("%s:%04d.%s%s", prefix, NR, mark, suffix)
      if (mark == "file") print target >(name ".target")
      printf "" >name
      next
    }
    inside && /^```$/ { inside = 0; close(name); next }
    inside { print >name }' "$1"
}

have_python() {
  /usr/bin/python3 -c 'import grpc, numpy, google.protobuf' 2>/dev/null && command -v grpc_python_plugin protoc >/dev/null
}

# Prints the shell script that does what a reader does. It ends the processes that it leaves running.
write_session() {
  local readme block name target
  cat <<'END'
set -euo pipefail
end_jobs() {
  local status=$? pid
  for pid in $(jobs -p); do kill "$pid"; wait "$pid" || true; done
  exit "$status"
}
trap end_jobs EXIT
END
  for readme in "${readmes[@]}"; do
    for block in "$scratch/blocks/${readme//\//.}":*; do
      name=${block##*/}
      if [[ $name == *.python* ]] && ! have_python; then continue; fi
      case $name in
        *.target) ;;
        *.file*)
          target=$(<"$block.target")
          echo "mkdir -p '$(dirname "$target")' && cp '$block' '$target'"
          ;;
        *.run*)
          echo "echo '$name' >'$scratch/current' && exec >>'$scratch/output/${name%%:*}' 2>&1"
          cat "$block"
          ;;
      esac
    done
  done
}

# A folder like a clone with a finished build, and a checkpoint of the reader's own.
prepare_clone() {
  mkdir -p "$scratch"/{blocks,clone,output,bin}
  ln -s "$root"/{proto,server,client,tests,docker} "$build" "$scratch/clone/"
  [[ ${build##*/} == build ]] || mv "$scratch/clone/${build##*/}" "$scratch/clone/build"
  ln -s /usr/bin/python3 "$scratch/bin/"  # Debian's, even if another one is installed
  "$build/bin/attentionctl" weights make-demo "$scratch/demo" >/dev/null
  "$build/bin/attentionctl" weights convert "$scratch/demo/demo.safetensors" "$scratch/clone/ocr.safetensors" >/dev/null
}

run_session() {
  local status=0
  write_session >"$scratch/session.sh"
  (
    cd "$scratch/clone"
    PATH=$scratch/bin:$PATH ATTENTION_LISTEN=$address ATTENTION_SERVER=$address \
      timeout 600 bash "$scratch/session.sh" </dev/null
  ) || status=$?
  ((status != 0)) || return 0
  tail -n 60 "$scratch/output/"*
  echo "failed with $status: block $(<"$scratch/current")"
  return 1
}

# check_output BLOCK OUTPUT: each line of the block follows in the output.
check_output() {
  awk -v block="${1##*/}" '
    function is_match(line) {
      if (pattern !~ /…$/) return line == pattern
      return index(line, substr(pattern, 1, length(pattern) - length("…"))) == 1
    }
    FNR == NR { lines[++count] = $0; next }
    $0 == "…" || $0 == "" { next }
    {
      pattern = $0
      while (++at <= count && !is_match(lines[at])) {}
      if (at > count) { print block ": not in the output, after the lines before it: " $0; exit 1 }
    }' "$2" "$1"
}

check_commands() {
  local readme block name status=0
  prepare_clone
  for readme in "${readmes[@]}"; do extract_blocks "$readme"; done
  sed -i "s,localhost:50051,$address,g; s,127\.0\.0\.1:50051,$address,g" "$scratch/blocks/"*
  run_session
  for block in "$scratch/blocks/"*.output*; do
    name=${block##*/}
    if [[ $name == *.python ]] && ! have_python; then continue; fi
    check_output "$block" "$scratch/output/${name%%:*}" || status=1
  done
  ((status == 0)) || return 1
  have_python || {
    echo 'skipped the blocks for Python: they need the packages protobuf-compiler-grpc, python3-grpcio, python3-protobuf, python3-numpy'
    exit 77
  }
}

# The paths in a README: in backquotes with a slash and the ending of a file or a folder, {h,cc} expanded; or as links.
paths() {
  local path
  grep -oE '`[A-Za-z0-9_.{},/-]+/[A-Za-z0-9_.{},/-]*`' "$1" | tr -d '`' |
    grep -E '(\.(cc|h|\{[a-z,]+\}|sh|txt|md|proto)|[^/.]/)$' | grep -vE '^build' |
    while read -r path; do eval "printf '%s\n' $path"; done
  grep -oE '\]\([^)]+\)' "$1" | sed 's/^](//; s/[#)].*//' | grep -vE '://|^$' || true
}

check_paths() {
  local readme path status=0
  for readme in "${readmes[@]}" tests/bench/README.md; do
    while read -r path; do
      if [[ ! -e $path && ! -e $(dirname "$readme")/$path ]]; then
        echo "$readme: no such file or folder: $path"
        status=1
      fi
    done < <(paths "$readme")
  done
  return "$status"
}

# The table in docker/README.md has the flags of --help.
check_flags() {
  diff <("$build/bin/attention_server" --help | grep -oE '^ +--[a-z-]+' | tr -d ' ' | grep -vx -e --config -e --version | sort) \
    <(grep -E '^\| `--' docker/README.md | cut -d '|' -f 2 | grep -oE -e '--[a-z-]+' | sort) ||
    { echo 'docker/README.md: expected the flags of attention_server --help (left), got those on the right'; return 1; }
}

check_references() {
  local status=0
  check_paths || status=1
  check_flags || status=1
  return "$status"
}

case $mode in
  commands) check_commands ;;
  references) check_references ;;
  *) echo "expected commands or references, got $mode" >&2; exit 2 ;;
esac
