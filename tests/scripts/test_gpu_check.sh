#!/usr/bin/env bash
# scripts/gpu_check: compiles without a GPU, says so when none is there, and refuses what it does not know.
# Without nvcc there is nothing to compile: only the last part runs.
set -uo pipefail
root=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export BENCHSUITE_BUILD_DIR=$folder CUDA_VISIBLE_DEVICES=""
failures=0

expect() {  # expect <exit code> <text on stderr or stdout> <command...>
  local want=$1 text=$2 code
  shift 2
  "$@" >"$folder/out" 2>&1
  code=$?
  if [[ $code != "$want" ]] || ! grep -qF -- "$text" "$folder/out"; then
    printf 'expected exit %s and "%s", got %s:\n' "$want" "$text" "$code"
    cat "$folder/out"
    failures=1
  fi
}

nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
if [[ -x $nvcc ]]; then
  expect 0 "compiling with" "$root/scripts/gpu_check" build
  [[ -x $folder/gpu_check/gpu_check ]] || { echo "no program was built"; failures=1; }
  expect 5 "no CUDA device here" "$root/scripts/gpu_check" operators --quick
  expect 2 'unknown argument "--bogus"' "$root/scripts/gpu_check" operators --bogus
fi
expect 2 "Usage:" "$root/scripts/gpu_check"
expect 0 "Exit codes:" "$root/scripts/gpu_check" --help
if [[ ! -x /usr/bin/nvcc ]]; then
  expect 2 "no nvcc found" env PATH=/usr/bin:/bin CUDA_HOME=/nonexistent NVCC= BENCHSUITE_BUILD_DIR="$folder/none" \
    "$root/scripts/gpu_check" build
fi
exit $failures
