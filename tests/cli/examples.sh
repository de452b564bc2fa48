#!/bin/sh
# --examples keeps each neuron's strongest contexts, exactly: what --watch
# records of a neuron, sorted; for any batch, kill, part and order of parts.
. "${top_srcdir:-.}/tests/cli/lib.sh"

python3 "$top/tests/cli/make_corpus.py" 12 50 7 c.jsonl
TW_LEDGER_ROWS=150
export TW_LEDGER_ROWS
profile() {
    "$tw" profile -m "$tiny" -f c.jsonl -c 32 --name r --skip first:1 --examples 3 \
        --magnitudes "$@" >/dev/null 2>&1
}
all="SELECT layer, expert, neuron, rank, sequence, document, position, value FROM examples
    ORDER BY layer, neuron, rank"
claim "profile" profile --db a.sqlite --per-token --watch 0:5,2:9,3:7,3:200,5:383
sql a.sqlite "$all" >a.txt
equal "as many as it fired, at most 3" "$(sql a.sqlite "SELECT count(*) FROM neuron_stats n
    LEFT JOIN (SELECT layer, neuron, count(*) AS k, max(rank) AS last FROM examples GROUP BY 1, 2) e
    USING (layer, neuron) WHERE ifnull(k, 0) <> min(fired, 3) OR last <> k" | tail -n 1)" 0
equal "the first is max_abs" "$(sql a.sqlite "SELECT count(*) FROM examples e JOIN neuron_stats n
    USING (run, layer, neuron) WHERE rank = 1 AND abs(value) <> max_abs" | tail -n 1)" 0
for neuron in 0:5 2:9 3:7 3:200 5:383; do
    where="layer = ${neuron%:*} AND neuron = ${neuron#*:}"
    equal "of $neuron, what --watch recorded" \
        "$(sql a.sqlite "SELECT sequence, document, position, value FROM examples WHERE $where")" \
        "$(sql a.sqlite "SELECT sequence, document, position, value FROM watched WHERE $where
            AND position > 0 ORDER BY abs(value) DESC, document, sequence, position LIMIT 3")"
done
equal "pushed down, the same" "$(sql a.sqlite "SELECT count(*), sum(value) FROM examples
    WHERE layer = 3 AND neuron BETWEEN 5 AND 9 AND rank < 3" | tail -n 1)" \
    "$(sql a.sqlite "SELECT count(*), sum(value) FROM (SELECT * FROM examples LIMIT -1 OFFSET 0)
    WHERE layer = 3 AND neuron BETWEEN 5 AND 9 AND rank < 3" | tail -n 1)"
equal "neuron shows them" "$("$tw" neuron 1:7 --db a.sqlite --part contexts -o csv 2>/dev/null |
    cut -d, -f1,2)" "$(sql a.sqlite "SELECT sequence, position FROM examples WHERE layer = 1
    AND neuron = 7")"

extension=$(dirname "$tw")/twellscope_ledger.so
if command -v sqlite3 >/dev/null && [ -z "$(ldd "$extension" | grep -E 'lib(a|ub)san')" ]; then
    equal "the sqlite3 shell with the extension" "$(printf '.load %s\nSELECT count(*), sum(sequence),
        sum(position) FROM examples;\n' "$(dirname "$tw")/twellscope_ledger" | sqlite3 -csv a.sqlite |
        tr -d '\r')" \
        "$(sql a.sqlite "SELECT count(*), sum(sequence), sum(position) FROM examples" | tail -n 1)"
else
    skip "no sqlite3 shell, or one without the sanitizers"
fi

equal "plain Python" "$(python3 "$top/scripts/ledger.py" a.sqlite r examples 2 | tail -n +2)" \
    "$(sql a.sqlite "SELECT layer, neuron, rank, sequence, position, value FROM examples
    WHERE layer = 2" | tail -n +2)"

# The same for other batches, checkpoints, kills and parts; without a ledger.
claim "other batches" profile --db b.sqlite -b 90 -t 1 --checkpoint 0
sql b.sqlite "$all" >b.txt
same "the same contexts" a.txt b.txt
for i in 1 2 3 4 5 6; do
    status=0
    timeout -s KILL 0.$((i % 3 + 1)) "$tw" profile -m "$tiny" -f c.jsonl -c 32 --name r \
        --skip first:1 --examples 3 --magnitudes --db k.sqlite --resume -b 70 --checkpoint 0 \
        >/dev/null 2>&1 || status=$?
    [ "$status" = 0 ] && break
done
claim "after kills" profile --db k.sqlite --resume -b 70
sql k.sqlite "$all" >b.txt
same "the same contexts after kills" a.txt b.txt
for i in 0 1 2; do
    claim "part $i" profile --db p$i.sqlite --shard $i/3
done
for order in "0 1 2" "2 0 1"; do
    rm -f m.sqlite
    claim "merge $order" "$tw" merge -o m.sqlite $(printf 'p%s.sqlite ' $order)
    sql m.sqlite "$all" >b.txt
    same "the same contexts from parts $order" a.txt b.txt
done
claim "fsck of the merged" "$tw" fsck --db m.sqlite
refused "parts of another K" 1 "--examples" sh -c "'$tw' profile -m '$tiny' -f c.jsonl -c 32 \
    --name r --skip first:1 --examples 2 --magnitudes --shard 1/3 --db q.sqlite >/dev/null 2>&1
    exec '$tw' merge -o x.sqlite p0.sqlite q.sqlite p2.sqlite"
claim "deleted" "$tw" runs --db m.sqlite --delete r
equal "nothing is left" "$(sql m.sqlite "SELECT count(*) FROM example_" | tail -n 1)" 0
refused "too many" 2 "--examples: at most 1000" "$tw" profile -m "$tiny" -p x --examples 1001

# Damage: an error, never a crash.
cat >spoil.py <<'E2'
import random, sqlite3, sys
rng = random.Random(int(sys.argv[2]))
db = sqlite3.connect(sys.argv[1])
data = bytearray(db.execute("SELECT data FROM example_ WHERE layer = 2").fetchone()[0])
if rng.randrange(2):
    data = data[:rng.randrange(len(data))]
for _ in range(3):
    if data:
        data[rng.randrange(min(len(data), 40))] = rng.randrange(256)
db.execute("UPDATE example_ SET data = ? WHERE layer = 2", (bytes(data),))
if rng.randrange(2):
    db.execute("UPDATE run_ SET d_ff = ?, ctx = ?", (rng.choice([1, 7, 1 << 30]), 5))
db.commit()
E2
crashed=0
for seed in 1 2 3 4 5 6 7 8; do
    cp b.sqlite spoilt.sqlite
    python3 spoil.py spoilt.sqlite $seed
    for command in "sql 'SELECT sum(value), sum(sequence) FROM examples'" "fsck"; do
        status=0
        eval "'$tw' $command --db spoilt.sqlite" >/dev/null 2>err.txt || status=$?
        [ "$status" -lt 2 ] || { crashed=$((crashed + 1)); head -n 3 err.txt; }
    done
done
equal "damaged examples crash nothing" $crashed 0
finish
