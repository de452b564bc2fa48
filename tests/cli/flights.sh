#!/bin/sh
# Two batches in flight, and batches for which there is no memory: the views are
# those of a plain run. The program is linked with tests/late_ops.c for this,
# whose results come when a batch is collected, and whose memory TW_LATE ends.
. "${top_srcdir:-.}/tests/cli/lib.sh"
late=$(dirname "$tw")/tests/twellscope-late
plain=$tw

python3 "$top/tests/cli/make_corpus.py" 30 300 5 c.jsonl
profile() {
    program=$1
    shift
    "$program" profile -m "$tiny" -c $ctx --name r "$@" >/dev/null 2>err.txt
}
contents() {
    published "$1"
    sql "$1" "SELECT count(*), sum(nnz), sum(l1), sum(nll_self), sum(nnz * (sequence + 1) *
        (position + 1) * (layer + 1)), sum(document * nnz) FROM token_activity" 2>&1
}
runs=0 ctx=128 size=700 rows=200
# compare WHAT OPTIONS...: the plain program's views and those of the late one,
# once with all the memory, once with too little at each place.
compare() {
    what=$1
    shift
    runs=$((runs + 1))
    claim "$what: the plain program" profile "$plain" "$@" --db p$runs.sqlite -b $size
    contents p$runs.sqlite >p$runs.txt
    for limit in nowhere $places; do
        limit="$rows $limit"
        claim "$what: late, $limit" env TW_LATE="$limit" "$late" profile -m "$tiny" \
            -c $ctx --name r "$@" --db l.sqlite -b $size
        contents l.sqlite >l.txt
        same "$what: late, $limit: the same views" p$runs.txt l.txt
        rm -f l.sqlite*
    done
}
places="alloc start ffn head submit collect"
compare "counts" -f c.jsonl --active hidden --active abs:0.1 --active topk:16 --magnitudes
places="ffn collect"
compare "ledger" -f c.jsonl --per-token --active-sets --examples 3 --watch 0:1,3:7
compare "a stream" -f c.jsonl --split stream --skip first:1 --limit 3000
places="start submit"
compare "no loss" -f c.jsonl --no-loss
ctx=512 size=1100 rows=600
compare "an oracle" --compare "$tiny/oracle.safetensors"
ctx=128

# What is said.
claim "verbose" env TW_LATE="200 ffn" "$late" profile -m "$tiny" -f c.jsonl -c 128 \
    --db v.sqlite -b 700 -v
TW_LATE="200 ffn" "$late" profile -m "$tiny" -f c.jsonl -c 128 --db w.sqlite -b 700 -v \
    >/dev/null 2>err.txt
equal "each halving is one warning" "$(grep -c 'warning: no memory for a batch' err.txt)" 2
claim "with both sizes" grep -q "(late: no memory at 3): -b 350 instead of 700" err.txt
claim "the device's share" grep -q "device busy [0-9.]* %" err.txt
equal "the phases make up the total, but for what is other" "$(sed -n 's/.*time: //p' err.txt | tr ',' '\n' |
    awk '{ for (i = 1; i <= NF; i++) if ($i == "s") { if ($(i - 2) == "total") total = $(i - 1)
        else { sum += $(i - 1); n++; if ($(i - 2) == "other") other = $(i - 1) } } }
        END { d = sum - total; print n, (d < 0.006 && d > -0.006), (other > -0.001 && other < total / 4) }')" "10 1 1"
"$plain" profile -m "$tiny" -f c.jsonl -c 128 --db x.sqlite -v >/dev/null 2>err.txt
equal "which the cpu backend doesn't say" "$(grep -c 'device busy' err.txt)" 0
for place in start ffn submit collect; do
    export TW_LATE="100 $place"
    refused "one sequence alone does not fit ($place)" 1 \
        "rows, which no -b makes shorter (it is 87): late: no memory" \
        "$late" profile -m "$tiny" -f c.jsonl -c 128 --db y.sqlite -b 700
done
unset TW_LATE

# Killed, resumed, interrupted.
export TW_LATE="200 submit"
exec_profile() {
    exec "$late" profile -m "$tiny" -f c.jsonl -c 128 -b 500 -t 1 --name r \
        --active hidden --active abs:0.1 --active topk:16 --magnitudes "$@" >/dev/null 2>&1
}
kills=0
for wait in 0.05 0.1 0.2 0.3; do
    exec_profile --db k.sqlite --resume --checkpoint 0 &
    pid=$!
    sleep $wait
    kill -9 $pid 2>/dev/null && kills=$((kills + 1))
    wait $pid 2>/dev/null
done
(exec_profile --db k.sqlite --resume --time-limit 0s)
equal "--time-limit stops with 75 ($kills kills)" $? 75
(exec_profile --db k.sqlite --resume)
equal "resumed to the end" $? 0
contents k.sqlite >k.txt
same "killed and resumed: the same views" p1.txt k.txt
claim "fsck" "$plain" fsck --db k.sqlite

# An error in the text comes after the batches before it, as it does plainly.
printf '{"text": "one"}\n{"text": 5}\n' >bad.jsonl
cat c.jsonl bad.jsonl >d.jsonl
unset TW_LATE
profile "$plain" -f d.jsonl --db pd.sqlite --checkpoint 0
mv err.txt plain-err.txt
profile "$late" -f d.jsonl --db ld.sqlite --checkpoint 0 -b 500
grep -v '^Try' err.txt >late-err.txt
grep -v '^Try' plain-err.txt >err.txt
same "text that can't be read: the same error" err.txt late-err.txt
finish
