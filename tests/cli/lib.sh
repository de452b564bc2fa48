# Shared by the tests of the command line: sourced, not run. Each claim prints
# "ok" or "not ok"; `finish` prints the tally that scripts/check reads.
set -u
top=$(cd "${top_srcdir:-.}" && pwd)
tw=$(cd "${top_builddir:-$top/build}" && pwd)/twellscope
[ -x "$tw" ] || {
    echo "$tw is not built"
    exit 1
}
tiny=$top/tests/data/sparselm-tiny
shared=${TW_SHARED:-$top/../shared}
work=$(mktemp -d "${TMPDIR:-/tmp}/twellscope-test-XXXXXX")
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
cd "$work" || exit 1
unset TWELLSCOPE_DB TWELLSCOPE_FIGURES HF_HOME HF_HUB_CACHE || true
export CUDA_VISIBLE_DEVICES= # `auto` is the CPU, also where there is a GPU
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1}"

ok() {
    passed=$((passed + 1))
    echo "ok $1"
}
not_ok() {
    failed=$((failed + 1))
    echo "not ok $1"
    [ $# -lt 2 ] || printf '%s\n' "$2" | sed 's/^/    /' | head -n 12
}
# claim NAME COMMAND...: the command succeeds
claim() {
    name=$1
    shift
    if output=$("$@" 2>&1); then ok "$name"; else not_ok "$name" "$output"; fi
}
# The cuda backend on the emulated device (tests/emu); skips where there is none.
emulated_device() {
    if [ "${TW_EMU_DEVICES:-1}" = 0 ]; then
        echo "skipped: TW_EMU_DEVICES is 0"
        exit 77
    fi
    TWELLSCOPE_LIBDIR=${tw%/twellscope}/tests/emu
    TW_EMU_MULTIPROCESSORS=2
    export TWELLSCOPE_LIBDIR TW_EMU_MULTIPROCESSORS
}
# The run 'cuda' of m.sqlite again, by the script's profile NAME BACKEND DB OPTION...:
# what its counts DB FILE prints is free of batches, of the order of the device's
# threads and of shards.
cuda_counts_are_free() { # BATCH OTHER-BATCH
    counts m.sqlite want.txt
    claim "with -b $1" profile cuda cuda b.sqlite -b "$1"
    counts b.sqlite got.txt
    same "the same counts" want.txt got.txt
    TW_EMU_ORDER=7 TW_EMU_MULTIPROCESSORS=3
    export TW_EMU_ORDER
    claim "threads in another order" profile cuda cuda o.sqlite -b "$2"
    counts o.sqlite got.txt
    same "the same counts whatever the order" want.txt got.txt
    unset TW_EMU_ORDER
    for i in 0 1; do
        claim "shard $i" profile cuda cuda p$i.sqlite --shard $i/2
    done
    claim "merged" "$tw" merge -o p.sqlite p0.sqlite p1.sqlite
    counts p.sqlite got.txt
    same "the same counts of two shards" want.txt got.txt
}
# same NAME FILE FILE
same() {
    if cmp -s "$2" "$3"; then
        ok "$1"
    else
        not_ok "$1" "$(diff "$2" "$3" | head -n 8)"
    fi
}
# equal NAME GOT WANTED
equal() {
    if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "got '$2', wanted '$3'"; fi
}
# refused NAME STATUS WORDS COMMAND...: exits with STATUS (or any but 0 if "!"),
# not by a signal, and says one line on stderr that holds WORDS.
refused() {
    name=$1 want=$2 words=$3
    shift 3
    status=0
    "$@" >out.txt 2>err.txt </dev/null || status=$?
    grep -v -E 'warning:|^Try ' err.txt >lines.txt || true
    if [ "$status" = 0 ] || [ "$status" -gt 125 ] ||
        { [ "$want" != "!" ] && [ "$status" != "$want" ]; }; then
        not_ok "$name" "exit $status; $(head -n 3 err.txt)"
    elif [ "$(wc -l <lines.txt)" != 1 ]; then
        not_ok "$name" "not one line: $(head -n 8 err.txt)"
    elif ! grep -qF -- "$words" lines.txt; then
        not_ok "$name" "'$words' not in: $(cat lines.txt)"
    else
        ok "$name"
    fi
}
skip() {
    echo "skipped: $1"
}
# wait_for COMMAND...: until it succeeds; a claim of its own where it never does.
# A busy machine may take seconds to start a process.
wait_for() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ $tries = 3000 ]; then
            not_ok "waited a minute for: $*"
            return
        fi
        sleep 0.02
    done
}
sql() {
    db=$1
    shift
    "$tw" sql --db "$db" -o csv "$@"
}
# Everything published but what differs between equal runs.
published() {
    for view in $("$tw" sql --db "$1" -o csv "SELECT name FROM sqlite_schema
            WHERE type = 'view' ORDER BY name" | tail -n +2); do
        echo "== $view"
        case $view in
        run_info)
            columns=$("$tw" sql --db "$1" -o csv "SELECT name FROM
                pragma_table_info('run_info') WHERE name NOT IN
                ('uuid', 'started', 'finished', 'command')" | tail -n +2 | paste -sd,)
            ;;
        *) columns='*' ;;
        esac
        "$tw" sql --db "$1" -o csv "SELECT $columns FROM $view"
    done
}
finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
