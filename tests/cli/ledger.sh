#!/bin/sh
# The ledger says of every row what the counts add up, whatever batch, thread,
# checkpoint, part or reader; damaged ones give an error.
. "${top_srcdir:-.}/tests/cli/lib.sh"
extension=$(dirname "$tw")/twellscope_ledger

python3 "$top/tests/cli/make_corpus.py" 24 60 7 c.jsonl
TW_LEDGER_ROWS=150 # several blocks of a small corpus
export TW_LEDGER_ROWS
profile() {
    "$tw" profile -m "$tiny" -f c.jsonl -c 32 --name r --active hidden \
        --active abs:0.1 --skip first:1 --active-sets --watch 0:5,3:7,3:200 "$@" \
        >/dev/null 2>&1
}
ledger="SELECT active, sequence, document, position, layer, token_id, class, nnz, l1,
    nll_self, nll_next, skipped FROM token_activity ORDER BY active, layer, sequence, position"
sets="SELECT layer, sequence, position, neuron, value FROM active_neurons
    ORDER BY layer, sequence, position, neuron"
watched="SELECT layer, neuron, sequence, position, token_id, value FROM watched
    ORDER BY 1, 2, 3, 4"
read_all() {
    sql "$1" "$ledger" >$2.rows
    sql "$1" "$sets" >$2.sets
    sql "$1" "$watched" >$2.watched
}
claim "profile with a ledger" profile --db a.sqlite
read_all a.sqlite a
# The rows against the counts that were kept beside them.
equal "rows add up to layer_stats" "$(sql a.sqlite "SELECT count(*) FROM (SELECT active, layer,
    sum(nnz) AS s, count(*) AS n, min(nnz) AS low, max(nnz) AS high FROM token_activity
    WHERE skipped = 0 GROUP BY 1, 2) t JOIN all_layer_stats l USING (active, layer)
    WHERE n = tokens AND abs(s - mean_nnz * tokens) < 0.5 AND low = min_nnz
    AND high = max_nnz" | tail -n 1)" 12
equal "rows add up to layer_token_stats" "$(sql a.sqlite "SELECT count(*) FROM
    (SELECT active, layer, token_id, sum(nnz) AS s, count(*) AS n FROM token_activity
    WHERE skipped = 0 GROUP BY 1, 2, 3) t FULL JOIN all_layer_token_stats l
    USING (active, layer, token_id) WHERE n IS NOT count OR abs(s - mean_nnz * count) > 0.5" |
    tail -n 1)" 0
equal "losses are the run's" "$(sql a.sqlite "SELECT count(*) FROM run_info WHERE
    abs(mean_nll - (SELECT avg(nll_next) FROM token_activity WHERE layer = 0
    AND active = 'hidden')) < 1e-6" | tail -n 1)" 1
equal "a row's own loss is the row before's" "$(sql a.sqlite "SELECT count(*) FROM token_activity a
    JOIN token_activity b ON b.run = a.run AND b.active = a.active AND b.layer = a.layer
    AND b.sequence = a.sequence AND b.position = a.position - 1 WHERE a.layer = 0
    AND a.active = 'hidden' AND a.sequence = 3 AND a.nll_self IS NOT b.nll_next" | tail -n 1)" 0
equal "sets are as long as the rows say" "$(sql a.sqlite "SELECT count(*) FROM
    (SELECT layer, sequence, position, count(*) AS n FROM active_neurons GROUP BY 1, 2, 3) s
    JOIN token_activity t USING (layer, sequence, position) WHERE active = 'hidden'
    AND nnz <> n" | tail -n 1)" 0
equal "firings are neuron_stats'" "$(sql a.sqlite "SELECT count(*) FROM
    (SELECT layer, neuron, sum(fired) AS n FROM neuron_tokens GROUP BY 1, 2) t
    FULL JOIN (SELECT layer, neuron, fired FROM neuron_stats WHERE fired > 0) s
    USING (layer, neuron) WHERE n IS NOT fired" | tail -n 1)" 0
equal "counts are token_stats'" "$(sql a.sqlite "SELECT count(*) FROM neuron_tokens n
    LEFT JOIN token_stats t USING (token_id) WHERE n.count IS NOT t.count
    OR n.token IS NOT t.token" | tail -n 1)" 0
equal "watched firings are in the sets" "$(sql a.sqlite "SELECT count(*) FROM
    (SELECT layer, neuron, sequence, position FROM watched) w FULL JOIN (SELECT layer, neuron,
    sequence, position FROM active_neurons WHERE (layer = 0 AND neuron = 5) OR (layer = 3
    AND neuron IN (7, 200))) s USING (layer, neuron, sequence, position) WHERE w.layer IS NULL
    OR s.layer IS NULL" | tail -n 1)" 0

# What a WHERE pushes down never changes an answer.
for where in "layer = 2" "layer > 3 AND layer < 5" "sequence = 7" "sequence BETWEEN 5 AND 9" \
    "document >= 20" "position = 0" "token_id = 17" "position > 20 AND layer <= 1" \
    "active = 'abs:0.1' AND layer = 0" "run = 'r' AND sequence > 40" "layer = 2.5" \
    "layer > 1.5 AND sequence < 3.2" "run = 'none'" "layer = NULL" "document = -1"; do
    equal "WHERE $where" \
        "$(sql a.sqlite "SELECT count(*), sum(nnz) FROM token_activity WHERE $where" | tail -n 1)" \
        "$(sql a.sqlite "SELECT count(*), sum(nnz) FROM (SELECT * FROM token_activity LIMIT -1
            OFFSET 0) WHERE $where" | tail -n 1)"
done
for where in "neuron = 5" "neuron > 370 AND layer = 4" "token_id = 17 AND neuron < 9" \
    "sequence = 3 AND position = 4"; do
    equal "sets WHERE $where" \
        "$(sql a.sqlite "SELECT count(*), sum(neuron) FROM active_neurons WHERE $where" | tail -n 1)" \
        "$(sql a.sqlite "SELECT count(*), sum(neuron) FROM (SELECT * FROM active_neurons LIMIT -1
            OFFSET 0) WHERE $where" | tail -n 1)"
done

# The same rows for other batches, threads, checkpoints, kills and parts.
claim "other batches" profile --db b.sqlite -b 90 -t 1 --checkpoint 0
read_all b.sqlite b
for what in rows sets watched; do
    same "the same $what" a.$what b.$what
done
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    status=0
    timeout -s KILL 0.$((i % 4 + 1)) "$tw" profile -m "$tiny" -f c.jsonl -c 32 --name r \
        --active hidden --active abs:0.1 --skip first:1 --active-sets \
        --watch 0:5,3:7,3:200 --db k.sqlite --resume -b 70 --checkpoint 0 >/dev/null 2>&1 ||
        status=$?
    [ "$status" = 0 ] && break
done
claim "after kills" profile --db k.sqlite --resume -b 70
read_all k.sqlite k
for what in rows sets watched; do
    same "the same $what after kills" a.$what k.$what
done
for i in 0 1 2; do
    claim "part $i" profile --db p$i.sqlite --shard $i/3
done
claim "merge the parts" "$tw" merge -o m.sqlite p2.sqlite p0.sqlite p1.sqlite
read_all m.sqlite m
for what in rows sets watched; do
    same "the same $what from parts" a.$what m.$what
done
for db in a b k m; do
    claim "fsck of $db" "$tw" fsck --db $db.sqlite
done
refused "a resume without the ledger" 1 "--per-token" "$tw" profile -m "$tiny" -f c.jsonl -c 32 \
    --name r --active hidden --active abs:0.1 --skip first:1 --db a.sqlite --resume
claim "--replace" profile --db a.sqlite --replace
equal "no block is left behind" "$(sql a.sqlite "SELECT count(*) FROM ledger_ WHERE block_id NOT IN
    (SELECT block_id FROM ledger_block_)" | tail -n 1)" 0

# Blocks in which a layer or a watched neuron did nothing.
silent() {
    "$tw" profile -m "$tiny" -f c.jsonl -c 32 --name s --activation fatrelu:1e9 --active-sets \
        --watch 2:3 "$@" >/dev/null 2>&1
}
claim "a silent model" silent --db s.sqlite
timeout -s KILL 0.3 "$tw" profile -m "$tiny" -f c.jsonl -c 32 --name s \
    --activation fatrelu:1e9 --active-sets --watch 2:3 --db t.sqlite --resume -b 40 --checkpoint 0 \
    >/dev/null 2>&1
claim "goes on" silent --db t.sqlite --resume -b 40
for db in s t; do
    equal "rows of $db" "$(sql $db.sqlite "SELECT count(*) > 0, sum(nnz) FROM token_activity" |
        tail -n 1)" "1,0"
    equal "no firing in $db" "$(sql $db.sqlite "SELECT (SELECT count(*) FROM active_neurons) +
        (SELECT count(*) FROM watched) + (SELECT count(*) FROM neuron_tokens)" | tail -n 1)" 0
done

# Other readers.
is_sanitized() { # such an extension loads into no other program
    ldd "$extension.so" | grep -qE 'lib(a|ub)san'
}
if command -v sqlite3 >/dev/null && ! is_sanitized; then
    shell="SELECT layer, sequence, position, neuron, CAST(value * 1e6 AS INTEGER) AS v
        FROM active_neurons ORDER BY layer, sequence, position, neuron"
    printf '.load %s\n.mode csv\n.headers on\n%s;\n' "$extension" "$shell" |
        sqlite3 a.sqlite | tr -d '\r' >shell.sets
    sql a.sqlite "$shell" >own.sets
    same "the sqlite3 shell with the extension" own.sets shell.sets
    equal "functions" "$(printf '.load %s\nSELECT round(sparsity(96, 384), 4), gini(x),
        hist_quantile(x, x, 0.5), token_text("r", 17) IS NOT NULL FROM (SELECT 1 AS x UNION ALL
        SELECT 3);\n' "$extension" | sqlite3 a.sqlite)" "0.75|0.25|3.0|1"
    equal "the plain shell opens the file" "$(sqlite3 a.sqlite "SELECT count(*) FROM layer_stats")" 6
else
    skip "no sqlite3 shell, or the extension is sanitized"
fi
cat >load.py <<'E2'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.enable_load_extension(True)
db.load_extension(sys.argv[2])
for row in db.execute(sys.argv[3]):
    print(*row, sep="|")
E2
query="SELECT layer, sum(nnz), count(*) FROM token_activity WHERE active = 'hidden' GROUP BY layer"
python=python3
for candidate in python3 /usr/bin/python3; do
    "$candidate" -c 'import sqlite3; sqlite3.Connection.enable_load_extension' 2>/dev/null &&
        python=$candidate
done
if $python -c 'import sqlite3; sqlite3.Connection.enable_load_extension' 2>/dev/null &&
    ! is_sanitized; then
    equal "Python with the extension" "$($python load.py a.sqlite "$extension" "$query" | tr '|' ',')" \
        "$(sql a.sqlite "$query" | tail -n +2)"
else
    skip "Python without loadable extensions"
fi
# A search for one row after another, as a join makes it, finds what a scan does,
# and decodes a block's layer once, not once a row.
key="sequence, position, layer"
for order in "sequence, layer, position" "position DESC, layer DESC, sequence DESC"; do
    equal "rows searched by $order" "$(sql a.sqlite "SELECT count(*), sum(b.nnz), sum(a.nnz = b.nnz)
        FROM (SELECT * FROM token_activity ORDER BY $order) a CROSS JOIN token_activity b
        ON b.run = 'r' AND b.active = a.active AND b.sequence = a.sequence
        AND b.position = a.position AND b.layer = a.layer" | tail -n 1)" \
        "$(sql a.sqlite "SELECT count(*), sum(nnz), count(*) FROM token_activity" | tail -n 1)"
    equal "sets searched by $order" "$(sql a.sqlite "SELECT count(*), sum(b.neuron)
        FROM (SELECT DISTINCT $key FROM token_activity ORDER BY $order) a CROSS JOIN
        active_neurons b ON b.run = 'r' AND b.sequence = a.sequence AND b.position = a.position
        AND b.layer = a.layer" | tail -n 1)" \
        "$(sql a.sqlite "SELECT count(*), sum(neuron) FROM active_neurons" | tail -n 1)"
    equal "watched ones searched by $order" "$(sql a.sqlite "SELECT count(*), sum(b.value)
        FROM (SELECT DISTINCT $key FROM token_activity ORDER BY $order) a CROSS JOIN watched b
        ON b.run = 'r' AND b.sequence = a.sequence AND b.position = a.position
        AND b.layer = a.layer ORDER BY 1" | tail -n 1 | cut -c 1-12)" \
        "$(sql a.sqlite "SELECT count(*), sum(value) FROM watched" | tail -n 1 | cut -c 1-12)"
done
equal "what isn't there isn't found" "$(sql a.sqlite "SELECT count(*) FROM (SELECT 3 AS s, 0 AS p
    UNION ALL SELECT 3, 31 UNION ALL SELECT 3, 32 UNION ALL SELECT 3, -1 UNION ALL SELECT 99, 0
    UNION ALL SELECT -1, 0 UNION ALL SELECT 3, 1 << 40 UNION ALL SELECT 1 << 40, 0) CROSS JOIN
    token_activity b ON b.run = 'r' AND b.sequence = s AND b.position = p
    AND b.layer = 2 AND b.active = 'hidden'" | tail -n 1)" \
    "$(sql a.sqlite "SELECT count(*) FROM token_activity WHERE sequence = 3 AND layer = 2
    AND active = 'hidden' AND position IN (0, 31)" | tail -n 1)"
cat >decoded.py <<'E2'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.enable_load_extension(True)
db.load_extension(sys.argv[2])
most = 2 * db.execute("SELECT count(*) FROM ledger_").fetchone()[0]
seen = []
db.set_trace_callback(lambda text: seen.append(text) if "FROM ledger_ " in text else None)
rows = db.execute("SELECT count(*) FROM token_activity a CROSS JOIN token_activity b"
                  " ON b.run = 'r' AND b.active = a.active AND b.sequence = a.sequence"
                  " AND b.position = a.position AND b.layer = a.layer").fetchone()[0]
print("yes" if 0 < len(seen) <= most < rows else (len(seen), most, rows))
E2
if $python -c 'import sqlite3; sqlite3.Connection.enable_load_extension' 2>/dev/null &&
    ! is_sanitized; then
    equal "a join decodes a layer of a block once" "$($python decoded.py a.sqlite "$extension")" yes
fi
equal "plain Python" "$(python3 "$top/scripts/ledger.py" a.sqlite r token_activity 3 | tail -n +2 |
    awk -F, '{ n++; s += $6 } END { print n "," s }')" \
    "$(sql a.sqlite "SELECT count(*), sum(nnz) FROM token_activity WHERE layer = 3
    AND active = 'hidden'" | tail -n 1)"
equal "plain Python's sets" "$(python3 "$top/scripts/ledger.py" a.sqlite r active_neurons 2 |
    tail -n +2 | awk -F, '{ n++; s += $5 } END { print n "," s }')" \
    "$(sql a.sqlite "SELECT count(*), sum(neuron) FROM active_neurons WHERE layer = 2" | tail -n 1)"

# Damage: an error or fewer rows, never a crash. Bytes are spoilt by a fixed rule.
cat >spoil.py <<'E2'
import random, sqlite3, sys
rng = random.Random(int(sys.argv[2]))
db = sqlite3.connect(sys.argv[1])
ids = [r[0] for r in db.execute("SELECT rowid FROM ledger_ ORDER BY 1")]
for i in rng.sample(ids, 3):
    data = bytearray(db.execute("SELECT data FROM ledger_ WHERE rowid = ?", (i,)).fetchone()[0])
    what = rng.randrange(4)
    if what == 0:
        data = data[:rng.randrange(len(data))]
    elif what == 1:
        for _ in range(3):
            data[rng.randrange(min(len(data), 30))] = rng.randrange(256)
    elif what == 2:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    else:
        data = bytes(rng.randrange(256) for _ in range(rng.randrange(60)))
    db.execute("UPDATE ledger_ SET data = ? WHERE rowid = ?", (bytes(data), i))
if rng.randrange(2):
    db.execute("UPDATE ledger_block_ SET rows = ?, sequences = ?, before = ? WHERE block_id = 1",
               (rng.choice([0, 1, 7, 1 << 40, -3]), rng.choice([0, 1, 9, 1 << 33]),
                rng.choice([None, -5, 1 << 62])))
db.commit()
E2
crashed=0
for seed in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    cp a.sqlite spoilt.sqlite
    python3 spoil.py spoilt.sqlite $seed
    for query in "SELECT count(*), sum(nnz), sum(nll_self) FROM token_activity" \
        "SELECT count(*), sum(value) FROM active_neurons" "SELECT count(*) FROM watched" \
        "SELECT count(*) FROM neuron_tokens"; do
        status=0
        "$tw" sql --db spoilt.sqlite "$query" >/dev/null 2>err.txt || status=$?
        [ "$status" -lt 2 ] || { crashed=$((crashed + 1)); head -n 3 err.txt; }
    done
done
equal "damaged ledgers crash nothing" $crashed 0
cp a.sqlite spoilt.sqlite
python3 -c "import sqlite3
db = sqlite3.connect('spoilt.sqlite')
db.execute('UPDATE run_ SET layers = 1 << 30')
db.commit()"
refused "more layers than there can be" 1 "run 'r' has no shape" timeout 20 \
    "$tw" sql --db spoilt.sqlite "SELECT count(*) FROM token_activity"
refused "no such neuron" 2 "the model has no neuron 6:0" "$tw" profile -m "$tiny" -p x --watch 6:0
refused "no neuron at all" 2 "is not LAYER:NEURON" "$tw" profile -m "$tiny" -p x --watch 5
finish
