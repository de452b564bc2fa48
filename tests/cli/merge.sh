#!/bin/sh
# Parts of a run, merged, are the run: every published view, bit for bit, in any
# order of files. What does not belong together is refused by name.
. "${top_srcdir:-.}/tests/cli/lib.sh"

python3 "$top/tests/cli/make_corpus.py" 40 300 7 c.jsonl
profile() {
    "$tw" profile -m "$tiny" -f c.jsonl -c 128 --name r --active hidden \
        --active abs:0.1 --magnitudes --tag who=me "$@" >/dev/null 2>&1
}
merge() {
    "$tw" merge "$@" 2>&1
}
claim "the whole" profile --db whole.sqlite
published whole.sqlite >whole.txt
for i in 0 1 2; do
    claim "part $i" profile --db p$i.sqlite --shard $i/3 --skip none
done
for order in "0 1 2" "0 2 1" "1 0 2" "1 2 0" "2 0 1" "2 1 0"; do
    files=$(printf 'p%s.sqlite ' $order)
    rm -f m.sqlite
    claim "merge $order" merge -o m.sqlite $files
    published m.sqlite >m.txt
    same "parts $order are the whole" whole.txt m.txt
    claim "fsck of $order" "$tw" fsck --db m.sqlite
done
equal "the command is the merge's" "$(sql m.sqlite "SELECT command LIKE
    'twellscope merge -o m.sqlite%' FROM run_info" | tail -n 1)" 1

# --split stream: a window counts as a document; limit over the whole corpus.
stream() {
    profile --split stream --limit 5000 --skip first:2 "$@"
}
claim "a stream" stream --db s.sqlite
for i in 0 1 2 3; do
    claim "part $i of the stream" stream --db s$i.sqlite --shard $i/4
done
claim "merge the stream" merge -o sm.sqlite s3.sqlite s1.sqlite s0.sqlite s2.sqlite
published s.sqlite >a.txt
published sm.sqlite >b.txt
same "the stream's parts are the whole" a.txt b.txt
claim "fsck of the stream" "$tw" fsck --db sm.sqlite
# More parts than documents: some hold nothing.
head -n 2 c.jsonl >two.jsonl
two() {
    "$tw" profile -m "$tiny" -f two.jsonl -c 128 --name t "$@" >/dev/null 2>&1
}
claim "two documents" two --db t.sqlite
for i in 0 1 2; do
    claim "part $i of two documents" two --db t$i.sqlite --shard $i/3
done
claim "merge an empty part" merge -o tm.sqlite t0.sqlite t1.sqlite t2.sqlite
published t.sqlite >a.txt
published tm.sqlite >b.txt
same "an empty part changes nothing" a.txt b.txt

# Refusals write nothing.
refused "a part given twice" 1 "part 1 of 3 of run 'r' is given twice" \
    sh -c "cp p1.sqlite copy.sqlite; '$tw' sql --db copy.sqlite 'SELECT 1' >/dev/null
    '$tw' profile -m '$tiny' -f c.jsonl -c 128 --name r --active hidden --active abs:0.1 \
        --magnitudes --shard 1/3 --db again.sqlite >/dev/null 2>&1
    exec '$tw' merge -o x.sqlite p0.sqlite p1.sqlite again.sqlite p2.sqlite"
refused "a file given twice" 1 "run 'r' is given twice" \
    "$tw" merge -o x.sqlite p0.sqlite copy.sqlite p1.sqlite p2.sqlite
refused "a part is missing" 1 "missing of 3 parts: 0, 2" \
    "$tw" merge -o x.sqlite p1.sqlite
claim "another context" "$tw" profile -m "$tiny" -f c.jsonl -c 64 --name r --active hidden \
    --active abs:0.1 --magnitudes --shard 2/3 --db other.sqlite
refused "parts that differ" 1 "run 'r' has -c '64', in p0.sqlite it is '128'" \
    "$tw" merge -o x.sqlite p0.sqlite p1.sqlite other.sqlite
refused "an input as the output" 2 "-o p0.sqlite is one of the files" \
    "$tw" merge -o p0.sqlite p0.sqlite p1.sqlite p2.sqlite
refused "no database" 1 "c.jsonl: file is not a database" \
    "$tw" merge -o x.sqlite p0.sqlite c.jsonl
refused "no output" 2 "-o is missing" "$tw" merge p0.sqlite
refused "a name that is taken" 1 "run 'r' exists already" \
    "$tw" merge -o m.sqlite p0.sqlite p1.sqlite p2.sqlite
published m.sqlite >m2.txt
same "a refused merge changes nothing" m.txt m2.txt
[ ! -e x.sqlite ] && ok "nothing is left behind" || not_ok "x.sqlite is left"

# What is missing can be gone without, and is named.
refused "--allow-missing says so" 3 "'r' lacks 1 of 3 parts" \
    "$tw" merge -o part.sqlite --allow-missing p0.sqlite p2.sqlite
equal "a partial run" "$(sql part.sqlite "SELECT status, shards, shards_missing
    FROM run_info" | tail -n 1)" "partial,3,1"
equal "with the parts' tokens" "$(sql part.sqlite "SELECT tokens FROM run_info" | tail -n 1)" \
    "$(($(sql p0.sqlite "SELECT tokens FROM run_info" | tail -n 1) +
        $(sql p2.sqlite "SELECT tokens FROM run_info" | tail -n 1)))"

# Runs that are no parts lie side by side; names and tags are the user's.
refused "two runs of one name" 1 "run 'r' exists already" \
    "$tw" merge -o x.sqlite whole.sqlite p1.sqlite p2.sqlite p0.sqlite
claim "rename" "$tw" runs --db whole.sqlite --rename r other
claim "side by side, renamed" merge -o both.sqlite whole.sqlite p1.sqlite p2.sqlite p0.sqlite \
    t.sqlite
equal "three runs" "$(sql both.sqlite "SELECT group_concat(run) FROM (SELECT run FROM run_info
    ORDER BY run)" | tail -n 1)" '"other,r,t"'
equal "equal counts" "$(sql both.sqlite "SELECT count(*) FROM (SELECT layer, neuron, fired,
    first_fired, last_fired FROM all_neuron_stats WHERE run = 'r' EXCEPT SELECT layer, neuron,
    fired, first_fired, last_fired FROM all_neuron_stats WHERE run = 'other')" | tail -n 1)" 0
equal "token pieces came along" "$(sql both.sqlite "SELECT count(*) FROM token_stats WHERE
    token IS NULL" | tail -n 1)" 0
claim "tag" "$tw" runs --db both.sqlite --tag r note=hello
equal "tags" "$(sql both.sqlite "SELECT group_concat(key || value) FROM run_tags WHERE
    run = 'r'" | tail -n 1)" '"notehello,whome"'
claim "take a tag away" "$tw" runs --db both.sqlite --tag r note=
equal "one tag" "$(sql both.sqlite "SELECT count(*) FROM run_tags WHERE run = 'r'" | tail -n 1)" 1
claim "delete" "$tw" runs --db both.sqlite --delete r
equal "two runs" "$(sql both.sqlite "SELECT count(*) FROM run_info" | tail -n 1)" 2
equal "nothing of it is left" "$(sql both.sqlite "SELECT count(*) FROM neuron_ WHERE run_id
    NOT IN (SELECT run_id FROM run_)" | tail -n 1)" 0
refused "no such run" 1 "no run 'r'" "$tw" runs --db both.sqlite --delete r
refused "no such database" 1 "none.sqlite" "$tw" runs --db none.sqlite --delete r
refused "a taken name" 1 "run 't' is there already" "$tw" runs --db both.sqlite --rename other t
refused "no tag" 2 "is not KEY=VALUE" "$tw" runs --db both.sqlite --tag t note
finish
