#!/bin/sh
# The published views against an independent recomputation from the oracle's
# own per-row counts.
. "${top_srcdir:-.}/tests/cli/lib.sh"

for model in "$tiny" "$shared/checkpoints/sparselm-17m"; do
    if [ ! -f "$model/oracle.safetensors" ]; then
        skip "$model is not there"
        continue
    fi
    name=$(basename "$model")
    "$tw" profile -m "$model" --compare "$model/oracle.safetensors" --name "$name" \
        --db v.sqlite >/dev/null 2>&1
    python3 "$top/tests/cli/check_views.py" v.sqlite "$name" \
        "$model/oracle.safetensors" >views.txt 2>&1
    status=$?
    while IFS= read -r line; do
        case $line in
        "ok "*) ok "$name: ${line#ok }" ;;
        "not ok "*) not_ok "$name: ${line#not ok }" "$(cat views.txt)" ;;
        esac
    done <views.txt
    equal "$name: the recomputation ran to its end" $status 0
done
finish
