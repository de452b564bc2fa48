#!/bin/sh
# Installs what the build needs where it may (root, or sudo without a
# password), else names the packages and fails.
set -eu

needed="autoconf automake make gcc g++ pkg-config libsqlite3-dev zlib1g-dev
    libopenblas-dev libjansson-dev libpcre2-dev nettle-dev"
useful="check gnuplot-nox fonts-dejavu-core sqlite3 python3 openmpi-bin
    libopenmpi-dev iproute2" # tests, figures, ranks
packages="$needed $useful"

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
    echo "Missing packages. Please have them installed:" >&2
    echo "  sudo apt-get install$missing" >&2
    for p in $missing; do
        case " $needed " in
        *[[:space:]]$p[[:space:]]*) exit 1 ;;
        esac
    done
    echo "They are for tests and figures only: going on." >&2
    exit 0
fi
echo "Installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
