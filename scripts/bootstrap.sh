# shellcheck shell=bash
# Shared by scripts/benchsuite and scripts/test, which source it: installs what the build needs, configures and builds.
# Everything it prints goes to stderr, because stdout belongs to the program that runs afterwards.
#
# Environment:
#   BENCHSUITE_BUILD_DIR  where to build; default <checkout>/build/release (set it when the checkout is read-only)
#   BENCHSUITE_INSTALL    "never": install and ask for nothing, CMake alone decides whether what it finds is enough
#
# A failure here ends the script with status 2: nothing was run.

# What provides it is tested by the command, so that a compiler or a CMake from elsewhere is as good as Debian's.
readonly -a REQUIRED_TOOLS=(g++:g++ cmake:cmake ninja:ninja-build ccache:ccache)
readonly -a REQUIRED_LIBRARIES=(nlohmann-json3-dev libfmt-dev libcli11-dev libsqlite3-dev libgtest-dev libgmock-dev)
# Debian's libdnnl-dev needs OpenCL's headers to be found by CMake, but does not depend on them.
readonly -a OPTIONAL_PACKAGES=(libdnnl-dev libopenmpi-dev openmpi-bin libjemalloc-dev libbenchmark-dev
                              python3-matplotlib python3-jsonschema python3-lxml)

say() { printf 'benchsuite: %s\n' "$*" >&2; }

die() {
  say "$@"
  exit 2
}

# bootstrap_paths <script>: sets ROOT, BUILD_DIR, BINARY and STAMP, all absolute, without changing the directory. Tells
# the program where its cases are, for it can't see that from a build folder outside the checkout.
bootstrap_paths() {
  local script
  script=$(readlink -f -- "$1")
  ROOT=${script%/scripts/*}
  BUILD_DIR=${BENCHSUITE_BUILD_DIR:-$ROOT/build/release}
  [[ $BUILD_DIR == /* ]] || BUILD_DIR=$PWD/$BUILD_DIR
  BINARY=$BUILD_DIR/benchsuite
  STAMP=$BUILD_DIR/.bootstrap
  export BENCHSUITE_ROOT=${BENCHSUITE_ROOT:-$ROOT}
}

# Was the binary built from this checkout as it is now? The stamp carries the checkout's path and the moment the last
# good build began. Folders count as well as files: removing a file changes only its folder.
is_fresh() {
  local built_from newer
  [[ -x $BINARY && -r $STAMP ]] || return 1
  IFS= read -r built_from <"$STAMP"
  [[ $built_from == "$ROOT" ]] || return 1
  local -a watched=("$ROOT"/{engine,suite,CMakeLists.txt,CMakePresets.json})
  [[ -e $ROOT/.git/logs/HEAD ]] && watched+=("$ROOT/.git/logs/HEAD")  # results name the commit
  newer=$(find "${watched[@]}" -newer "$STAMP" -print -quit 2>&1) || return 1
  [[ -z $newer ]]
}

missing_packages() {  # the Debian packages among "$@" that are not installed, one a line
  local -A installed=()
  local package status
  while read -r package status; do
    [[ $status == installed ]] && installed[$package]=1
  done < <(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null)
  for package in "$@"; do
    [[ ${installed[$package]:-} ]] || printf '%s\n' "$package"
  done
}

missing_required() {
  local entry
  for entry in "${REQUIRED_TOOLS[@]}"; do
    [[ $entry == g++:* ]] && command -v "${CXX:-g++}" >/dev/null && continue
    command -v "${entry%%:*}" >/dev/null || printf '%s\n' "${entry#*:}"
  done
  command -v dpkg-query >/dev/null && missing_packages "${REQUIRED_LIBRARIES[@]}"
}

# apt <arguments>: Debian's package client with the rights it needs; waits for another apt that holds the lock.
apt() {
  "${AS_ROOT[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 "$@" </dev/null >&2
}

can_install() {  # sets AS_ROOT, the words to put before a command that needs root
  AS_ROOT=()
  command -v apt-get >/dev/null || return 1
  [[ $(id -u) == 0 ]] && return 0
  AS_ROOT=(sudo -n)
  command -v sudo >/dev/null && sudo -n true 2>/dev/null
}

refuse_without() {  # refuse_without <why> <packages...>
  local why=$1
  shift
  say "these Debian packages are missing: $*"
  say "$why. Install them with"
  say "  sudo apt-get update && sudo apt-get install --no-install-recommends $*"
  die "and start again. (Installed elsewhere? BENCHSUITE_INSTALL=never leaves the search to CMake.)"
}

install_missing() {
  local -a required optional=()
  [[ ${BENCHSUITE_INSTALL:-} == never ]] && return
  mapfile -t required < <(missing_required)
  # Optional packages are looked for before the first configuration only: a later one would not be noticed by it, and a
  # machine that can't have them should not be asked again and again.
  if [[ ! -e $BUILD_DIR/build.ninja ]] && command -v dpkg-query >/dev/null; then
    mapfile -t optional < <(missing_packages "${OPTIONAL_PACKAGES[@]}")
  fi
  ((${#required[@]} + ${#optional[@]})) || return 0

  if ! can_install; then
    ((${#required[@]})) && refuse_without "This account may not install them (neither root nor sudo -n)" "${required[@]}"
    say "going on without the optional packages ${optional[*]}"
    return
  fi
  local -a all=("${required[@]}" "${optional[@]}")
  say "installing ${all[*]}"
  apt -q update || say "the package lists could not be brought up to date; trying with the present ones"
  if ((${#required[@]})); then
    apt -qy install --no-install-recommends "${required[@]}" ||
      refuse_without "apt-get could not install them (its message is above)" "${required[@]}"
  fi
  ((${#optional[@]})) || return 0
  apt -qy install --no-install-recommends "${optional[@]}" ||
    say "going on without the optional packages ${optional[*]}"
}

configure() {
  local built_from=""
  local -a fresh=()
  [[ -r $STAMP ]] && IFS= read -r built_from <"$STAMP"
  if [[ ! -e $BUILD_DIR/build.ninja || ($built_from && $built_from != "$ROOT") ]]; then
    fresh=(--fresh)  # a checkout that moved, another generator, or a configuration that was cut short
  elif [[ ! $ROOT/CMakePresets.json -nt $BUILD_DIR/build.ninja ]]; then
    return 0  # ninja itself runs CMake again when a CMakeLists.txt or a folder changed
  fi
  say "configuring in $BUILD_DIR"
  cmake "${fresh[@]}" -S "$ROOT" --preset release -B "$BUILD_DIR" >&2 ||
    die "CMake could not configure the build (its message is above); nothing was run"
}

# ccache without a writable cache fails every compilation; the build goes on without it.
guard_ccache() {
  local cache
  cache=$(ccache --get-config cache_dir 2>/dev/null) && mkdir -p "$cache" 2>/dev/null && [[ -w $cache ]] && return
  export CCACHE_DISABLE=1
}

# build <target>: installs, configures and builds under a lock; returns when the target is up to date.
build() {
  mkdir -p "$BUILD_DIR" 2>/dev/null
  [[ -w $BUILD_DIR ]] || die "can't write to $BUILD_DIR; name a folder to build in with BENCHSUITE_BUILD_DIR"
  trap 'say "interrupted; the next call takes the build up where it stopped"; exit 130' INT
  trap 'exit 143' TERM
  exec {lock}>"$BUILD_DIR/.lock"
  if ! flock -n "$lock"; then
    say "another build runs in $BUILD_DIR; waiting for it"
    flock "$lock" || die "can't lock $BUILD_DIR/.lock"
  fi
  if [[ $1 == all ]] || ! is_fresh; then
    install_missing
    configure
    guard_ccache
    printf '%s\n' "$ROOT" >"$STAMP.new"  # before compiling: a file saved during the build makes the next call build again
    cmake --build "$BUILD_DIR" --target "$1" >&2 || die "the build failed (the errors are above); nothing was run"
    [[ -x $BINARY ]] || die "the build made no $BINARY; nothing was run"
    mv -f "$STAMP.new" "$STAMP"
  fi
  exec {lock}>&-
  trap - INT TERM
}
