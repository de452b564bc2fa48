#!/bin/sh
# Installs what the build needs where it may (root, or sudo without a
# password), else names the packages and fails.
set -eu

packages="autoconf automake make gcc g++ pkg-config libsqlite3-dev zlib1g-dev
    libopenblas-dev libjansson-dev libpcre2-dev nettle-dev check gnuplot-nox
    fonts-dejavu-core sqlite3 python3"

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "This system has no dpkg; install the counterparts of:" $packages >&2
    echo "(environment.yml serves conda-forge). Going on with what is here." >&2
    exit 0
fi

missing=
for p in $packages; do
    case $(dpkg-query -W -f='${Status}' "$p" 2>/dev/null || true) in
    *"ok installed") ;;
    *) missing="$missing $p" ;;
    esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root=sudo
elif [ -n "${CONDA_PREFIX:-}" ]; then
    exit 0 # a conda environment brings its own
else
    echo "Missing packages. Please run:" >&2
    echo "  sudo apt-get install$missing" >&2
    exit 1
fi
echo "Installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
