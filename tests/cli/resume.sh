#!/bin/sh
# Killed at any moment, a run resumes to the counts of an unbroken one.
. "${top_srcdir:-.}/tests/cli/lib.sh"

python3 "$top/tests/cli/make_corpus.py" 120 600 11 c.jsonl
profile() {
    "$tw" profile -m "$tiny" -f c.jsonl -c 128 -b 256 --name r --active hidden \
        --active gate "$@" >/dev/null 2>&1
}
# For the background: exec, so that the signal meets the program itself.
exec_profile() {
    exec "$tw" profile -m "$tiny" -f c.jsonl -c 128 -b 64 -t 1 --name r \
        --active hidden --active gate "$@" >/dev/null 2>&1
}
counts() {
    published "$1" | grep -v '^== parity' >"$2"
}
claim "an unbroken run" profile --db whole.sqlite
counts whole.sqlite whole.txt

kills=0
for wait in 0.02 0.05 0.1 0.2 0.3 0.45; do
    exec_profile --db killed.sqlite --resume --checkpoint 0 &
    pid=$!
    sleep $wait
    kill -9 $pid 2>/dev/null && kills=$((kills + 1))
    wait $pid 2>/dev/null
    [ -s killed.sqlite ] || continue # before the first commit: nothing yet
    state=$(sql killed.sqlite "SELECT status FROM run_info" 2>&1 | tail -n 1)
    case $state in
    interrupted | complete | status) ;;
    *) not_ok "killed after $wait s: readable" "$state" ;;
    esac
    equal "killed after $wait s: firings = non-zeros" "$(sql killed.sqlite \
        "SELECT count(*) FROM (SELECT active, layer, sum(fired) f FROM
         all_neuron_stats GROUP BY 1, 2) n JOIN (SELECT active, layer,
         sum(nnz * tokens) s FROM all_nnz_histogram GROUP BY 1, 2) h
         USING (active, layer) WHERE n.f <> h.s" | tail -n 1)" 0
done
claim "resumed to the end ($kills kills)" profile --db killed.sqlite --resume
counts killed.sqlite killed.txt
same "killed and resumed: the same views" whole.txt killed.txt
claim "--resume of a complete run does nothing" profile --db killed.sqlite --resume

profile --db limited.sqlite --resume --time-limit 0s
equal "--time-limit stops with 75" $? 75
equal "and the run says interrupted" \
    "$(sql limited.sqlite "SELECT status FROM run_info" | tail -n 1)" interrupted
claim "and resumes" profile --db limited.sqlite --resume
counts limited.sqlite limited.txt
same "to the same views" whole.txt limited.txt

exec_profile --db int.sqlite &
pid=$!
sleep 0.4
kill -INT $pid 2>/dev/null
wait $pid
status=$?
case $status in
75) ok "SIGINT stops at a checkpoint" ;;
0) skip "SIGINT: the run ended before the signal" ;;
*) not_ok "SIGINT: exit $status" ;;
esac
claim "and resumes" profile --db int.sqlite --resume
counts int.sqlite int2.txt
same "to the same views" whole.txt int2.txt

for other in "-c 64" "--skip first:1" "--limit 100" "--split stream" \
    "--magnitudes" "--activation relu2" "--active abs:1"; do
    refused "--resume with $other" 1 "not the same run" "$tw" profile -m "$tiny" \
        -f c.jsonl -c 128 --name r --db whole.sqlite --resume --active hidden \
        --active gate $other
done
python3 "$top/tests/cli/make_corpus.py" 5 60 1 d.jsonl
refused "--resume with other text" 1 "sha256" "$tw" profile -m "$tiny" -f d.jsonl \
    -c 128 --name r --db whole.sqlite --resume --active hidden --active gate
# Two at once on one run: the older one notices and stops, nothing is mixed.
exec_profile --db two.sqlite --resume --checkpoint 0 &
pid=$!
sleep 0.3
profile --db two.sqlite --resume --checkpoint 0
wait $pid
counts two.sqlite two.txt
same "two processes on one run: the same views" whole.txt two.txt
# Two new runs of one name at once: one is refused, none is lost.
exec_profile --db race.sqlite &
pid=$!
"$tw" profile -m "$tiny" -f c.jsonl -c 128 -b 64 -t 1 --name r --active hidden \
    --active gate --db race.sqlite >/dev/null 2>&1
first=$?
wait $pid
second=$?
equal "of two new runs of one name one is refused" $((first + second)) 1
counts race.sqlite race.txt
same "and the other is whole" whole.txt race.txt

refused "--resume without --name" 2 "--name" "$tw" profile -m "$tiny" -f c.jsonl \
    --db whole.sqlite --resume
counts whole.sqlite again.txt
same "none of it changed the run" whole.txt again.txt
finish
