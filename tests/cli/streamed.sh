#!/bin/sh
# A model larger than the (emulated) device's memory: counts, losses and every
# row are those of the run that fits, however many layers stay on the device and
# whatever the batches; what is streamed is said and stored; too little memory
# for any of it is an error in numbers.
. "${top_srcdir:-.}/tests/cli/lib.sh"

emulated_device
python3 "$top/tests/cli/make_corpus.py" 12 60 3 c.jsonl
profile() { # MEMORY NAME OPTION...: talks into err.txt
    memory=$1 name=$2
    shift 2
    rm -f "$name.sqlite"
    TW_EMU_MEMORY=$memory "$tw" profile -m "$tiny" -f c.jsonl -c 96 --limit 200 --active hidden \
        --active abs:0.1 --per-token --name run --backend cuda --db "$name.sqlite" -v "$@" \
        >out.txt 2>err.txt
}
counts() { # NAME
    for query in "SELECT layer, active, mean_nnz, min_nnz, max_nnz, mean_l1 FROM all_layer_stats" \
        "SELECT layer, active, neuron, fired, first_fired, last_fired FROM all_neuron_stats" \
        "SELECT sequence, position, layer, nnz, l1, nll_next FROM token_activity"; do
        sql "$1.sqlite" "$query"
    done >"$1.txt"
}
# Sets memory to the least (but for 1/8 MiB) where so many layers stay.
find_memory() { # LAYERS OPTION...
    layers=$1 least=34000000 most=134000000
    shift
    while [ $((most - least)) -gt 131072 ]; do
        middle=$(((least + most) / 2))
        if profile $middle dry --dry-run "$@" &&
            [ "$(sed -n 's/.*weights: \([0-9]*\) of 6 layers resident.*/\1/p' err.txt |
                grep . || echo 6)" -ge "$layers" ]; then
            most=$middle
        else
            least=$middle
        fi
    done
    memory=$most
}
said() { # LAYERS: it said so, and stored it
    name="$1 layers resident"
    if grep -q "weights: $1 of 6 layers resident, the others streamed, [0-9.]* MiB a batch" err.txt
    then ok "$name"; else not_ok "$name" "$(cat err.txt)"; fi
}

claim "all layers fit" profile 4000000000 full -b 200
equal "which isn't worth a word" "$(grep -c weights: err.txt)" 0
equal "nor a tag" "$(sql full.sqlite "SELECT count(*) FROM run_tags" | tail -n 1)" 0
counts full

find_memory 1 -b 64
claim "one layer fits" profile $memory one -b 64
said 1
counts one
same "the same counts with one layer" full.txt one.txt
equal "a tag says it" "$(sql one.sqlite "SELECT value LIKE '1 of 6 layers resident, %'
    FROM run_tags WHERE key = 'device.weights'" | tail -n 1)" 1
export TW_EMU_ORDER=2 # copies as early as they may be
find_memory 3 -b 128
claim "three layers fit" profile $memory some -b 128
said 3
counts some
same "the same counts with three" full.txt some.txt
unset TW_EMU_ORDER
# The least with which it runs holds a batch of one text, not all 200 rows.
memory=67600000
until profile $memory none -b 256 || [ $memory -gt 80000000 ]; do
    memory=$((memory + 400000))
done
claim "none fits, and batches must be halved" [ $memory -lt 80000000 ]
said 0
if grep -q "no memory for a batch of 200 rows .* -b 128 instead of 256" err.txt; then ok "they are"; else
    not_ok "they are" "$(cat err.txt)"; fi
counts none
same "the same counts without any" full.txt none.txt

tiny_model="$tw profile -m $tiny -f c.jsonl --backend cuda --db x.sqlite"
refused "two layers don't fit" 1 "out of memory: of 6 layers 2 need 1.0 MiB, but beside the" \
    env TW_EMU_MEMORY=35000000 $tiny_model
refused "nor the embedding" 1 "out of memory for a matrix of 2048 x 128 (512.0 KiB): " \
    env TW_EMU_MEMORY=34000000 $tiny_model
finish
