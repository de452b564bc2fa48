#!/bin/sh
# Counts and losses against answers that the models' own code produced.
. "${top_srcdir:-.}/tests/cli/lib.sh"

# compare DIR NAME TOLERANCE: profile --compare is within the bounds, and the
# parity view says so.
compare() {
    claim "$2 within bounds" "$tw" profile -m "$1" --name "$2" --db o.sqlite \
        --compare "$1/oracle.safetensors" --tolerance "$3"
    sql o.sqlite "SELECT run, sum(cells), sum(identical), max(max_difference),
        max(total_difference), sum(fired_cells), sum(fired_identical),
        max(l1_max_relative), max(nll_max_difference), max(logits_max_difference)
        FROM parity WHERE run = '$2'" | tail -n 1
}

compare "$tiny" tiny 1e-3
equal "tiny: every cell identical" \
    "$(sql o.sqlite "SELECT sum(cells) - sum(identical) FROM parity
        WHERE run = 'tiny' AND layer IS NOT NULL" | tail -n 1)" 0

# The comparison can fail: another activation is out of bounds, exit 3.
refused "another activation is out of bounds" 3 "out of bounds" "$tw" profile \
    -m "$tiny" --name wrong --db o.sqlite --activation silu \
    --compare "$tiny/oracle.safetensors"

if [ -d "$shared/goldens" ]; then
    compare "$shared/checkpoints/sparselm-17m" 17m 1e-3
    for golden in llama_relu_tied llama_silu llama_sparse_plain; do
        compare "$shared/goldens/$golden" "$golden" 1e-3
    done
    claim "the independent reader agrees (tiny)" python3 \
        "$shared/tools/oracle.py" "$tw" "$shared/checkpoints/sparselm-tiny"
    claim "the independent reader agrees (17m)" python3 \
        "$shared/tools/oracle.py" "$tw" "$shared/checkpoints/sparselm-17m"
else
    skip "goldens: $shared is not there"
fi
finish
