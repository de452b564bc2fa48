#!/bin/sh
# build.sh FOLDER [configure option]...: bootstraps if needed, configures
# FOLDER inside the source tree and builds there. Used by quickstart and check.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
folder=$top/$1
shift
jobs=$(nproc 2>/dev/null || echo 2)
cd "$top"
[ -x configure ] || ./bootstrap >/dev/null 2>&1 || ./bootstrap
mkdir -p "$folder"
cd "$folder"
if [ ! -f config.status ]; then
    "$top/configure" "$@" >configure.out 2>&1 || { tail -n 20 configure.out >&2; exit 1; }
fi
make -s -j"$jobs" >make.out 2>&1 || { tail -n 40 make.out >&2; exit 1; }
