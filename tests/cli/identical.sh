#!/bin/sh
# The same numbers, bit for bit, whatever the batch and the threads; counts free
# of the documents' order; several definitions in one pass. scripts/verify does
# this at full size and under other BLAS kernels.
. "${top_srcdir:-.}/tests/cli/lib.sh"

python3 "$top/tests/cli/make_corpus.py" 40 300 7 c.jsonl
python3 "$top/tests/cli/make_corpus.py" 40 300 7 shuffled.jsonl 3
profile() {
    "$tw" profile -m "$tiny" -c 128 --name r --active hidden --active abs:0.1 \
        --active topk:16 --magnitudes "$@" >/dev/null
}
n=0
for how in "-b 64 -t 1" "-b 500 -t 2" "-b 4096 -t 2" "-b 4096 -t 1"; do
    n=$((n + 1))
    claim "profile $how" profile -f c.jsonl --db $n.sqlite $how
    published $n.sqlite >$n.txt
    [ $n = 1 ] || same "$how gives the same bits" 1.txt $n.txt
done
equal "one row a layer in layer_stats" \
    "$(sql 1.sqlite "SELECT count(*) FROM layer_stats" | tail -n 1)" 6
equal "three in all_layer_stats" \
    "$(sql 1.sqlite "SELECT count(*) FROM all_layer_stats" | tail -n 1)" 18

claim "another order" profile -f shuffled.jsonl --db s.sqlite
for view in \
    "neuron, layer, fired, tokens FROM all_neuron_stats" \
    "layer, token_id, count, mean_nnz, min_nnz, max_nnz FROM all_layer_token_stats" \
    "layer, tokens, mean_nnz, min_nnz, p50_nnz, max_nnz, dead, mean_l1 FROM all_layer_stats" \
    "layer, position, tokens, mean_nnz FROM all_layer_position_stats"; do
    sql 1.sqlite "SELECT $view ORDER BY 1, 2, 3" >a.txt
    sql s.sqlite "SELECT $view ORDER BY 1, 2, 3" >b.txt
    same "order free: ${view##* }" a.txt b.txt
done

# Invariants between tables.
equal "firings = non-zeros" "$(sql 1.sqlite "SELECT count(*) FROM
    (SELECT active, layer, sum(fired) f FROM all_neuron_stats GROUP BY 1, 2) n
    JOIN (SELECT active, layer, sum(nnz * tokens) s FROM all_nnz_histogram
          GROUP BY 1, 2) h USING (active, layer) WHERE n.f <> h.s" | tail -n 1)" 0
equal "histogram mass = tokens" "$(sql 1.sqlite "SELECT count(*) FROM
    (SELECT active, layer, sum(tokens) t FROM all_nnz_histogram GROUP BY 1, 2) h
    JOIN all_layer_stats l USING (active, layer) WHERE h.t <> l.tokens" |
    tail -n 1)" 0
equal "topk:16 is 16 where there are as many" "$(sql 1.sqlite "SELECT max(max_nnz)
    FROM all_layer_stats WHERE active = 'topk:16'" | tail -n 1)" 16

# Shards add up.
for i in 0 1 2; do
    profile -f c.jsonl --db shard$i.sqlite --shard $i/3 2>/dev/null
    sql shard$i.sqlite "SELECT layer, neuron, fired FROM all_neuron_stats" |
        tail -n +2
done | awk -F, '{ f[$1 "," $2] += $3 } END { for (k in f) print k "," f[k] }' |
    sort >shards.txt
sql 1.sqlite "SELECT layer, neuron, fired FROM all_neuron_stats" | tail -n +2 |
    awk -F, '{ f[$1 "," $2] += $3 } END { for (k in f) print k "," f[k] }' |
    sort >whole.txt
same "shards add up" shards.txt whole.txt
finish
