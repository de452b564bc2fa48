#!/bin/sh
# What info says of families and config.json, and what -c past a model's
# positions does: an error where they cannot be computed, else a warning that
# the run keeps.
. "${top_srcdir:-.}/tests/cli/lib.sh"

# model DIR SED-SCRIPT: the tiny model with another config.json
model() {
    mkdir -p "$1"
    for file in "$tiny"/*; do
        ln -sf "$file" "$1/"
    done
    rm "$1/config.json"
    sed "$2" "$tiny/config.json" >"$1/config.json"
}
python3 "$top/tests/cli/make_corpus.py" 4 900 4 c.jsonl

"$tw" info --list >list.txt
for family in llama llama_sparse_relu qwen2_sparse_relu mistral qwen2 qwen3 \
    gemma gemma2 gemma3_text phi3 olmo2 stablelm smollm3 granite cohere \
    minicpm bamboo sparsellama; do
    claim "info --list knows $family" grep -q "^$family " list.txt
done
sed -n '/^## The table/,/^## Numbers/s/^| \(`[^|]*\) |.*/\1/p' \
    "$top/doc/FAMILIES.md" | tr -d ' `' | tr ',' '\n' | sort >doc.txt
cut -d ' ' -f 1 list.txt | sort >table.txt
same "doc/FAMILIES.md has a row for each" doc.txt table.txt
model other 's/llama_sparse_relu/mixtral/'
refused "a mixture of experts is refused by name" ! \
    "model_type 'mixtral' is a mixture of experts" "$tw" info -m other
model other 's/llama_sparse_relu/llamba/'
refused "an unknown family is refused with the list" ! \
    "model_type 'llamba' is not supported; supported: arcee, " \
    "$tw" info -m other

"$tw" info -m "$tiny" >info.txt
claim "info names the overridden field" grep -q \
    "^  hidden_act = \"silu\": the family's code is ReLU" info.txt
claim "and lists it with the others" grep -q \
    "^config.json, fields overridden" info.txt
"$tw" info -m "$tiny" --activation relu2 >info.txt
claim "an --activation is the source" grep -q "relu2 (source: override)" \
    info.txt

claim "-c past a rotary model's positions" "$tw" profile -m "$tiny" \
    -f c.jsonl -c 600 --limit 1300 --db r.sqlite --name long
equal "is a warning that the run keeps" "$(sql r.sqlite "SELECT value FROM
    run_tags WHERE run = 'long' AND key = 'warning.positions'" | tail -n 1)" \
    "-c 600 is past the 512 positions the model was made for"
claim "-c within them" "$tw" profile -m "$tiny" -f c.jsonl -c 512 \
    --limit 600 --db r.sqlite --name short
equal "warns of nothing" "$(sql r.sqlite "SELECT count(*) FROM run_tags
    WHERE run = 'short'" | tail -n 1)" 0

model dynamic 's/"rope_type": "default"/"rope_type": "dynamic", "factor": 2.0/'
claim "the other model has dynamic positions" grep -q dynamic \
    dynamic/config.json
"$tw" info -m dynamic >info.txt
claim "info says how long a sequence can be" grep -q \
    "no more than 512: rope_type dynamic depends" info.txt
refused "-c past positions that cannot be computed" ! \
    "-c 600 is past the model's 512 positions: rope_type dynamic" \
    "$tw" profile -m dynamic -f c.jsonl -c 600 --db r.sqlite --name dynamic
finish
