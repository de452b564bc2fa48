#!/bin/sh
# Every header compiles alone, as C11 and as C++; and so does the template of
# doc/FAMILIES.md.
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
if ! sed -n '/^```c$/,/^```$/p' "$top/doc/FAMILIES.md" |
    sed -e '/^```/d' -e '/<config.h>/d' -e 's/tw_family_NAME/tw_family_x/' |
    ${CC:-cc} -std=c11 -fsyntax-only -Wall -Wextra -Werror -D_GNU_SOURCE \
        -I"$top/src" -I"$top" -x c -; then
    echo "the template of doc/FAMILIES.md does not compile"
    bad=1
fi
exit $bad
