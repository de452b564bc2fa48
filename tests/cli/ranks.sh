#!/bin/sh
# One run by several processes: the published views of one process, whoever
# numbered them and whichever of them died on the way.
. "${top_srcdir:-.}/tests/cli/lib.sh"

unset OMPI_COMM_WORLD_SIZE SLURM_STEP_NUM_TASKS TW_RANKS || true
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export TMPDIR="$work" # Open MPI's own files
python3 "$top/tests/cli/make_corpus.py" 60 300 7 c.jsonl
options="-m $tiny -f c.jsonl -c 128 --name r --active hidden --active abs:0.1 --per-token"
profile() {
    "$tw" profile $options "$@" >/dev/null 2>&1
}
# rank I N OPTION...: as the others' launcher would start it.
rank() {
    TW_RANK=$1 TW_RANKS=$2
    export TW_RANK TW_RANKS
    shift 2
    exec "$tw" profile $options "$@"
}
# The views, and what the ledger holds of every row.
contents() {
    published "$1"
    sql "$1" "SELECT count(*), sum(nnz), sum(l1), sum(nnz * (sequence + 1) * (position + 1) *
        (layer + 1)), sum(document * nnz) FROM token_activity WHERE run = 'r'"
}
# whole NAME DB: it holds the one run, and no parts are left.
whole() {
    contents "$2" >whole.txt
    same "$1: the views of one process" one.txt whole.txt
    claim "$1: fsck" "$tw" fsck --db "$2"
    parts=$(ls "$2".part* 2>/dev/null)
    equal "$1: no parts are left" "$parts" ""
}
claim "one process" profile --db one.sqlite
contents one.sqlite >one.txt

echo "== by hand"
for i in 0 2; do
    (rank $i 3 --db h.sqlite >out$i.txt 2>err$i.txt)
    equal "rank $i of 3 ends" $? 0
done
[ ! -e h.sqlite ] && ok "no run before the last part" || not_ok "h.sqlite is there"
claim "a part says what is not yet there" grep -q "part 2 of 3 of run 'r' is complete; not yet: 1" err2.txt
refused "the merge names what is missing" 1 "missing of 3 parts: 1" \
    "$tw" merge -o x.sqlite h.sqlite.part0-of-3 h.sqlite.part2-of-3
(rank 1 3 --db h.sqlite -b 64 -t 1 --checkpoint 0 >/dev/null 2>&1) &
pid=$!
wait_for [ -s h.sqlite.part1-of-3 ]
sleep 0.1
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
refused "another number of ranks" 2 "is a part of 3, these are 2 ranks" \
    sh -c "TW_RANK=0 TW_RANKS=2 '$tw' profile $options --db h.sqlite --resume || exit 2"
: >h.sqlite.part2-of-3-journal # as a kill behind the last commit leaves it
(rank 1 3 --db h.sqlite --resume >out1.txt 2>/dev/null)
equal "the killed rank goes on" $? 0
claim "the last one shows the run" grep -q "^run         r (complete" out1.txt
whole "three by hand" h.sqlite
(rank 0 3 --db h.sqlite --resume >out0.txt 2>err0.txt)
equal "--resume of a complete run" "$? $(grep -c 'is complete already' err0.txt)" "0 1"
refused "a run that is there" 1 "rank 1: h.sqlite: run 'r' is there already, complete" \
    sh -c "TW_RANK=1 TW_RANKS=3 exec '$tw' profile $options --db h.sqlite"
for i in 0 1 2; do
    (rank $i 3 --db together.sqlite -b 256 >out$i.txt 2>err$i.txt) &
    eval "pid$i=$!"
done
wait $pid0 && wait $pid1 && wait $pid2
equal "all at once: each ends well" $? 0
equal "all at once: one shows the run" "$(cat out0.txt out1.txt out2.txt | grep -c '^run  ')" 1
whole "all at once" together.sqlite

echo "== who is who"
none() {
    name=$1
    shift
    (exec env "$@" "$tw" profile $options --db alone.sqlite --replace >/dev/null 2>err.txt)
    equal "$name" "$? $(grep -c '^twellscope profile: rank' err.txt)" "0 0"
}
none "Slurm's batch script is alone" SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=1
none "a step of one task is alone" SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=1
none "TW_RANKS=1 turns ranks off" TW_RANKS=1 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4
(SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=1 SLURM_LOCALID=0 \
    SLURM_STEP_TASKS_PER_NODE="1(x2)" exec "$tw" profile $options --db s.sqlite 2>/dev/null)
equal "a task of srun writes its part" "$? $(ls s.sqlite.part1-of-2)" "0 s.sqlite.part1-of-2"
claim "--shard is its own master" env TW_RANK=0 TW_RANKS=2 "$tw" profile $options \
    --shard 0/2 --db byhand.sqlite
refused "no such rank" 2 'TW_RANK is '"'4'" env TW_RANK=4 TW_RANKS=4 "$tw" profile $options
refused "a rank that is no number" 2 'TW_RANKS is '"'x'" env TW_RANKS=x "$tw" profile $options
refused "no rank" 2 'TW_RANKS is set, but not $TW_RANK' env TW_RANKS=4 "$tw" profile $options
refused "standard input" 2 "reaches one rank only" \
    env TW_RANK=0 TW_RANKS=2 "$tw" profile -m "$tiny" -f -
refused "--replace without MPI" 2 "can't talk" \
    env TW_RANK=0 TW_RANKS=2 "$tw" profile $options --replace

echo "== Slurm's script, its commands played"
mkdir bin
cat >bin/srun <<'END'
#!/bin/sh
[ "$1" = --kill-on-bad-exit=0 ] && shift
status=0
for i in 0 1; do
    SLURM_PROCID=$i SLURM_STEP_NUM_TASKS=2 "$@" || status=$?
done
exit $status
END
echo 'echo $LEFT' >bin/squeue
echo 'echo "$@" >>requeued' >bin/scontrol
chmod +x bin/*
job() {
    env PATH="$work/bin:$PATH" TWELLSCOPE="$tw" SLURM_JOB_ID=7 "$@" \
        sh "$top/scripts/slurm-profile.sh" $options --db "$db" >/dev/null 2>>job.txt
}
db=j.sqlite
job LEFT=0:01 MARGIN=1
equal "no time left: requeued" "$? $(cat requeued)" "0 requeue 7"
job LEFT=1-00:00:00
equal "with time it is done" $? 0
whole "two tasks" j.sqlite
db=a.sqlite
for i in 0 1 2; do
    job LEFT=UNLIMITED SLURM_ARRAY_JOB_ID=9 SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_COUNT=3 \
        SLURM_ARRAY_TASK_MIN=0
    equal "job $i of an array" $? 0
done
whole "an array" a.sqlite
refused "a job without --name" 2 "give --name RUN" sh "$top/scripts/slurm-profile.sh" -m x

if ! command -v mpirun >/dev/null 2>&1 || ! [ -e "$(dirname "$tw")/twellscope-mpi.so" ]; then
    skip "mpirun: no Open MPI here"
    finish
    exit
fi
echo "== mpirun"
mpi() { # Open MPI keeps memory to its end
    ASAN_OPTIONS=detect_leaks=0 timeout 120 mpirun --oversubscribe --bind-to none "$@"
}
mpi -n 4 "$tw" profile $options --db m.sqlite -v >out.txt 2>err.txt
equal "four ranks end" $? 0
equal "one of them shows the run" "$(grep -c '^run  ' out.txt)" 1
whole "four ranks" m.sqlite
claim "again with --replace" mpi -n 2 "$tw" profile $options --db m.sqlite --replace
whole "two ranks replace it" m.sqlite
claim "--resume of the complete run" mpi -n 4 "$tw" profile $options --db m.sqlite --resume
claim "--plan of a run in --db" env TW_RANKS=1 "$tw" profile $options --db m.sqlite --name q \
    --plan r
claim "by ranks" mpi -n 2 "$tw" profile $options --db m.sqlite --name p --plan r
equal "the same plan" "$(sql m.sqlite "SELECT count(DISTINCT plan), count(*) FROM run_info" |
    tail -n 1)" 1,3
claim "without --name" mpi -n 2 "$tw" profile -m "$tiny" -f c.jsonl -c 128 --db m.sqlite
equal "it gets the model's" "$(sql m.sqlite "SELECT group_concat(run) FROM (SELECT run FROM
    run_info ORDER BY run)" | tail -n 1)" '"p,q,r,sparselm-tiny"'

# Rank 2 is killed; mpirun ends the others, at a checkpoint.
cat >start.sh <<'END'
echo $$ >pid.$OMPI_COMM_WORLD_RANK
exec "$@"
END
mpi -n 4 sh start.sh "$tw" profile $options --db k.sqlite -b 64 -t 1 --checkpoint 0 \
    >out.txt 2>&1 &
job=$!
# It has begun its run: killed before, in its first commit, it would be a part that
# the merge finds missing, not one that isn't complete.
wait_for sh -c "'$tw' sql --db k.sqlite.part2-of-4 -o csv 'SELECT run FROM run_info' | grep -qx r"
kill -9 "$(cat pid.2)"
wait $job
equal "mpirun says that a rank was killed" "$(($? != 0)) $(grep -c 'signal 9' out.txt)" "1 1"
[ ! -e k.sqlite ] && ok "nothing is merged" || not_ok "k.sqlite is there"
refused "the merge names a part that is not complete" 1 "k.sqlite.part" \
    sh -c "exec '$tw' merge -o k.sqlite k.sqlite.part*-of-4"
claim "the killed part by --shard" profile --shard 2/4 --db k.sqlite.part2-of-4 --resume
before=$(sql k.sqlite.part2-of-4 "SELECT uuid, finished FROM run_info")
cp k.sqlite.part2-of-4 saved
claim "the same command with --resume" mpi -n 4 "$tw" profile $options --db k.sqlite --resume
equal "what was complete is not counted again" "$before" "$(sql saved "SELECT uuid, finished
    FROM run_info")"
whole "killed, finished, merged" k.sqlite

mpi -n 3 "$tw" profile $options --db t.sqlite --time-limit 0s >/dev/null 2>err.txt
equal "--time-limit stops all with 75" $? 75
claim "rank 0 says so" grep -q 'rank 0: time limit reached' err.txt
claim "and they go on" mpi -n 3 "$tw" profile $options --db t.sqlite --resume
whole "stopped and resumed" t.sqlite

# One that fails: named with its rank; the others' parts are done. The failure
# is rank 0's to return: mpirun kills who still runs after another's.
echo "no database" >f.sqlite.part1-of-3
cat >keep.sh <<'END'
"$@"
status=$?
echo $status >status.$OMPI_COMM_WORLD_RANK
for i in $(seq 100); do
    [ -e status.1 ] && break
    sleep 0.1
done
exit $status
END
mpi -n 3 sh keep.sh "$tw" profile $options --db f.sqlite >out.txt 2>err.txt
equal "a rank that fails fails the job" $? 1
claim "it is named" grep -q 'rank 1: warning: f.sqlite.part1-of-3: file is not a database' err.txt
claim "the job's end too" grep -q 'rank 0: of 3 ranks 1 failed: the parts are kept' err.txt
equal "the status is rank 0's" "$(cat status.0 status.1 2>/dev/null | tr -d '\n')" 10
rm f.sqlite.part1-of-3
claim "and goes on" mpi -n 3 "$tw" profile $options --db f.sqlite --resume --scratch .
whole "failed and resumed" f.sqlite

echo "== two network namespaces"
a=twa$$ b=twb$$
trap 'ip netns del $a 2>/dev/null; ip netns del $b 2>/dev/null; rm -rf "$work"' EXIT
if ! { ip netns add $a && ip netns add $b &&
    ip -n $a link add twe0 type veth peer name twe1 netns $b &&
    ip -n $a addr add 10.123.45.1/30 dev twe0 && ip -n $b addr add 10.123.45.2/30 dev twe1 &&
    ip -n $a link set lo up && ip -n $b link set lo up &&
    ip -n $a link set twe0 up && ip -n $b link set twe1 up &&
    ip netns exec $a unshare --uts true; } 2>why.txt; then
    skip "network namespaces are not permitted here: $(head -n 1 why.txt)"
    finish
    exit
fi
cat >remote.sh <<END
#!/bin/sh
shift
exec ip netns exec $b unshare --uts sh -c "hostname $b; \$*"
END
chmod +x remote.sh
ip netns exec $a unshare --uts sh -c "hostname $a; ASAN_OPTIONS=detect_leaks=0 exec timeout 120 mpirun -n 2 \
    -x ASAN_OPTIONS --host 10.123.45.1:1,10.123.45.2:1 --mca plm rsh --mca plm_rsh_agent '$work/remote.sh' \
    --mca oob_tcp_if_include twe0,twe1 --mca pml ob1 --mca btl tcp,self \
    --mca btl_tcp_if_include 10.123.45.0/30 '$tw' profile $options --db '$work/n.sqlite'" \
    >out.txt 2>err.txt
equal "a rank in each ends" $? 0
whole "two network namespaces" n.sqlite
finish
