#!/bin/sh
#SBATCH --job-name=twellscope
#SBATCH --requeue
#SBATCH --open-mode=append
# A profile as a Slurm job that goes on by itself until it is complete:
#
#   sbatch -N 8 --ntasks-per-node=8 --gpus-per-task=1 -t 4:00:00 \
#       scripts/slurm-profile.sh -m MODEL -f TEXT --db RUN.sqlite --name RUN
#   sbatch --array=0-63 --gpus=1 -t 4:00:00 scripts/slurm-profile.sh ... the same
#
# Tasks of one job are its ranks; so are the jobs of an array, which need not run
# at the same time. All must see --db's folder. Some minutes before the time is
# up (MARGIN, seconds) every rank stops at a checkpoint with 75, and the job is
# requeued. $TWELLSCOPE names the program if it is not in PATH.
set -u
case " $* " in
*" --name "*) ;;
*)
    echo "slurm-profile.sh: give --name RUN: a requeued job goes on with it" >&2
    exit 2
    ;;
esac
program=${TWELLSCOPE:-twellscope}
id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
id=${id:-${SLURM_JOB_ID:?not started by sbatch}}

# Seconds left, from squeue's [days-][hours:]minutes:seconds; no limit: none.
left=$(squeue -h -j "$id" -o %L 2>/dev/null | awk -F'[-:]' '/^[0-9:-]+$/ {
    s = 0; split("86400 3600 60 1", unit, " ")
    for (i = NF; i >= 1; i--) s += $i * unit[4 - (NF - i)]
    print s; exit }')
limit=
if [ -n "$left" ]; then
    margin=${MARGIN:-$((left > 3600 ? 300 : left / 12))}
    limit="--time-limit $((left > margin ? left - margin : 0))s"
fi

set -- profile $limit --resume "$@"
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    export TW_RANK=$((SLURM_ARRAY_TASK_ID - ${SLURM_ARRAY_TASK_MIN:-0}))
    export TW_RANKS=$SLURM_ARRAY_TASK_COUNT
    "$program" "$@"
else
    srun --kill-on-bad-exit=0 "$program" "$@" # a failed task ends no other
fi
status=$?
if [ $status = 75 ]; then
    scontrol requeue "$id" && exit 0
fi
exit $status
