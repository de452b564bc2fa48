#!/bin/sh
# Registers, stack, spills and static shared memory of every CUDA kernel against
# tests/data/cuda_resources.txt, for each target that was built. The compiler's
# report stands beside the objects (kernels/cuda/NAME.o.ptxas), so no GPU is
# needed. Fails at a kernel beyond its bounds or not in the table, and at a line
# of the table that no kernel matches. Exits 77 without a CUDA build.
set -eu
table=${top_srcdir:-.}/tests/data/cuda_resources.txt
reports=$(ls "${top_builddir:-.}"/kernels/cuda/*.o.ptxas 2>/dev/null) || {
    echo "skipped: no CUDA build"
    exit 77
}
cat $reports | c++filt | awk -v table="$table" '
BEGIN {
    while ((getline line < table) > 0) {
        if (line ~ /^#/ || split(line, f, " ") != 5)
            continue
        pattern[++lines] = f[1]
        for (i = 2; i <= 5; i++)
            bound[lines, i] = f[i]
    }
    if (!lines) {
        print table ": no bounds"
        exit bad = 1
    }
    split("- registers stack_bytes spill_bytes shared_bytes", word, " ")
}
# "... entry function `void (anonymous namespace)::KERNEL<...>(...)` for `sm_90a`"
/Compiling entry function/ {
    target = $NF
    gsub(/[^a-z0-9_]/, "", target)
    kernel = $0
    sub(/^[^'\'']*'\''/, "", kernel)
    sub(/'\'' for .*/, "", kernel)
    gsub(/\(anonymous namespace\)::|hidden::|attention::|attention_wgmma::|^void /, "", kernel)
    gsub(/\((tw_dtype|[A-Za-z_:]*)\)/, "", kernel)
    sub(/\(.*/, "", kernel)
    is_entry = 1
}
/bytes stack frame/ && is_entry {
    used[3] = $1
    used[4] = $5 > $9 ? $5 : $9
}
/Used [0-9]+ registers/ && is_entry {
    used[2] = used[5] = 0
    for (i = 2; i <= NF; i++) {
        if ($i ~ /^registers/)
            used[2] = $(i - 1)
        if ($i ~ /^smem/)
            used[5] = $(i - 2)
    }
    check()
    is_entry = 0
}
function check(    i, n) {
    kernels++
    for (n = 1; n <= lines; n++)
        if (kernel ~ "^" pattern[n] "$")
            break
    if (n > lines) {
        print kernel " (" target ") is not in the table"
        bad = 1
        return
    }
    matched[n] = 1
    for (i = 2; i <= 5; i++)
        if (used[i] > bound[n, i] + 0) {
            print kernel " (" target "): " used[i] " " word[i] ", more than " bound[n, i]
            bad = 1
        }
}
END {
    for (n = 1; n <= lines && kernels; n++)
        if (!matched[n]) {
            print "no kernel is " pattern[n]
            bad = 1
        }
    print kernels + 0 " kernels"
    exit bad || !kernels
}'
