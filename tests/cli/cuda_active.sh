#!/bin/sh
# What needs a second pass over h, on the emulated device (tests/emu): topp, topk,
# more definitions than the layer's own kernels count, --magnitudes, active sets,
# watched neurons and examples: within the bound between backends of the CPU's,
# and the same for every batch, order of the device's threads and shard.
. "${top_srcdir:-.}/tests/cli/lib.sh"

emulated_device
python3 "$top/tests/cli/make_corpus.py" 6 40 3 c.jsonl
defs="--active topp:0.9 --active hidden --active topk:4 --active abs:0.1 --active gate
    --active gate-abs:0.05 --active abs:0.2"
profile() { # NAME BACKEND DB OPTION...
    name=$1 backend=$2 db=$3
    shift 3
    "$tw" profile -m "$tiny" -f c.jsonl -c 64 $defs --magnitudes --active-sets --watch 0:5,2:9 \
        --examples 2 --name "$name" --backend "$backend" --db "$db" "$@" >/dev/null 2>err.txt
}

claim "the cpu counts" profile cpu cpu m.sqlite
claim "the device counts" profile cuda cuda m.sqlite
# As few tokens as these have thresholds that one neuron more or less crosses.
equal "layer totals within 0.5 %, by every definition" "$(sql m.sqlite "SELECT count(*),
    max(abs(a.mean_nnz / b.mean_nnz - 1)) < 0.005 FROM all_layer_stats a JOIN all_layer_stats b
    USING (active, layer) WHERE a.run = 'cpu' AND b.run = 'cuda'" | tail -n 1)" 42,1
equal "and the primary's sum of |h|" "$(sql m.sqlite "SELECT max(abs(a.s / b.s - 1)) < 0.003 FROM
    (SELECT layer, sum(mean_abs * fired) AS s FROM neuron_stats WHERE run = 'cpu' GROUP BY 1) a JOIN
    (SELECT layer, sum(mean_abs * fired) AS s FROM neuron_stats WHERE run = 'cuda' GROUP BY 1) b
    USING (layer)" | tail -n 1)" 1
equal "every h that isn't 0 has a magnitude" "$(sql m.sqlite "SELECT count(*) FROM
    (SELECT layer, sum(count) AS n FROM magnitude_histogram WHERE run = 'cuda' GROUP BY 1) JOIN
    (SELECT layer, sum(fired) AS f FROM all_neuron_stats WHERE run = 'cuda' AND active = 'hidden'
    GROUP BY 1) USING (layer) WHERE n = f" | tail -n 1)" 6
equal "99 % of a set's neurons are the cpu's" "$(sql m.sqlite "SELECT
    count(*) > 0.99 * (SELECT count(*) FROM active_neurons WHERE run = 'cpu') FROM
    (SELECT sequence, position, layer, neuron FROM active_neurons WHERE run = 'cpu' INTERSECT
    SELECT sequence, position, layer, neuron FROM active_neurons WHERE run = 'cuda')" |
    tail -n 1)" 1
claim "what it stored agrees with itself" "$tw" fsck --db m.sqlite

counts() { # DB FILE
    for query in "SELECT layer, active, mean_nnz, min_nnz, max_nnz, mean_l1 FROM all_layer_stats" \
        "SELECT layer, active, neuron, fired, mean_abs, max_abs, first_fired, last_fired
            FROM all_neuron_stats" \
        "SELECT * FROM magnitude_histogram" "SELECT * FROM active_neurons" \
        "SELECT * FROM watched" "SELECT * FROM examples"; do
        sql "$1" "$query WHERE run = 'cuda'"
    done | sort >"$2"
}
cuda_counts_are_free 64 200
finish
