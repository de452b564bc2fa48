#!/bin/sh
# The cuda backend's module on the emulated device (tests/emu): opened by the
# program, both paths, and a device that is too small.
. "${top_srcdir:-.}/tests/cli/lib.sh"

emulated_device
small="--backend cuda -M 70 -K 32 -N 64 -r 1 --nnz 4 --db b.sqlite"

claim "hopper" "$tw" bench ffn $small --path hopper --name h
claim "portable" "$tw" bench ffn $small --path portable --name p
claim "capability 8.6" env TW_EMU_CAPABILITY=86 "$tw" bench ffn $small --plain --name c
equal "paths" "$(sql b.sqlite "SELECT DISTINCT run, path FROM bench_results
    WHERE name = 'twell' ORDER BY 1" | tr '\n' ' ')" \
    "run,path c,portable h,hopper p,portable "
refused "hopper where it isn't" ! "needs compute capability 9.0" \
    env TW_EMU_CAPABILITY=86 "$tw" bench ffn $small --path hopper
refused "capability 7.5" ! "the kernels need 8.0" \
    env TW_EMU_CAPABILITY=75 "$tw" bench ffn $small
refused "too little memory" ! "out of memory" \
    env TW_EMU_MEMORY=10000 "$tw" bench ffn $small
finish
