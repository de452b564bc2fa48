#!/bin/sh
# What the options promise: skip, apply, activation, split, limit, BOS; and
# shapes that are no multiples of anything.
. "${top_srcdir:-.}/tests/cli/lib.sh"

python3 "$top/tests/cli/make_corpus.py" 30 200 4 c.jsonl
profile() {
    "$tw" profile -m "$tiny" -f c.jsonl -c 128 --db r.sqlite "$@" >/dev/null 2>&1
}
one() {
    sql r.sqlite "$1" | tail -n 1
}
claim "plain" profile --name plain
claim "--skip first:2" profile --name skip --skip first:2
equal "skipped rows are kept apart" "$(one "SELECT (SELECT sum(tokens) FROM
    layer_class_stats WHERE run = 'skip' AND layer = 0 AND skipped = 1) =
    (SELECT skipped FROM run_info WHERE run = 'skip')")" 1
equal "nothing is lost by skipping" "$(one "SELECT (SELECT tokens + skipped FROM
    run_info WHERE run = 'skip') = (SELECT tokens FROM run_info WHERE run = 'plain')")" 1
equal "positions 0 and 1 are not in the statistics" "$(one "SELECT min(position)
    FROM position_stats WHERE run = 'skip'")" 2
equal "skipping never changes the loss" "$(one "SELECT count(DISTINCT mean_nll)
    FROM run_info WHERE run IN ('plain', 'skip')")" 1
equal "nor a later position" "$(one "SELECT count(*) FROM position_stats a JOIN
    position_stats b USING (position) WHERE a.run = 'plain' AND b.run = 'skip' AND
    a.mean_nnz <> b.mean_nnz")" 0

claim "--apply gate-abs:0 changes nothing" profile --name zero --apply gate-abs:0
equal "the same counts and loss" "$(one "SELECT count(DISTINCT mean_nll) FROM
    run_info WHERE run IN ('plain', 'zero')")" 1
claim "--apply topk:16" profile --name top --apply topk:16
equal "leaves at most 16" "$(one "SELECT max(max_nnz) FROM layer_stats
    WHERE run = 'top'")" 16
equal "and changes the loss" "$(one "SELECT count(DISTINCT mean_nll) FROM run_info
    WHERE run IN ('plain', 'top')")" 2
claim "--apply gate-abs:0.2" profile --name cats --apply gate-abs:0.2 \
    --active hidden --active gate-abs:0.2
equal "hidden is then gate-abs:0.2" "$(one "SELECT count(*) FROM all_layer_stats a
    JOIN all_layer_stats b USING (run, layer) WHERE run = 'cats' AND
    a.active = 'hidden' AND b.active = 'gate-abs:0.2' AND a.mean_nnz > b.mean_nnz")" 0
claim "--activation fatrelu:0.1" profile --name fat --activation fatrelu:0.1
equal "its source is the override" "$(one "SELECT activation || ' ' ||
    activation_source FROM run_info WHERE run = 'fat'")" "fatrelu:0.1 override"

# Text to sequences.
equal "docs: a sequence a piece of 128" "$(one "SELECT max(position) FROM
    position_stats WHERE run = 'plain'")" 127
claim "stream" profile --name stream --split stream
equal "stream: every window but the last is full" "$(one "SELECT (tokens + 127)
    / 128 = sequences FROM run_info WHERE run = 'stream'")" 1
equal "stream: EOS between texts" "$(one "SELECT count FROM token_stats WHERE
    run = 'stream' AND special = 1")" 29
claim "--limit" profile --name limit --limit 500
equal "the corpus ends after its first 500 tokens" "$(one "SELECT tokens FROM
    run_info WHERE run = 'limit'")" 500
claim "--bos yes" profile --name bos --bos yes
equal "a BOS a sequence" "$(one "SELECT (SELECT tokens FROM layer_class_stats
    WHERE run = 'bos' AND layer = 0 AND class = 'bos') = (SELECT sequences FROM
    run_info WHERE run = 'bos')")" 1
claim "--no-loss" profile --name noloss --no-loss
equal "no loss is NULL, not 0" "$(one "SELECT mean_nll IS NULL AND perplexity IS
    NULL FROM run_info WHERE run = 'noloss'")" 1
equal "and the counts stay" "$(one "SELECT count(*) FROM layer_stats a JOIN
    layer_stats b USING (layer) WHERE a.run = 'plain' AND b.run = 'noloss' AND
    a.mean_nnz <> b.mean_nnz")" 0
refused "--strict with overflow" 3 "--strict" "$tw" profile -m "$tiny" \
    -f c.jsonl -c 128 --db r.sqlite --name strict --strict
equal "but the run is complete" "$(one "SELECT status FROM run_info WHERE
    run = 'strict'")" complete
refused "--strict with a dense activation" 3 "--strict" "$tw" profile \
    -m "$tiny" -f c.jsonl -c 128 --db r.sqlite --name silu --activation silu --strict
refused "--strict --resume says the same again" 3 "--strict" "$tw" profile \
    -m "$tiny" -f c.jsonl -c 128 --db r.sqlite --name silu --activation silu \
    --strict --resume
"$tw" profile -m "$tiny" -f c.jsonl -c 128 --db r.sqlite --name none \
    --skip first:100000 >none.txt 2>/dev/null
grep -q "not measured" none.txt && ok "all rows skipped: not measured, not 0" ||
    not_ok "all rows skipped: not measured, not 0" "$(cat none.txt)"
equal "and nothing stands in the statistics" "$(one "SELECT count(mean_nnz) +
    count(dead) + (SELECT count(*) FROM dead_curve WHERE run = 'none')
    FROM layer_stats WHERE run = 'none'")" 0
claim "text and ids" sh -c "'$tw' tokenize -m '$tiny' -f c.jsonl -o ids.npy &&
    '$tw' profile -m '$tiny' -f c.jsonl -f ids.npy -c 128 --db r.sqlite --name both"
equal "bytes of ids are not known" "$(one "SELECT bytes IS NULL AND bits_per_byte
    IS NULL FROM run_info WHERE run = 'both'")" 1
equal "tokens by file" "$(one "SELECT group_concat(tokens > 0) FROM corpora
    WHERE run = 'both'" | tr -d '"')" "1,1"
claim "--dry-run" profile --name dry --dry-run
equal "counts nothing" "$(one "SELECT count(*) FROM run_info WHERE run = 'dry'")" 0

# Shapes: hidden 72 is no multiple of 64, d_ff of no tile; 1 to 257 tokens.
ids() {
    python3 - "$1" "$2" <<'P'
import struct, sys
n, out = int(sys.argv[1]), sys.argv[2]
head = "{'descr': '<i4', 'fortran_order': False, 'shape': (%d,), }" % n
head += " " * (-(10 + len(head) + 1) % 64) + "\n"
open(out, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) +
                      head.encode() + struct.pack("<%di" % n, *(i * 7 % 500 for i in range(n))))
P
}
for d_ff in 300 1024 5632 11008 14336; do
    python3 "$top/scripts/make_model.py" m$d_ff --layers 1 --hidden 72 \
        --heads 3 --kv-heads 3 --d-ff $d_ff --vocab 512
    for n in 1 7 63 64 65 255 257; do
        ids $n i.npy
        claim "d_ff $d_ff, $n tokens" "$tw" profile -m m$d_ff -f i.npy -c 2048 \
            --db shapes.sqlite --name "$d_ff-$n"
    done
done
equal "firings = non-zeros in all of them" "$(sql shapes.sqlite "SELECT count(*) FROM
    (SELECT run, layer, sum(fired) f FROM neuron_stats GROUP BY 1, 2) n JOIN
    layer_stats l USING (run, layer) WHERE n.f <> round(l.mean_nnz * l.tokens)" |
    tail -n 1)" 0
equal "a prefix has the counts it has alone" "$(sql shapes.sqlite "SELECT count(*)
    FROM layer_position_stats a JOIN layer_position_stats b USING (layer, position)
    WHERE a.run = '11008-64' AND b.run = '11008-257' AND a.mean_nnz <> b.mean_nnz" |
    tail -n 1)" 0
finish
