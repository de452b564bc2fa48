#!/bin/sh
# diff and neuron: what they print is what the views say, computed another way.
. "${top_srcdir:-.}/tests/cli/lib.sh"

python3 "$top/tests/cli/make_corpus.py" 10 40 7 c.jsonl
python3 "$top/tests/cli/make_corpus.py" 8 40 9 other.jsonl
profile() {
    "$tw" profile -m "$tiny" -c 32 "$@" >/dev/null 2>&1
}
claim "run a" profile -f c.jsonl --name a --db x.sqlite --active hidden --active abs:0.1 \
    --skip first:1 --active-sets
claim "run b, sparser" profile -f other.jsonl --name b --db x.sqlite --active hidden \
    --active abs:0.1 --apply abs:1.2 --per-token --watch 1:3
claim "run c, elsewhere" profile -f c.jsonl --name c --db y.sqlite --active abs:0.1 --watch 2:9
csv() {
    "$tw" "$@" -o csv 2>/dev/null | tr -d '"'
}
csv diff a b --db x.sqlite >diff.txt
equal "a line a layer" "$(wc -l <diff.txt | tr -d ' ')" 7
cat >again.py <<'E2'
import csv, math, sqlite3, sys
active = sys.argv[1]
c = sqlite3.connect("x.sqlite")
bad = n = 0
for r in csv.DictReader(sys.stdin):
    l = int(r["layer"])
    s = [c.execute("SELECT mean_nnz, se_nnz, dead, tokens FROM all_layer_stats WHERE run = ? AND"
                   " active = ? AND layer = ?", (run, active, l)).fetchone() for run in "ab"]
    f = [c.execute("SELECT fired, tokens FROM all_neuron_stats WHERE run = ? AND active = ? AND"
                   " layer = ? ORDER BY neuron", (run, active, l)).fetchall() for run in "ab"]
    drift = [abs(y[0] / y[1] - x[0] / x[1]) for x, y in zip(*f)]
    se = math.sqrt(s[0][1] ** 2 + s[1][1] ** 2)
    want = {"tokens_a": s[0][3], "tokens_b": s[1][3], "mean_a": s[0][0], "mean_b": s[1][0],
            "difference": s[1][0] - s[0][0], "se": se, "z": (s[1][0] - s[0][0]) / se,
            "dead_a": s[0][2], "dead_b": s[1][2],
            "newly_dead": sum(x[0] > 0 and y[0] == 0 for x, y in zip(*f)),
            "revived": sum(x[0] == 0 and y[0] > 0 for x, y in zip(*f)),
            "drift": sum(drift) / len(drift), "max_drift": max(drift)}
    for k, v in want.items():
        if abs(float(r[k]) - v) > 1e-9 * max(1, abs(v)):
            bad += 1
            print(l, k, r[k], v)
        n += 1
    bad += want["newly_dead"] == 0 # the test's runs must differ
print(n, bad)
E2
equal "computed again" "$(python3 again.py hidden <diff.txt | tail -n 3)" "78 0"
equal "of another definition" "$(csv diff a b --db x.sqlite --active abs:0.10 |
    python3 again.py abs:0.1 | tail -n 1 | cut -d' ' -f1)" 78
equal "the neurons that differ most" "$(csv diff a b --db x.sqlite --neurons 5 | tail -n +2 |
    cut -d, -f1,3)" "$(sql x.sqlite "SELECT a.layer, a.neuron FROM neuron_stats a JOIN
    neuron_stats b ON b.run = 'b' AND b.layer = a.layer AND b.neuron = a.neuron WHERE a.run = 'a'
    ORDER BY abs(b.rate - a.rate) DESC, 1, 2 LIMIT 5" | tail -n +2)"
equal "newly dead ones are named" "$(csv diff a b --db x.sqlite --neurons 2304 |
    grep -c ',newly dead$')" "$(awk -F, 'NR > 1 { n += $11 } END { print n }' diff.txt)"
equal "nothing between a run and itself" "$(csv diff a a --db x.sqlite | tail -n +2 |
    awk -F, '{ s += $6 * $6 + $11 + $12 + $13 } END { print s }')" 0
equal "what else differs is said" "$("$tw" diff a b --db x.sqlite 2>&1 >/dev/null)" \
    "twellscope diff: the runs differ in: text, --apply, --skip"
equal "runs of two files" "$(csv diff x.sqlite:a y.sqlite:c --active abs:0.1 --db none.sqlite |
    cut -d, -f1,4)" "$(csv diff a a --db x.sqlite --active abs:0.1 | cut -d, -f1,4)"
claim "a run and a file's" "$tw" diff a y.sqlite:c --db x.sqlite --active abs:0.1
for format in table json jsonl md latex sql; do
    claim "-o $format" "$tw" diff a b --db x.sqlite -o $format
done

equal "a watched neuron's contexts" "$(csv neuron 2:9 --db y.sqlite --part contexts --top 2 |
    cut -d, -f1-3)" "$(sql y.sqlite "SELECT sequence, position, value FROM watched WHERE layer = 2
    AND neuron = 9 ORDER BY abs(value) DESC, 1, 2 LIMIT 2")"
cat >shrink.py <<'E2'
import sqlite3
c = sqlite3.connect("y.sqlite")
c.execute("UPDATE run_ SET layers = 8, d_ff = 1024, run = 'big' WHERE run = 'c'")
c.commit()
E2
refused "another definition first" 1 "run 'a' counts 'hidden' first, run 'c' 'abs:0.1'" \
    "$tw" diff a y.sqlite:c --db x.sqlite
refused "no such definition" 1 "run 'c' counts no definition gate" \
    "$tw" diff y.sqlite:c y.sqlite:c --active gate
python3 shrink.py
refused "another shape" 1 "run 'a' has 6 layers of 384 neurons, run 'big' 8 of 1024" \
    "$tw" diff a y.sqlite:big --db x.sqlite --active abs:0.1
refused "no such run" 1 "no run 'z'" "$tw" diff a z --db x.sqlite
refused "no such file" 1 "none.sqlite" "$tw" diff a b --db none.sqlite
refused "one run" 2 "which two runs" "$tw" diff a --db x.sqlite

# neuron
equal "rate and rank" "$(csv neuron 2:7 --db x.sqlite --run a | tail -n 1 | cut -d, -f1,3-8)" \
    "$(sql x.sqlite "SELECT layer, neuron, tokens, fired, rate, (SELECT count(*) FROM neuron_stats
    o WHERE o.run = 'a' AND o.layer = 2 AND o.rate > n.rate) + 1, 384 FROM neuron_stats n
    WHERE run = 'a' AND layer = 2 AND neuron = 7" | tail -n 1)"
equal "another definition's" "$(csv neuron 2:7 --db x.sqlite --run a --active abs:0.1 | tail -n 1 |
    cut -d, -f5)" "$(sql x.sqlite "SELECT fired FROM all_neuron_stats WHERE run = 'a' AND
    active = 'abs:0.1' AND layer = 2 AND neuron = 7" | tail -n 1)"
equal "tokens" "$(csv neuron 2:7 --db x.sqlite --run a --part tokens --top 3 | cut -d, -f1,3-5)" \
    "$(sql x.sqlite "SELECT token_id, count(*) AS fired, (SELECT count FROM token_stats t WHERE
    t.run = 'a' AND t.token_id = n.token_id) AS count, 1.0 * count(*) / (SELECT count FROM
    token_stats t WHERE t.run = 'a' AND t.token_id = n.token_id) AS rate FROM active_neurons n JOIN
    token_activity s USING (run, sequence, position, layer, token_id) WHERE run = 'a' AND layer = 2
    AND neuron = 7 AND s.active = 'hidden' AND NOT skipped GROUP BY 1 ORDER BY 2 DESC, 4 DESC, 1
    LIMIT 3")"
equal "contexts" "$(csv neuron 2:7 --db x.sqlite --run a --part contexts --top 4 | cut -d, -f1-3)" \
    "$(sql x.sqlite "SELECT sequence, position, value FROM active_neurons WHERE run = 'a' AND
    layer = 2 AND neuron = 7 AND position > 0 ORDER BY abs(value) DESC, 1, 2 LIMIT 4")"
equal "each shows its token" "$(csv neuron 2:7 --db x.sqlite --run a --part contexts --top 4 |
    tail -n +2 | grep -c '\[.*\]')" 4
equal "all parts on a terminal" "$("$tw" neuron 2:7 --db x.sqlite --run a 2>/dev/null |
    grep -c '^$')" 2
equal "what would record them" "$("$tw" neuron 1:4 --db x.sqlite --run b 2>&1 >/dev/null)" \
    "twellscope neuron: no tokens and contexts: profile --active-sets would keep both, --examples K --per-token every neuron's strongest contexts, --watch 1:4 all of this one's"
refused "asked for" 1 "--active-sets" "$tw" neuron 1:4 --db x.sqlite --run b --part tokens
refused "no such neuron" 1 "run 'a' has no neuron 6:0 (6 layers of 384)" \
    "$tw" neuron 6:0 --db x.sqlite --run a
refused "no neuron at all" 2 "'x' is not LAYER:NEURON" "$tw" neuron x --db x.sqlite
refused "no such part" 2 "--part y" "$tw" neuron 1:1 --db x.sqlite --part y
finish
