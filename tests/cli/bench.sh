#!/bin/sh
# bench: what it refuses, what it stores, recorded rows beside profile's counts.
. "${top_srcdir:-.}/tests/cli/lib.sh"

small="-M 100 -K 32 -N 64 -r 2 --db b.sqlite"
refused "no target" 2 "say what to bench" "$tw" bench
refused "a list that falls" 2 "must ascend" "$tw" bench ffn --nnz 5,3
refused "more than the width" 2 "--nnz: '65'" "$tw" bench ffn -N 64 --nnz 65
refused "a type" 2 "--dtype: 'int8' is not bf16, fp16 or f32" "$tw" bench ffn --dtype int8
refused "a path on the cpu" 2 "--path hopper: only with --backend cuda" \
    "$tw" bench ffn --path hopper
refused "a path that is none" 2 "is not auto, hopper or portable" \
    "$tw" bench ffn --backend cuda --path ampere
refused "f32 on cuda" 2 "computes in bf16 or fp16" \
    "$tw" bench ffn --backend cuda --dtype f32
refused "text without a checkpoint" 2 "-p: not with --data uniform" \
    "$tw" bench ffn -p hello
refused "a layer of synthetic rows" 2 "--layer: not with --data skewed" \
    "$tw" bench ffn --data skewed --layer 1
refused "a width of recorded rows" 2 "-K: not with --data" \
    "$tw" bench ffn --data "$tiny" -K 64 -p hello
refused "recorded rows without text" 2 "its text is wanted" "$tw" bench ffn --data "$tiny"
refused "a layer past the last" 2 "--layer 6: the model has layers 0 to 5" \
    "$tw" bench ffn --data "$tiny" -p hello --layer 6 --db b.sqlite
refused "a checkpoint that is none" ! "nosuch" \
    "$tw" bench ffn --data nosuch -p hello --db b.sqlite
if ! "$tw" bench ffn --backend cuda $small --nnz 3 >/dev/null 2>&1; then
    refused "cuda where there is none" ! "cuda" "$tw" bench ffn --backend cuda $small --nnz 3
fi

claim "uniform" "$tw" bench ffn $small --nnz 0,4 --name u
claim "skewed, fp16" "$tw" bench ffn $small --nnz 4,8 --data skewed --dtype fp16 --name s
claim "plain, f32" "$tw" bench ffn $small --nnz 4 --plain --dtype f32 --name p
equal "rows: dense, twell and auto a point" \
    "$(sql b.sqlite "SELECT run, count(*) FROM bench_results GROUP BY 1" | tr '\n' ' ')" \
    "run,count(*) p,3 s,6 u,6 "
equal "facts of the rows" "$(sql b.sqlite "SELECT DISTINCT target, name, path, m, k, n, dtype, data,
    repetitions FROM bench_results WHERE run = 's'" | tail -n +2 | tr '\n' ' ')" \
    "ffn,dense,cblas,100,32,64,float32,skewed,2 ffn,twell,cpu,100,32,64,float16,skewed,2 ffn,auto,cpu,100,32,64,float16,skewed,2 "
equal "no energy on the cpu: NULL" "$(sql b.sqlite "SELECT count(*) FROM bench_results
    WHERE mj_per_token IS NULL AND energy_method IS NULL AND idle_watt IS NULL" | tail -n 1)" 15
equal "outputs agree" "$(sql b.sqlite "SELECT count(*) FROM bench_results
    WHERE rel_error < 1e-5" | tail -n 1)" 15
equal "gated and plain" "$(sql b.sqlite "SELECT run, gated FROM run_info ORDER BY 1" |
    tail -n +2 | tr '\n' ' ')" "p,0 s,1 u,1 "

text="The quick brown fox jumps over the lazy dog. Once upon a time there was a fox."
"$tw" profile -m "$tiny" -p "$text" --name fox --active gate --active hidden --db f.sqlite >/dev/null
claim "recorded rows" "$tw" bench ffn --data "$tiny" -p "$text" --layer 2 -r 2 --db f.sqlite --name rec
equal "recorded rows: non-zeros as profile counts them" \
    "$(sql f.sqlite "SELECT DISTINCT nnz_mean, nnz_max, k, n FROM bench_results WHERE name = 'twell'")" \
    "$(sql f.sqlite "SELECT mean_nnz AS nnz_mean, max_nnz AS nnz_max, 128 AS k, 384 AS n
        FROM all_layer_stats WHERE active = 'hidden' AND layer = 2")"
equal "recorded rows: their name" "$(sql f.sqlite "SELECT DISTINCT data FROM bench_results" |
    tail -n 1)" "sparselm-tiny layer 2"
claim "at most -M rows" "$tw" bench ffn --data "$tiny" -p "$text" -M 5 -r 2 --db f.sqlite --name five
equal "at most -M rows: five" "$(sql f.sqlite "SELECT DISTINCT m, data FROM bench_results
    WHERE run = 'five'" | tail -n 1)" "5,sparselm-tiny layer 3"

TWELLSCOPE_FIGURES=$top/figures # a build elsewhere finds none by itself
export TWELLSCOPE_FIGURES
"$tw" figure breakeven --db b.sqlite --run u --run s -o be.csv
equal "breakeven: points with non-zeros, twice each" "$(wc -l <be.csv)" 7
claim "breakeven with the paper's points" "$tw" figure breakeven --db b.sqlite --run s --paper -o be.csv
equal "breakeven: eight of the paper's" "$(grep -c '1.5B' be.csv)" 8
finish
