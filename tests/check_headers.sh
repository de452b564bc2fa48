#!/bin/sh
# Every header compiles alone, as C11 and as C++.
set -eu
top=$(cd "${top_srcdir:-.}" && pwd)
bad=0
for h in $(cd "$top" && find src kernels db analysis -name '*.h' | sort); do
    for mode in "${CC:-cc} -std=c11" "${CXX:-c++} -x c++"; do
        if ! echo "#include \"$h\"" | $mode -fsyntax-only -Wall -Wextra -Werror \
                -D_GNU_SOURCE -I"$top/src" -I"$top" -x "$(
                    case $mode in *c++*) echo c++ ;; *) echo c ;; esac)" -; then
            echo "$h does not compile alone ($mode)"
            bad=1
        fi
    done
done
exit $bad
