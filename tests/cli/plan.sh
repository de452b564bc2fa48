#!/bin/sh
# A run's plan: made from the text's first tokens, stored, read again.
. "${top_srcdir:-.}/tests/cli/lib.sh"

python3 "$top/tests/cli/make_corpus.py" 120 600 11 c.jsonl
profile() {
    "$tw" profile -m "$tiny" -f c.jsonl -c 128 --backend cpu "$@" >/dev/null \
        2>errors.txt
}
plan() {
    sql "$1" "SELECT plan FROM run_info WHERE run = '$2'" | tail -n 1 |
        python3 -c 'import csv, sys; print(next(csv.reader(sys.stdin))[0])'
}
claim "a run makes a plan" profile --db a.sqlite --name a
plan a.sqlite a >a.json
claim "it is JSON of one entry a layer" python3 -c '
import json
plan = json.load(open("a.json"))
config = json.load(open("'"$tiny"'/config.json"))
assert len(plan["layers"]) == config["num_hidden_layers"], plan
assert plan["backend"] == "cpu" and plan["types"] == "float32"
assert all(l["path"] in ("twell", "dense") for l in plan["layers"])'
for batch in 64 700; do
    claim "-b $batch" profile --db b.sqlite --name b$batch -b $batch
    plan b.sqlite b$batch >b.json
    same "the same plan with -b $batch" a.json b.json
done
claim "a shard" profile --db s.sqlite --name s --shard 1/2
plan s.sqlite s >s.json
same "a shard has the whole corpus's plan" a.json s.json
"$tw" profile -m "$tiny" -f - --doc-sep none -c 128 --name i --db i.sqlite \
    --backend cpu <c.jsonl >/dev/null 2>&1
cp c.jsonl c.txt
"$tw" profile -m "$tiny" -f c.txt --doc-sep none -c 128 --name t --db i.sqlite \
    --backend cpu >/dev/null 2>&1
plan i.sqlite i >i.json
plan i.sqlite t >t.json
same "standard input has its file's plan" i.json t.json

published a.sqlite | grep -v '^== parity' >a.txt
claim "--plan FILE" profile --db f.sqlite --name a --plan a.json
published f.sqlite | grep -v '^== parity' >f.txt
same "the run's own plan from a file gives its counts" a.txt f.txt
claim "--plan RUN" profile --db a.sqlite --name again --plan a
plan a.sqlite again >again.json
same "a run's plan is taken over" a.json again.json

sed 's/"twell"/"dense"/g; s/,"row_limit":[0-9]*//g' a.json >dense.json
claim "a plan of dense layers" profile --db d.sqlite --name d --plan dense.json
equal "every row ran dense" "$(sql d.sqlite "SELECT count(*) FROM layer_routes
    WHERE dense_rows <> tokens" | tail -n 1)" 0
sed 's/"dense"/"twell"/g; s/"twell"}/"twell","row_limit":3}/g' dense.json >few.json
claim "a plan of few non-zeros" profile --db l.sqlite --name l --plan few.json
equal "rows above the limit ran dense" "$(sql l.sqlite "SELECT count(*) FROM
    layer_routes r JOIN (SELECT layer, sum(tokens) n FROM nnz_histogram WHERE
    nnz > 3 GROUP BY layer) h USING (layer) WHERE dense_rows < n" | tail -n 1)" 0

refuse() {
    refused "$1" ! "$2" "$tw" profile -m "$tiny" -f c.jsonl --db x.sqlite \
        --backend cpu --plan x.json
}
echo 'hello' >x.json
refuse "no JSON" "x.json: no plan"
echo '[]' >x.json
refuse "no object" "x.json: no plan: not a JSON object"
sed 's/"model_hash":"..../"model_hash":"0000/' a.json >x.json
refuse "another model's" "model_hash"
sed 's/"cpu"/"cuda"/' a.json >x.json
refuse "another backend's" "backend 'cuda', this is 'cpu'"
sed 's/{"path":"[a-z]*"[^}]*},//' a.json >x.json
refuse "too few layers" "x.json: plan of"
sed 's/"path":"[a-z]*"/"path":"hybrid"/' a.json >x.json
refuse "an unknown path" "layer 0: path is neither twell nor dense"
sed 's/"path":"[a-z]*"/"path":"twell","row_limit":-2/' a.json >x.json
refuse "a negative limit" "layer 0: row_limit and hot are numbers from 0"
sed 's/"path":"[a-z]*"/"path":"twell","hot":5/' a.json >x.json
refuse "hot neurons" "layer 0: hot neurons are not supported"
rm x.json
refuse "no such run or file" "x.json: No such file"
refused "--resume with another plan" ! "has plan" "$tw" profile -m "$tiny" \
    -f c.jsonl -c 128 --backend cpu --db a.sqlite --name a --resume \
    --plan few.json
claim "--resume of a complete run" profile --db a.sqlite --name a --resume
finish
