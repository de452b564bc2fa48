#!/bin/sh
# What -o sql prints is a database for the plain sqlite3 shell; every format of
# sql and bench is what it says it is.
. "${top_srcdir:-.}/tests/cli/lib.sh"

bench() {
    "$tw" bench ffn -M 64 -K 64 -N 128 -r 2 --nnz 4,9 --db b.sqlite "$@" 2>/dev/null
}
hostile="SELECT 1 AS \"a \"\"b\", 'it''s; DROP TABLE x; --' AS t, x'00ff' AS bytes, NULL AS none,
    9e999 AS big, 0.1 AS tenth, 9223372036854775807 AS most, 'line
break' AS line"
for format in table csv json jsonl md latex sql; do
    bench --name $format -o $format >bench.$format || not_ok "bench -o $format"
    "$tw" sql --db b.sqlite -o $format "$hostile" >sql.$format || not_ok "sql -o $format"
done
rows=$(sql b.sqlite "SELECT count(*) FROM bench_results WHERE run = 'csv'" | tail -n 1)
cat >check.py <<'E2'
import csv, json, sqlite3, sys
def rows(name):
    return [
        list(csv.reader(open(name + ".csv", newline="")))[1:],
        [list(map(str, r.values())) for r in json.load(open(name + ".json"))],
        [list(map(str, json.loads(r).values())) for r in open(name + ".jsonl")],
    ]
for name, n in ("bench", int(sys.argv[1])), ("sql", 1):
    assert n > 0
    for r in rows(name):
        assert len(r) == n, (name, r)
    db = sqlite3.connect(":memory:")
    db.executescript(open(name + ".sql").read())
    table = "bench_results" if name == "bench" else "result"
    assert db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == n
    for form in "table", "md", "latex":
        text = open(name + "." + form).read()
        assert text.count("\n") >= n + 2, (name, form)
row = db.execute("SELECT * FROM result").fetchone()
assert row == (1, "it's; DROP TABLE x; --", b"\0\xff", None, float("inf"), 0.1, 2**63 - 1,
               "line\nbreak"), row
assert json.load(open("sql.json"))[0]["line"] == "line\nbreak"
print("sound")
E2
equal "every format is read back" "$(python3 check.py $rows 2>&1 | tail -n 1)" sound
if command -v sqlite3 >/dev/null; then
    bench --name one -o sql | sqlite3 x.db
    equal "bench -o sql | sqlite3 x.db" "$(sqlite3 x.db "SELECT count(*), count(DISTINCT run),
        sum(ns_median > 0) FROM bench_results")" "$rows|1|$rows"
    bench --name two -o sql | sqlite3 x.db
    equal "a second run is added" "$(sqlite3 x.db "SELECT count(*), count(DISTINCT run)
        FROM bench_results")" "$((2 * rows))|2"
    whole="SELECT run, path, m, k, n, ns_median, ns_min FROM bench_results WHERE run = 'one'"
    equal "the same numbers as the program's" "$(sqlite3 -csv x.db "$whole" | tr -d '\r"')" \
        "$(sql b.sqlite "$whole" | tail -n +2 | tr -d '"')"
    "$tw" sql --db b.sqlite -o sql --table mine "$hostile" | sqlite3 y.db
    equal "sql -o sql | sqlite3" "$(sqlite3 y.db 'SELECT "a ""b", t, hex(bytes), none IS NULL,
        big > 1e308, tenth, most FROM mine')" \
        "1|it's; DROP TABLE x; --|00FF|1|1|0.1|9223372036854775807"
    "$tw" runs --db b.sqlite -o sql | sqlite3 z.db
    equal "runs -o sql | sqlite3" "$(sqlite3 z.db "SELECT count(*) FROM runs")" 9
else
    skip "no sqlite3 shell"
fi
finish
