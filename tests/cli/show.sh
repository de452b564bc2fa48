#!/bin/sh
# Looking and showing: info, tokenize, sql, runs, figures, help and man pages.
. "${top_srcdir:-.}/tests/cli/lib.sh"

python3 "$top/tests/cli/make_corpus.py" 60 200 2 c.jsonl
claim "a run to show" "$tw" profile -m "$tiny" -f c.jsonl -c 128 --name first \
    --active hidden --active gate --db r.sqlite --tag corpus=made --magnitudes
claim "a second, its name made" "$tw" profile -m "$tiny" -f c.jsonl -c 128 \
    --db r.sqlite
equal "named after the model" "$(sql r.sqlite "SELECT run FROM run_info
    WHERE run <> 'first'" | tail -n 1)" sparselm-tiny

# info
"$tw" info -m "$tiny" >info.txt
for words in "activation   relu (source: family (config.json says hidden_act 'silu'" \
    "tensors      56 of 56 used" "hidden_size = 128" "positions    512"; do
    grep -qF "$words" info.txt && ok "info: $words" || not_ok "info: $words" "$(cat info.txt)"
done
mkdir -p hub/models--us--tiny/snapshots/abc hub/models--us--tiny/refs
printf abc >hub/models--us--tiny/refs/main
for f in config.json model.safetensors tokenizer.json; do
    ln -s "$tiny/$f" hub/models--us--tiny/snapshots/abc/$f
done
equal "org/name from the offline cache" "$(HF_HUB_CACHE=$work/hub "$tw" info \
    -m us/tiny | grep model_hash)" "$(grep model_hash info.txt)"
refused "org/name that is not there" ! "us/none" env HF_HUB_CACHE="$work/hub" \
    "$tw" info -m us/none

# tokenize
claim "ids and pieces agree with the conformance file" python3 - "$tw" "$tiny" <<'P'
import json, subprocess, sys
tw, model = sys.argv[1:]
for case in json.load(open(model + "/tokenizer.conformance.json", encoding="utf-8")):
    if not case["text"]:
        continue
    out = subprocess.run([tw, "tokenize", "-m", model, "-p", case["text"]],
                         capture_output=True, check=True).stdout.decode()
    ids = [int(line.split("\t")[0]) for line in out.split("\n") if line]
    assert ids == case["ids"], (case["text"], ids, case["ids"])
P
claim "ids as .npy" "$tw" tokenize -m "$tiny" -f c.jsonl -o ids.npy
"$tw" profile -m "$tiny" -f c.jsonl -c 128 --split stream --name s --db s.sqlite \
    >/dev/null
"$tw" profile -m "$tiny" -f ids.npy -c 128 --name s --db n.sqlite >/dev/null
sql s.sqlite "SELECT layer, neuron, fired FROM neuron_stats" >a.txt
sql n.sqlite "SELECT layer, neuron, fired FROM neuron_stats" >b.txt
same "the ids of tokenize profile like the stream they came from" a.txt b.txt

# gz and stdin are the same text
gzip -c c.jsonl >c.jsonl.gz
"$tw" profile -m "$tiny" -f c.jsonl.gz -c 128 --name s --db z.sqlite >/dev/null
sql z.sqlite "SELECT layer, neuron, fired FROM neuron_stats" >a.txt
sql r.sqlite "SELECT layer, neuron, fired FROM neuron_stats WHERE run = 'first'" >b.txt
same "a .gz is its text" a.txt b.txt
python3 -c 'import json, sys
print("\n\n<|endoftext|>\n".join(json.loads(l)["text"] for l in open("c.jsonl")), end="")' >c.txt
"$tw" profile -m "$tiny" -f - -c 128 --name s --db i.sqlite <c.txt >/dev/null
"$tw" profile -m "$tiny" -f c.txt -c 128 --name s --db t.sqlite >/dev/null
sql i.sqlite "SELECT layer, neuron, fired FROM neuron_stats" >a.txt
sql t.sqlite "SELECT layer, neuron, fired FROM neuron_stats" >b.txt
same "standard input is a file" a.txt b.txt

# sql
equal "csv" "$(sql r.sqlite "SELECT 1 AS a, 'x,y' AS b, NULL AS c" | paste -sd/)" \
    'a,b,c/1,"x,y",'
equal "json" "$("$tw" sql --db r.sqlite -o json "SELECT 1 AS a, 'q\"' AS b, NULL AS c" |
    tr -d ' \n')" '[{"a":1,"b":"q\"","c":null}]'
equal "tags" "$(sql r.sqlite "SELECT key || '=' || value FROM run_tags" | tail -n 1)" \
    corpus=made
claim "sql pipes into the plain shell" sh -c "'$tw' sql --db r.sqlite -o sql \
    --table layers 'SELECT * FROM layer_stats' | sqlite3 plain.db && test \
    \$(sqlite3 plain.db 'SELECT count(*) FROM layers') = 12"
claim "runs lists both" sh -c "'$tw' runs --db r.sqlite -o csv | grep -c complete |
    grep -qx 2"
equal "magnitudes count every h != 0" "$(sql r.sqlite "SELECT count(*) FROM
    (SELECT layer, sum(count) m FROM magnitude_histogram WHERE run = 'first'
     GROUP BY 1) JOIN (SELECT layer, sum(fired) f FROM neuron_stats WHERE run =
     'first' GROUP BY 1) USING (layer) WHERE m <> f" | tail -n 1)" 0

# Every column that DESIGN publishes for a profile.
published_columns() {
    have=$(sql r.sqlite "SELECT group_concat(name, ',') FROM
        pragma_table_info('$1')" | tail -n 1 | tr -d '"')
    for column in $2; do
        case ",$have," in
        *",$column,"*) ;;
        *) not_ok "$1 has $column" "$have"; return ;;
        esac
    done
    ok "$1 has its columns"
}
published_columns run_info "run uuid kind status model model_type family model_hash tokenizer_hash layers d_model d_ff experts gated activation activation_source active weight_dtype compute_dtype backend device plan tokens sequences documents bytes ctx split doc_sep bos parse_special apply skip skipped predicted mean_nll se_nll perplexity bits_per_byte overflow_rows seed shards shards_missing started finished version command"
published_columns layer_stats "run active layer width tokens mean_nnz se_nnz std_nnz min_nnz p50_nnz p90_nnz p99_nnz p999_nnz max_nnz sparsity dead dead_fraction fired_once always_on mean_l1"
published_columns layer_blocks "run active layer block tokens sum_nnz predicted sum_nll"
published_columns layer_class_stats "run active layer class skipped tokens mean_nnz max_nnz"
published_columns position_stats "run active position tokens mean_nnz min_nnz max_nnz max_layer_mean"
published_columns layer_position_stats "run active layer position tokens mean_nnz min_nnz max_nnz"
published_columns token_stats "run active token_id token bytes special count in_sequences mean_nnz mean_nnz_even mean_nnz_odd min_nnz max_nnz"
published_columns layer_token_stats "run active layer token_id token count mean_nnz min_nnz max_nnz"
published_columns neuron_stats "run active layer expert neuron tokens fired rate mean_abs max_abs first_fired last_fired"
published_columns nnz_histogram "run active layer nnz tokens"
published_columns tile_histogram "run layer tile_width nnz tiles"
published_columns dead_curve "run active layer tokens_seen dead"
published_columns magnitude_histogram "run layer log2_bin count"
published_columns layer_routes "run layer tokens overflow_tiles overflow_rows dense_rows"
published_columns layer_timings "run layer path tokens ns_median ns_min ns_mad repetitions"
published_columns layer_speedup "run profile_run layer mean_nnz dense_ns sparse_ns saved_ns saved_fraction contribution"
published_columns bench_results "run target name path m k n dtype nnz_mean nnz_max data repetitions ns_median ns_min ns_mad tokens_per_ms mj_per_token energy_method idle_watt peak_bytes rel_error"
published_columns parity "run layer cells identical max_difference total_difference fired_cells fired_identical fired_max_difference l1_max_relative nll_max_difference mean_nll_difference logits_max_difference"
published_columns run_tags "run key value"
published_columns corpora "run file sha256 documents tokens bytes"

# figures
for figure in layers tokens positions neurons dead_curve tiles; do
    for format in pdf svg png csv json; do
        claim "figure $figure.$format" sh -c "TWELLSCOPE_FIGURES='$top/figures' \
            '$tw' figure $figure --db r.sqlite --run first -o $figure.$format &&
            test -s $figure.$format"
    done
done
refused "without gnuplot" ! "gnuplot-nox" env PATH=/nonexistent \
    TWELLSCOPE_FIGURES="$top/figures" "$tw" figure layers --db r.sqlite \
    --run first -o none.pdf
claim "csv needs none" env PATH=/nonexistent TWELLSCOPE_FIGURES="$top/figures" \
    "$tw" figure layers --db r.sqlite --run first -o none.csv
refused "unknown figure" ! nosuch env TWELLSCOPE_FIGURES="$top/figures" "$tw" \
    figure nosuch --db r.sqlite -o x.pdf
refused "unknown parameter" ! nosuch env TWELLSCOPE_FIGURES="$top/figures" "$tw" \
    figure layers --db r.sqlite --run first --set nosuch=1 -o x.pdf

# bench
claim "bench ffn" sh -c "'$tw' bench ffn -M 70 -K 64 -N 300 -r 3 --nnz 3,30 \
    --db b.sqlite -o csv 2>bench.txt | wc -l | grep -qx 7"
grep -q 'break-even' bench.txt && ok "bench says the break-even" ||
    not_ok "bench says the break-even" "$(cat bench.txt)"
claim "a second bench takes another name" "$tw" bench ffn -M 70 -K 64 -N 300 \
    -r 3 --nnz 3,30 --db b.sqlite
equal "bench-ffn-2" "$(sql b.sqlite "SELECT group_concat(DISTINCT run) FROM
    bench_results" | tail -n 1)" '"bench-ffn,bench-ffn-2"'
equal "bench outputs agree" "$(sql b.sqlite "SELECT max(rel_error) < 1e-5 FROM
    bench_results" | tail -n 1)" 1

# help and man pages
commands=$("$tw" --help | sed -n '/explains a command/q; s/^  \([a-z]*\) .*/\1/p')
for command in $commands; do
    claim "$command -h" sh -c "'$tw' $command -h | grep -q '^Usage: twellscope $command '"
    "$tw" help --man $command >$command.1
    if command -v mandoc >/dev/null 2>&1; then
        complaints=$(mandoc -T lint -W warning $command.1 2>&1 | grep -v 'date' || true)
        equal "man page of $command" "$complaints" ""
    fi
done
equal "every command has been tried" "$(echo $commands | wc -w)" 12
equal "a group of commands stands under one heading" \
    "$("$tw" --help | grep -c '^Measure$')" 1
refused "no such command" 2 "nosuch" "$tw" nosuch
claim "--version" "$tw" --version
"$tw" sql --db r.sqlite "SELECT 1" >/dev/full 2>err.txt && not_ok "a full stdout" ||
    ok "a full stdout is an error"
finish
