#!/bin/sh
# fsck says "ok" of what was measured, whatever the options, and finds each kind
# of violation; an older file is migrated on request, with a backup.
. "${top_srcdir:-.}/tests/cli/lib.sh"

python3 "$top/tests/cli/make_corpus.py" 8 40 7 c.jsonl
TW_LEDGER_ROWS=100 # several blocks of a small corpus
export TW_LEDGER_ROWS
profile() {
    "$tw" profile -m "$tiny" -f c.jsonl -c 32 "$@" >/dev/null 2>&1
}
clean() {
    "$tw" fsck "$@" >clean.txt 2>&1 || {
        grep -E 'violated' clean.txt
        return 1
    }
}
claim "a run with everything" profile --db a.sqlite --name r --active hidden --active abs:0.1 \
    --active gate --skip first:1 --magnitudes --active-sets --watch 0:5,3:7 --examples 2
claim "a part" profile --db a.sqlite --name part --shard 0/2
claim "times" "$tw" bench ffn -M 64 -K 64 -N 128 -r 2 --nnz 4 --db a.sqlite
printf '%s\n' '{"step": 1, "ce": 2.5, "nnz": [3, 4], "alive": [1.0, 0.5]}' >t.jsonl
claim "a training log" "$tw" import trainlog t.jsonl --db a.sqlite --name train
claim "all of it is clean" clean --db a.sqlite
python3 "$top/tests/cli/spoil_fsck.py" "$tw" a.sqlite >spoilt.txt 2>&1
while IFS= read -r line; do
    case $line in
    "ok "*) ok "${line#ok }" ;;
    "not ok "*) not_ok "${line#not ok }" "$(grep -A 1 -F "$line" spoilt.txt | tail -n 1)" ;;
    esac
done <spoilt.txt
equal "the spoiler ran to its end" "$(grep -c 'Traceback' spoilt.txt)" 0

# Nothing of these is violated, and what can't be checked is named.
claim "a stream" profile --db b.sqlite --name stream --split stream --limit 200 --per-token
claim "without loss" profile --db b.sqlite --name noloss --no-loss --watch 1:3
claim "everything skipped" profile --db b.sqlite --name none --skip first:40 --active-sets \
    --examples 2
for i in 0 1 2; do
    claim "part $i" profile --db p$i.sqlite --name m --shard $i/3 --active-sets --skip first:1 \
        --examples 3
done
claim "merged" "$tw" merge -o b.sqlite p2.sqlite p0.sqlite p1.sqlite
"$tw" profile -m "$tiny" -f c.jsonl -c 32 --db b.sqlite --name cut --per-token \
    --time-limit 0 --checkpoint 0 >/dev/null 2>&1
claim "they are clean" clean --db b.sqlite
claim "parts are clean" clean --db p1.sqlite
reason() {
    "$tw" fsck --db b.sqlite --run "$1" -o csv 2>/dev/null | grep -F "$2,not checked" |
        head -n 1 | sed 's/.*,//'
}
equal "no ledger of non-zeros" "$(reason noloss "token_ = the ledger's")" \
    "the ledger holds watched neurons alone"
equal "no loss" "$(reason noloss "blocks' losses = the run's")" "no loss was measured"
equal "not ended" "$(reason cut "mean_nnz = non-zeros / tokens")" \
    "the run is interrupted: made at its end"
equal "no sets" "$(reason stream "neuron_ = the ledger's firings")" \
    "without --active-sets or --watch"
refused "no such run" 1 "no run 'x'" "$tw" fsck --db b.sqlite --run x
refused "a stray word" 2 "x" "$tw" fsck --db b.sqlite x

# A run that schema 1 holds, in a file of schema 1.
cat >old.py <<'E2'
import sqlite3, sys
new, old, schema = sys.argv[1:]
a, b = sqlite3.connect(new), sqlite3.connect(old)
b.executescript(open(schema).read())
for table, in b.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
    names = [r[1] for r in b.execute(f"PRAGMA table_info({table})")]
    b.execute(f"DELETE FROM {table}")
    b.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * len(names))})",
                  a.execute(f"SELECT {','.join(names)} FROM {table}").fetchall())
b.commit()
E2
claim "a file of schema 1" python3 old.py b.sqlite old.sqlite "$top/tests/data/schema-1.sql"
claim "it is read" "$tw" sql --db old.sqlite "SELECT * FROM layer_stats"
claim "and checked" clean --db old.sqlite
refused "not written" 1 "fsck --migrate" "$tw" runs --db old.sqlite --rename none other
refused "nor profiled into" 1 "fsck --migrate" "$tw" profile -m "$tiny" -p x --db old.sqlite
refused "nor merged" 1 "fsck --migrate" "$tw" merge -o new.sqlite old.sqlite
cp old.sqlite kept.sqlite
claim "migrated" clean --db old.sqlite --migrate
published kept.sqlite >a.txt
published old.sqlite.v1-backup >b.txt
same "the backup is the old file" a.txt b.txt
equal "schema 2" "$(sql old.sqlite "PRAGMA user_version" | tail -n 1)" 2
claim "written now" "$tw" runs --db old.sqlite --rename none other
claim "and back" "$tw" runs --db old.sqlite --rename other none
equal "the counts are the same" "$(sql old.sqlite "SELECT * FROM all_neuron_stats" | cksum)" \
    "$(sql kept.sqlite "SELECT * FROM all_neuron_stats" | cksum)"
claim "again: nothing to do" clean --db old.sqlite --migrate
cp kept.sqlite old.sqlite
refused "no backup is overwritten" 1 "a backup is there already" "$tw" fsck --db old.sqlite --migrate
same "and the file is as it was" kept.sqlite old.sqlite
finish
