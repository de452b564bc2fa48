#!/bin/sh
# bench model: what it refuses, what it stores, its non-zeros beside profile's,
# figure layers with the layers' shares.
. "${top_srcdir:-.}/tests/cli/lib.sh"

TWELLSCOPE_FIGURES=$top/figures
export TWELLSCOPE_FIGURES
bench() {
    "$tw" bench model -m "$tiny" --backend cpu --db b.sqlite "$@"
}
count() {
    sql b.sqlite "$1" | tail -n 1
}

refused "no model" 2 "-m MODEL is wanted" "$tw" bench model -p hello
refused "no text" 2 "its text is wanted" bench
refused "two texts" 2 "its text is wanted" bench -p hello -f "$top/README.md"
refused "text of the paper's" 2 "its input is random ids, not -p" bench --paper -p hello
refused "a form" 2 "--ffn: 'sparse' is not dense, twell or auto" bench -p hello --ffn sparse
refused "no whole sequence" 2 "-b 100 holds no sequence of 256 tokens" bench --paper -b 100 -c 256
refused "a checkpoint that is none" ! "nosuch" "$tw" bench model -m nosuch -p hello --db b.sqlite
refused "a text that is none" ! "nosuch" bench -f nosuch
refused "an option of ffn's" 2 "--nnz" bench -p hello --nnz 3

head -c 6000 "$top/README.md" >text.txt
claim "profile" "$tw" profile -m "$tiny" -f text.txt -c 64 --limit 512 --name prof --backend cpu \
    --db b.sqlite
bench -f text.txt -c 64 -b 512 -r 3 --name all -o csv >all.csv 2>all.txt
equal "four forms on the cpu, as printed" "$(cut -d , -f 1-4 all.csv | tail -n +2 | tr '\n' ' ')" \
    "all,model,dense-counted,cpu all,model,twell-no-loss,cpu all,model,twell,cpu all,model,auto,cpu "
equal "facts of the rows" "$(sql b.sqlite "SELECT DISTINCT m, k, n, dtype, data, repetitions FROM
    bench_results WHERE run = 'all'" | tail -n +2)" "512,128,384,float32,text.txt,3"
equal "the input's non-zeros are profile's" "$(count "SELECT abs(b.nnz_mean - (SELECT avg(mean_nnz)
    FROM layer_stats WHERE run = 'prof')) < 1e-9 AND b.nnz_max = (SELECT max(max_nnz) FROM layer_stats
    WHERE run = 'prof') FROM bench_results b WHERE run = 'all' LIMIT 1")" 1
grep -q "^input: text.txt; 512 tokens in 8 sequences of at most 64" all.txt &&
    grep -q "^non-zeros: .* of 384 a token" all.txt && ok "the input is said" ||
    not_ok "the input is said" "$(cat all.txt)"
equal "the forms' losses are profile's" "$(sed -n 's/.* loss \([0-9.]*\)$/\1/p' all.txt | sort -u)" \
    "$(count "SELECT printf('%.4f', mean_nll) FROM run_info WHERE run = 'prof'")"
equal "without the head no loss is said" "$(grep -c "^twell-no-loss .* loss " all.txt)" 0
equal "a rate is tokens over the median" "$(count "SELECT count(*) FROM bench_results WHERE
    abs(tokens_per_ms - 1e6 * m / ns_median) < 1e-6 AND ns_min <= ns_median AND peak_bytes > 1e6
    AND mj_per_token IS NULL")" 4
equal "layers of each form" "$(sql b.sqlite "SELECT path, count(*), min(tokens), max(repetitions)
    FROM layer_timings WHERE run = 'all' GROUP BY 1" | tail -n +2 | tr '\n' ' ')" \
    "auto,6,512,3 dense,6,512,3 twell,6,512,3 twell-no-loss,6,512,3 "
equal "layers take less than the pass" "$(count "SELECT (SELECT sum(ns_min) FROM layer_timings WHERE
    run = 'all' AND path = 'dense') < (SELECT ns_median FROM bench_results WHERE run = 'all' AND
    name = 'dense-counted')")" 1
equal "shares of the time saved sum to +-100" "$(count "SELECT round(abs(sum(contribution)), 6),
    count(*), sum(sign(saved_ns) <> sign(contribution)) FROM layer_speedup WHERE run = 'all'
    AND profile_run = 'prof'")" "100.0,6,0"
equal "the run's facts" "$(sql b.sqlite "SELECT b.kind, b.status, b.tokens, b.sequences, b.ctx, b.layers,
    b.backend, b.model_hash = p.model_hash FROM run_info b JOIN run_info p ON p.run = 'prof'
    WHERE b.run = 'all'" | tail -n 1)" "bench,complete,512,8,64,6,cpu,1"
claim "fsck" "$tw" fsck --db b.sqlite

for form in dense twell auto; do
    claim "--ffn $form" bench -p "The quick brown fox" --ffn $form -r 1 --no-loss --name $form
done
equal "a form beside the dense one" "$(sql b.sqlite "SELECT run, group_concat(name, ' ') FROM
    bench_results WHERE run IN ('dense', 'twell', 'auto') GROUP BY 1" | tail -n +2 | tr '\n' ';')" \
    "auto,dense-counted auto;dense,dense-counted;twell,dense-counted twell;"
bench --paper -c 32 -b 70 -r 2 --name ids >/dev/null 2>ids.txt
equal "random ids: whole sequences, no loss" "$(sed -n 's/^input: //p' ids.txt) $(grep -c loss ids.txt)" \
    "random ids, seed 1; 64 tokens in 2 sequences of at most 32 0"
claim "the same ids" bench --paper -c 32 -b 64 -r 2 --name ids
equal "the same ids: the same non-zeros, another name" "$(count "SELECT count(DISTINCT nnz_mean),
    count(DISTINCT run) FROM bench_results WHERE run LIKE 'ids%'")" "1,2"
equal "the paper's rate is of the mean" "$(sed -n 's/^twell .*mean \([0-9.]*\),.*/\1/p' ids.txt)" \
    "$(count "SELECT printf('%.3f', m / tokens_per_ms) FROM bench_results WHERE run = 'ids' AND
        name = 'twell'")"

# An activation without zeros.
cp -r "$tiny" silu && chmod -R u+w silu
sed 's/"hidden_act": *"relu"/"hidden_act": "silu"/; s/llama_sparse_relu/llama/' "$tiny/config.json" >silu/config.json
if "$tw" info -m silu | grep -q silu; then
    refused "twell of silu" ! "leaves no zeros" "$tw" bench model -m silu -p hello --ffn twell --db b.sqlite
    claim "silu is dense alone" "$tw" bench model -m silu --backend cpu -p hello -r 1 --db b.sqlite --name silu
    equal "silu: one row, every neuron" "$(count "SELECT count(*), min(nnz_mean) > 380 FROM bench_results
        WHERE run = 'silu'")" "1,1"
else
    not_ok "a model of silu" "$("$tw" info -m silu | head -n 12)"
fi

# figure layers: the newest timings of the model, its note from the same rows.
if command -v gnuplot >/dev/null; then
    claim "figure layers, drawn" "$tw" figure layers --db b.sqlite --run prof --set timings=all \
        -o layers.svg --keep
    equal "r, n and an interval stand in the head" "$(sed -n 's/^# series=prof, pearson_r=\([-0-9.]*\), n=6, r_low_95=\([-0-9.]*\), r_high_95=\([-0-9.]*\)$/\1 \2 \3/p' layers.dat |
        awk '{ print ($2 < $1 && $1 < $3 && $2 > -1 && $3 < 1) }')" 1
    equal "r is the rows'" "$(sed -n 's/.*pearson_r=\([-0-9.]*\),.*/\1/p' layers.dat | cut -c 1-10)" \
        "$(awk -F '\t' '!/^#/ && NF > 5 { n++; x += $4; y += $7; xx += $4 * $4
            yy += $7 * $7; xy += $4 * $7 }
            END { d = sqrt((n * xx - x * x) * (n * yy - y * y))
            printf "%.15g\n", (n * xy - x * y) / d }' layers.dat | cut -c 1-10)"
    grep -q 'r = -\?[0-9]' layers.svg && ok "r is drawn" || not_ok "r is drawn"
else
    skip "gnuplot is not here"
fi
claim "figure layers, rows" "$tw" figure layers --db b.sqlite --run prof --set timings=all -o layers.csv
equal "every layer's share" "$(tail -n +2 layers.csv | awk -F , '$7 != "" { n++ } END { print n }')" 6

# The correlation's functions.
pairs="(SELECT 1 AS x, 2.0 AS y UNION ALL SELECT 2, 1 UNION ALL SELECT 3, 4 UNION ALL SELECT 4, 3
    UNION ALL SELECT 5, 7 UNION ALL SELECT 6, NULL)"
equal "pearson" "$(count "SELECT round(pearson(x, y), 9) FROM $pairs")" 0.824163384
equal "its interval" "$(count "SELECT round(pearson_at(x, y, -1.96), 6), round(pearson_at(x, y, 1.96), 6)
    FROM $pairs")" "$(awk 'BEGIN { z = 0.5 * log((1 + 0.824163384) / (1 - 0.824163384)); h = 1.96 / sqrt(2)
    printf "%.6f,%.6f", 1 - 2 / (exp(2 * (z - h)) + 1), 1 - 2 / (exp(2 * (z + h)) + 1) }')"
equal "of too few, of a constant: NULL" "$(count "SELECT pearson(x, y) IS NULL, pearson_at(x, y, 1) IS
    NULL, (SELECT pearson(1, x) IS NULL FROM $pairs), (SELECT pearson(x, y) IS NULL FROM $pairs WHERE 0)
    FROM (SELECT 1 AS x, 2 AS y)")" "1,1,1,1"

# A planted model has the non-zeros that were asked for.
if python3 -c 'import numpy' 2>/dev/null; then
    claim "a planted model" python3 "$top/scripts/make_planted.py" planted --scale tiny --nnz 9 --ids 8192
    "$tw" profile -m planted -f planted/ids.npy --db p.sqlite --name p >/dev/null 2>&1
    equal "its non-zeros are planted within 4 %" "$(sql p.sqlite "SELECT max(abs(mean_nnz / 9 - 1)) < 0.04
        FROM layer_stats" | tail -n 1)" 1
    claim "its tokenizer" "$tw" profile -m planted -p "Any text." --db p.sqlite --name text
else
    skip "numpy is not here: no planted model"
fi
finish
