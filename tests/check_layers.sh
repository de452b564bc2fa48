#!/bin/sh
# Rooms may include only what DESIGN's map allows: "room: rooms it may include".
# A room is named as in #include "room/...": kernels, db and analysis stand at
# the top, the others below src/.
set -eu
cd "${top_srcdir:-.}"
bad=0

# allow FOLDER OWN-NAME ALLOWED...
allow() {
    folder=$1
    shift
    for f in $(find "$folder" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh'); do
        for inc in $(sed -n 's/^ *# *include "\([a-z_0-9]*\)\/.*/\1/p' "$f" | sort -u); do
            case " $* " in
            *" $inc "*) ;;
            *) echo "$f includes $inc/: not allowed"; bad=1 ;;
            esac
        done
    done
}

# only_in HEADER FOLDER: a library's header that one room alone may include.
only_in() {
    for f in $(grep -rlE "^ *# *include <$1>" --include='*.[ch]' --include='*.cu' \
                   src kernels db analysis); do
        case $f in
        "$2"/*) ;;
        *) echo "$f includes <$1>: only $2/ may"; bad=1 ;;
        esac
    done
}

allow src/base base
allow kernels kernels base
allow db db base
allow analysis analysis base db
allow src/load load base
allow src/text text base
allow src/model model base load kernels
allow src/run run base load text model kernels db analysis
allow src/cmd cmd run base load text model kernels db analysis

only_in sqlite3.h db
only_in cblas.h kernels
only_in pcre2.h src/text
only_in mpi.h src/run

# Nothing but src/cmd prints or ends the process (SQL in strings may printf).
for f in $(find src kernels db analysis -name '*.c' | grep -v '^src/cmd/'); do
    if sed 's/"[^"]*"//g' "$f" |
        grep -qE '\b(exit|abort|_exit)\(|\bprintf\(|fprintf\(stderr'; then
        echo "$f prints or exits: only src/cmd may"
        bad=1
    fi
done
exit $bad
