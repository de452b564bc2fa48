#!/bin/sh
# --scratch: counted elsewhere, brought home whole, whatever happens on the way.
. "${top_srcdir:-.}/tests/cli/lib.sh"

python3 "$top/tests/cli/make_corpus.py" 60 300 7 c.jsonl
options="-m $tiny -f c.jsonl -c 128 --name r --per-token"
profile() {
    "$tw" profile $options "$@" >/dev/null 2>all.txt
}
# whole NAME DB: run r is there, as one process counts it, and nothing is left.
whole() {
    name=$1
    claim "$name: fsck" "$tw" fsck --db "$2"
    name=$1
    cp "$2" only.sqlite
    "$tw" runs --db only.sqlite --delete other >/dev/null 2>&1
    published only.sqlite >whole.txt
    same "$name: the views" one.txt whole.txt
    equal "$name: the folder is empty" "$(ls -A scratch)" ""
}
mkdir scratch home
claim "without" profile --db one.sqlite
published one.sqlite >one.txt
claim "a new database" profile --db home/a.sqlite --scratch scratch
whole "a new database" home/a.sqlite
claim "rename it" "$tw" runs --db home/a.sqlite --rename r other
claim "beside another run" profile --db home/a.sqlite --scratch scratch
equal "both are there" "$(sql home/a.sqlite "SELECT group_concat(run) FROM (SELECT run FROM
    run_info ORDER BY run)" | tail -n 1)" '"other,r"'
whole "beside another run" home/a.sqlite
refused "a name that is taken" 1 "run 'r' is there already" \
    "$tw" profile $options --db home/a.sqlite --scratch scratch
claim "--replace" profile --db home/a.sqlite --scratch scratch --replace
whole "--replace" home/a.sqlite
claim "--resume of a complete run" profile --db home/a.sqlite --scratch scratch --resume
whole "--resume of a complete run" home/a.sqlite
claim "--plan of a run in --db" profile --db home/a.sqlite --scratch scratch --name p --plan r
claim "without --name" "$tw" profile -m "$tiny" -p hello --db home/n.sqlite --scratch scratch
claim "again" "$tw" profile -m "$tiny" -p hello --db home/n.sqlite --scratch scratch
equal "the second has its own name" "$(sql home/n.sqlite "SELECT max(run) FROM run_info" |
    tail -n 1)" sparselm-tiny-2

# Stopped: at home as far as it is; from there on with or without.
profile --db home/b.sqlite --scratch scratch --time-limit 0s
equal "stopped with 75" "$? $(ls -A scratch)" "75 "
equal "the part is at home" "$(sql home/b.sqlite "SELECT status FROM run_info" | tail -n 1)" interrupted
profile --db home/b.sqlite --scratch scratch --resume --time-limit 0s
equal "resumed and stopped again" $? 75
claim "resumed without" profile --db home/b.sqlite --resume --time-limit 10m
whole "stopped twice" home/b.sqlite
refused "resumed with another -c" 1 "not the same run" \
    "$tw" profile $options -c 64 --db home/b.sqlite --scratch scratch --resume
whole "a refused --resume" home/b.sqlite

# Killed: the file stays in the folder, and --resume finds it.
slow="-b 16 -t 1 --checkpoint 0"
killed() {
    (exec "$tw" profile $options --db home/k.sqlite --scratch scratch $slow --resume \
        >/dev/null 2>&1) &
    pid=$!
    wait_for sh -c "ls scratch/k.sqlite.*"
    sleep 0.2
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
}
killed
left=$(ls scratch | grep -v journal)
if [ -n "$left" ]; then
    refused "a file that is left is named" 1 "scratch/$left is left of run 'r'" \
        "$tw" profile $options --db home/k.sqlite --scratch scratch
    claim "--resume goes on with it" profile --db home/k.sqlite --scratch scratch --resume
    whole "killed and resumed" home/k.sqlite
    # Killed behind its last commit: complete, with a journal of no use.
    for elsewhere in moved copied; do
        mv home/k.sqlite "scratch/$left"
        : >"scratch/$left-journal"
        [ $elsewhere = moved ] || profile --db home/k.sqlite --name other --time-limit 10m
        claim "complete, $elsewhere" profile --db home/k.sqlite --scratch scratch --resume
        equal "no journal is left" "$(ls -A scratch)" ""
    done
    claim "the other run goes" "$tw" runs --db home/k.sqlite --delete other
    whole "complete" home/k.sqlite
else
    skip "the run ended before it was killed"
fi
# Killed in its first commit it is an empty file.
if [ -n "$left" ]; then
    rm -f home/k.sqlite
    : >"scratch/$left"
    claim "empty files" profile --db home/k.sqlite --scratch scratch --resume
    whole "empty files" home/k.sqlite
fi
# What an earlier start left makes way for the run that is at home.
rm -f home/k.sqlite
killed
left=$(ls scratch | grep -v journal)
if [ -n "$left" ]; then
    mv scratch/* .
    profile --db home/k.sqlite --time-limit 0s
    mv k.sqlite.* scratch
    claim "left of an earlier start" profile --db home/k.sqlite --scratch scratch --resume
    claim "and it says so" grep -q 'of another start of run' all.txt
    whole "left of an earlier start" home/k.sqlite
fi

# Another took the run over at home meanwhile: refused, and both are kept.
rm -f home/k.sqlite scratch/*
profile --db home/k.sqlite --resume --time-limit 0s
(exec "$tw" profile $options --db home/k.sqlite --scratch scratch $slow --resume \
    >/dev/null 2>err.txt) &
pid=$!
wait_for_scratch
profile --db home/k.sqlite --resume --time-limit 0s
wait $pid
equal "changed at home meanwhile" "$? $(grep -c "run 'r' was changed by another process; the run \
stays in scratch" err.txt)" "1 1"
claim "it is kept, and brought home" profile --db home/k.sqlite --scratch scratch --resume
whole "changed at home" home/k.sqlite

: >home/e.sqlite
claim "an empty file at home" profile --db home/e.sqlite --scratch scratch --resume
whole "an empty file at home" home/e.sqlite
refused "no folder" 1 "--scratch nowhere: No such file" \
    "$tw" profile $options --db home/x.sqlite --scratch nowhere
# Home on another file system; one that appeared meanwhile is not replaced.
other=/dev/shm/twellscope-test-$$
if [ "$(stat -f -c %i /dev/shm 2>/dev/null)" != "$(stat -f -c %i . 2>/dev/null)" ] &&
    mkdir $other 2>/dev/null; then
    trap 'rm -rf "$work" $other' EXIT
    claim "from another file system" profile --db home/o.sqlite --scratch $other
    whole "from another file system" home/o.sqlite
    equal "nothing stays there" "$(ls -A $other home | grep -c moving)$(ls -A $other)" 0
else
    skip "no second file system here"
fi
(exec "$tw" profile $options --db home/m.sqlite --scratch scratch -b 64 -t 1 >/dev/null 2>&1) &
pid=$!
cp one.sqlite home/m.sqlite.new
"$tw" runs --db home/m.sqlite.new --rename r other 2>/dev/null
mv home/m.sqlite.new home/m.sqlite
wait $pid
equal "a database that appeared meanwhile" "$? $(sql home/m.sqlite "SELECT count(*) FROM
    run_info" | tail -n 1)" "0 2"
whole "a database that appeared meanwhile" home/m.sqlite
finish
