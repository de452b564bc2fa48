#!/bin/sh
# A whole model on the cuda backend, on the emulated device (tests/emu): within
# the bound between backends of the CPU's counts, and the same for every batch,
# order of the device's threads and shard; the portable path too.
. "${top_srcdir:-.}/tests/cli/lib.sh"

emulated_device
python3 "$top/tests/cli/make_corpus.py" 12 60 3 c.jsonl
options="-m $tiny -f c.jsonl -c 96 --active hidden --active abs:0.1 --per-token"
profile() { # NAME BACKEND DB OPTION...
    name=$1 backend=$2 db=$3
    shift 3
    "$tw" profile $options --name "$name" --backend "$backend" --db "$db" "$@" >/dev/null 2>err.txt
}
one() { # SQL: the one number
    sql m.sqlite "$1" | tail -n 1
}

claim "the cpu counts" profile cpu cpu m.sqlite
claim "the device counts" profile cuda cuda m.sqlite -b 512
equal "it computes in bfloat16" "$(one "SELECT compute_dtype || backend FROM run_info
    WHERE run = 'cuda'")" bfloat16cuda
far=$(one "SELECT max(abs(a.mean_nnz / b.mean_nnz - 1)) < 0.003 FROM layer_stats a
    JOIN layer_stats b USING (layer) WHERE a.run = 'cpu' AND b.run = 'cuda'")
equal "layer totals within 0.3 %" "$far" 1
near=$(one "SELECT avg(abs(a.nnz - b.nnz) <= 4) >= 0.995 FROM token_activity a
    JOIN token_activity b USING (active, sequence, position, layer)
    WHERE a.run = 'cpu' AND b.run = 'cuda'")
equal "99.5 % of a token's counts within 4" "$near" 1
equal "the loss within 0.002" "$(one "SELECT abs(a.mean_nll - b.mean_nll) < 0.002 FROM run_info a
    JOIN run_info b WHERE a.run = 'cpu' AND b.run = 'cuda'")" 1
equal "every row was counted" "$(one "SELECT count(*) FROM (SELECT DISTINCT tokens FROM
    layer_stats)")" 1

TW_EMU_CAPABILITY=86
export TW_EMU_CAPABILITY
claim "the portable path counts" profile portable cuda m.sqlite
unset TW_EMU_CAPABILITY
equal "within 0.3 % too" "$(one "SELECT max(abs(a.mean_nnz / b.mean_nnz - 1)) < 0.003
    FROM layer_stats a JOIN layer_stats b USING (layer)
    WHERE a.run = 'cpu' AND b.run = 'portable'")" 1

counts() { # DB FILE
    for query in "SELECT layer, active, mean_nnz, min_nnz, max_nnz, mean_l1 FROM all_layer_stats" \
        "SELECT layer, active, neuron, fired, first_fired, last_fired FROM all_neuron_stats" \
        "SELECT sequence, position, layer, nnz, l1, nll_next FROM token_activity" \
        "SELECT * FROM tile_histogram"; do
        sql "$1" "$query WHERE run = 'cuda'"
    done | sort >"$2"
}
cuda_counts_are_free 64 200
# Checkpoints of float16 run in it.
python3 "$top/tests/cli/make_f16.py" "$tiny" f16
half="-m f16 -f c.jsonl -c 96 --limit 200 --db f16.sqlite"
claim "float16 on the cpu" "$tw" profile $half --name cpu --backend cpu
claim "float16 on the device" "$tw" profile $half --name cuda --backend cuda
equal "it computes in float16" "$(sql f16.sqlite "SELECT compute_dtype FROM run_info
    WHERE run = 'cuda'" | tail -n 1)" float16
far=$(sql f16.sqlite "SELECT max(abs(a.mean_nnz / b.mean_nnz - 1)) < 0.003 FROM layer_stats a
    JOIN layer_stats b USING (layer) WHERE a.run = 'cpu' AND b.run = 'cuda'" | tail -n 1)
equal "float16: layer totals within 0.3 %" "$far" 1
refused "no such device" 1 "there is no device 3" \
    "$tw" profile $options --backend cuda --device 3 --db x.sqlite

# What the device can't do is an error by name, nothing silently less.
refused "no share of a row is applied" 1 "backend 'cuda' cannot apply 'topp:0.9'" "$tw" profile \
    -m "$tiny" -f c.jsonl -c 96 --limit 60 --backend cuda --db x.sqlite --apply topp:0.9
claim "auto leaves that to the CPU" "$tw" profile -m "$tiny" -f c.jsonl -c 96 --limit 60 \
    --backend auto --db a.sqlite --apply topp:0.9
equal "which computes it in its own type" "$(sql a.sqlite "SELECT backend || compute_dtype
    FROM run_info" | tail -n 1)" cpufloat32
claim "auto" "$tw" profile -m "$tiny" -f c.jsonl -c 96 --limit 60 --backend auto --db g.sqlite
equal "auto is the device where there is one" "$(sql g.sqlite "SELECT backend FROM run_info" |
    tail -n 1)" cuda
finish
