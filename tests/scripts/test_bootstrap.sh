#!/usr/bin/env bash
# Tests scripts/benchsuite and scripts/test on a checkout that holds them and a one-file program: what they build, what
# they do not build again, and what they say when they can't. Runs without root, so that rights and read-only folders are
# real; nothing is installed, because the package client and its database are stand-ins where they matter.
# Usage: test_bootstrap.sh <checkout>
set -uo pipefail

checkout=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

project="$work/check out"  # with a space, here and below
mkdir -p "$project"/{engine,suite} "$work"/{elsewhere,fakes,empty}
cp -R "$checkout/scripts" "$checkout/CMakePresets.json" "$project/"
cat >"$project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES CXX)
enable_testing()
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
add_executable(benchsuite suite/main.cpp)
target_compile_definitions(benchsuite PRIVATE ROOT="${CMAKE_SOURCE_DIR}")
if(EXISTS ${CMAKE_SOURCE_DIR}/suite/with_test)
  add_test(NAME one COMMAND benchsuite)
  add_test(NAME two COMMAND benchsuite --fail)
endif()
CMAKE
write_main() {  # write_main <word>: the program prints the word, its folder and its arguments
  cat >"$project/suite/main.cpp" <<CPP
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
int main(int argc, char** argv) {
  char folder[4096];
  std::printf("$1|%s", getcwd(folder, sizeof folder));
  for (int i = 1; i < argc; ++i) std::printf("|%s", argv[i]);
  if (argc > 1 && std::strcmp(argv[1], "--root") == 0) std::printf("|%s|%s", ROOT, std::getenv("BENCHSUITE_ROOT"));
  return argc > 1 && std::strcmp(argv[1], "--fail") == 0 ? 7 : 0;
}
CPP
}
write_main first

unset BENCHSUITE_ROOT BENCHSUITE_BUILD_DIR BENCHSUITE_INSTALL
as_user=()
if [[ $(id -u) == 0 ]]; then
  as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups env "HOME=$work/home")
  mkdir "$work/home"
  chmod 755 "$work"
  chown -R 65534:65534 "$work"
fi

fake() {  # fake <command> <shell text>: a stand-in that comes first in PATH after use_fakes
  printf '#!/bin/bash\n%s\n' "$2" >"$work/fakes/$1"
  chmod 755 "$work/fakes/$1"
}
fake sudo 'exit 1'

# run <command...>: from $work/elsewhere; sets out, err, rc and ms.
run() {
  local start
  start=$(date +%s%N)
  (cd "$work/elsewhere" && PATH="$work/fakes:$PATH" "${as_user[@]}" "$@") >"$work/out" 2>"$work/err" </dev/null
  rc=$?
  ms=$((($(date +%s%N) - start) / 1000000))
  out=$(<"$work/out")
  err=$(<"$work/err")
}

expect() {  # expect <what> <condition...>
  local what=$1
  shift
  if "$@"; then
    printf 'ok      %s\n' "$what"
  else
    printf 'NOT ok  %s\n  status %s, stdout: %s\n  stderr: %s\n' "$what" "$rc" "$out" "$err"
    failures=$((failures + 1))
  fi
}
is() { [[ $1 == "$2" ]]; }
has() { [[ $1 == *"$2"* ]]; }
hasnt() { [[ $1 != *"$2"* ]]; }

bench="$project/scripts/benchsuite"

# Without rights and with packages missing: one message, nothing is configured.
fake dpkg-query 'exit 1'
run "$bench" --version
expect "no rights: status 2" is "$rc" 2
expect "no rights: names the command" has "$err" \
  "sudo apt-get update && sudo apt-get install --no-install-recommends nlohmann-json3-dev libfmt-dev libcli11-dev libsqlite3-dev libgtest-dev libgmock-dev"
expect "no rights: stdout is empty" is "$out" ""
expect "no rights: nothing configured" test ! -e "$project/build/release/CMakeCache.txt"

# With rights: the package client is asked once for what is missing, and its failure ends the call.
fake id 'echo 0'
fake apt-get "echo \"\$*\" >>'$work/elsewhere/apt.log'; [[ \$* != *install* ]]"
run "$bench"
expect "install fails: status 2" is "$rc" 2
expect "install fails: says so" has "$err" "apt-get could not install them"
expect "install: asked for the libraries" has "$(<"$work/elsewhere/apt.log")" \
  "install --no-install-recommends nlohmann-json3-dev libfmt-dev libcli11-dev libsqlite3-dev libgtest-dev libgmock-dev"
expect "install: not for what is there" hasnt "$(<"$work/elsewhere/apt.log")" "cmake"
rm "$work/fakes"/{id,apt-get,dpkg-query}

# The tiny program needs no library, so from here on packages are CMake's affair.
export BENCHSUITE_INSTALL=never

run "$bench" a "b c"
expect "first call: builds and runs" is "$rc|$out" "0|first|$work/elsewhere|a|b c"
expect "first call: progress on stderr" has "$err" "configuring in $project/build/release"

# Later calls: no CMake, no ninja, nothing on stderr, nothing written.
fake cmake 'echo "cmake was called" >&2; exit 1'
touch "$work/mark"
run "$bench" --fail
expect "second call: the program's own status" is "$rc" 7
expect "second call: silent" is "$err" ""
expect "second call: under a second ($ms ms)" test "$ms" -lt 1000
expect "second call: writes nothing" test -z "$(find "$project" -newer "$work/mark" -type f)"
ln -s "$bench" "$work/elsewhere/link"
run ./link x
expect "through a link" is "$rc|$out" "0|first|$work/elsewhere|x"
rm "$work/fakes/cmake"

# A checkout that can't be written to.
chmod -R a-w "$project"
run env BENCHSUITE_BUILD_DIR="$work/elsewhere/built here" "$bench"
expect "read-only checkout: BENCHSUITE_BUILD_DIR" is "$rc|$out" "0|first|$work/elsewhere"
chmod -R u+w "$project"
mv "$project/build" "$work/kept"
chmod a-w "$project"
run "$bench"
expect "read-only checkout: status 2" is "$rc" 2
expect "read-only checkout: names the way out" has "$err" "BENCHSUITE_BUILD_DIR"
chmod u+w "$project"
mv "$work/kept" "$project/build"

# An error in a source: the compiler's words, and never the old program.
echo 'int main() { return no_such_name; }' >"$project/suite/main.cpp"
run "$bench"
expect "compile error: status 2" is "$rc" 2
expect "compile error: shows it" has "$err" "no_such_name"
expect "compile error: says so" has "$err" "the build failed"
expect "compile error: the old program did not run" is "$out" ""

# No place for ccache to write to, as on machines whose home is read-only: built without it.
write_main without_cache
run env CCACHE_DIR=/proc/no/such/folder "$bench"
expect "no ccache folder" is "$rc|$out" "0|without_cache|$work/elsewhere"

# Two callers of a stale program: both get the new one, built once.
write_main second
chmod a+r "$project/suite/main.cpp"
(cd "$work/elsewhere" && "${as_user[@]}" "$bench") >"$work/out2" 2>"$work/err2" </dev/null &
run "$bench"
wait $!
expect "two callers: both run the new program" is "$out $(<"$work/out2")" "second|$work/elsewhere second|$work/elsewhere"
expect "two callers: one build" is "$(cat "$work"/err{,2} | grep -c 'Linking CXX executable')" 1

# A removed file makes the program stale too; a checkout that moved is configured anew.
touch "$project/engine/removed"
run "$bench"
fake cmake 'echo "cmake was called" >&2; exit 1'
rm "$project/engine/removed"
run "$bench"
expect "removed file: builds again" has "$err" "cmake was called"
rm "$work/fakes/cmake"
run "$bench"
mv "$project" "$work/moved"
project="$work/moved" bench="$work/moved/scripts/benchsuite"
run "$bench" --root
expect "moved checkout" is "$rc|$out" "0|second|$work/elsewhere|--root|$work/moved|$work/moved"

# scripts/test: no test is a failure; ctest's status and selection are passed through.
run "$project/scripts/test"
expect "no tests: fails" test "$rc" -ne 0
touch "$project/suite/with_test" "$project/CMakeLists.txt"
run "$project/scripts/test"
expect "a failing test: ctest's status" is "$rc" 8
expect "a failing test: ctest's closing line" has "$out" "1 tests failed out of 2"
run "$project/scripts/test" -R one
expect "a passing selection" is "$rc" 0
expect "a passing selection: one test" has "$out" "100% tests passed, 0 tests failed out of 1"
run "$project/scripts/test" -R none
expect "an empty selection: fails" test "$rc" -ne 0

((failures == 0))
