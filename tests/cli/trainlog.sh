#!/bin/sh
# import trainlog: each form of log gives the same rows; what is unknown is named
# and left out; malformed files give one line and no run.
. "${top_srcdir:-.}/tests/cli/lib.sh"

cat >state.json <<'E2'
{"best_metric": NaN, "global_step": 20, "log_history": [
  {"epoch": 0.5, "grad_norm": 1.25, "learning_rate": 0.001, "loss": 3.5, "step": 10},
  {"eval_loss": 3.0, "step": 10, "note": "a \"quoted\" NaN \\"},
  {"epoch": 1.0, "grad_norm": NaN, "learning_rate": 5e-4, "loss": 2.5, "step": 20},
  {"train_loss": 3.0, "train_runtime": 9.0, "step": 20}]}
E2
cat >history.csv <<'E2'
"_step","_runtime","train/loss","train/learning_rate","train/grad_norm"
10,1.5,3.5,0.001,1.25
20,3.0,2.5,5e-4,
E2
printf '"Step","my - run - train/loss","my - run - train/loss__MIN","my - run - train/loss__MAX"\r\n"10","3.5","3.5","3.5"\r\n20,2.5,2.5,2.5\r\n' >chart.csv
cat >lines.jsonl <<'E2'
{"config": "a head line"}
{"step": 10, "loss": 9, "lr": 0.001}
{"step": 10, "loss": 3.5, "grad_norm": 1.25}

{"step": 20, "loss": 2.5, "lr": 0.0005, "nnz": [30, 50], "alive": [1, 0.5], "tokens": 4096}
E2
cat >layers.csv <<'E2'
step,nnz/0,train/nnz_layer_1,max_nnz.1,dense_rows,tokens_per_second,nnz/x
1,30.5,50,99,7,2500,1
E2
rows="SELECT step, loss, lr, grad_norm FROM training_steps WHERE run = "
wanted='10,3.5,0.001,1.25 20,2.5,0.0005, '
for file in state.json history.csv lines.jsonl; do
    stem=${file%.*}
    claim "$file" "$tw" import trainlog $file --db t.sqlite
    equal "rows of $file" "$(sql t.sqlite "$rows'$stem'" | tail -n +2 | tr '\n' ' ')" "$wanted"
done
claim "chart.csv" "$tw" import trainlog chart.csv --db t.sqlite
equal "rows of chart.csv" "$(sql t.sqlite "$rows'chart'" | tail -n +2 | tr '\n' ' ')" \
    '10,3.5,, 20,2.5,, '
claim "layers.csv" "$tw" import trainlog layers.csv --db t.sqlite --name layers
equal "layers' rows" "$(sql t.sqlite "SELECT step, layer, mean_nnz, max_nnz FROM training_layers
    WHERE run = 'layers'" | tail -n +2 | tr '\n' ' ')" '1,0,30.5, 1,1,50.0,99 '
equal "a step's mean over layers" "$(sql t.sqlite "SELECT mean_nnz, dense_rows, tokens_per_ms FROM
    training_steps WHERE run = 'layers'" | tail -n 1)" '40.25,7,2.5'
equal "lists are layers" "$(sql t.sqlite "SELECT layer, mean_nnz, alive FROM training_layers
    WHERE run = 'lines'" | tail -n +2 | tr '\n' ' ')" '0,30.0,1.0 1,50.0,0.5 '
equal "the run" "$(sql t.sqlite "SELECT kind, status, layers FROM run_info WHERE run = 'lines'" |
    tail -n 1)" 'train,complete,2'
says() {
    "$tw" import trainlog "$1" --db says.sqlite 2>&1 | grep -cF "$2"
}
equal "unknown columns are named" "$(says state.json "columns left out: epoch, eval_loss, note, train_loss, train_runtime")" 1
equal "those of a CSV" "$(says layers.csv "columns left out: nnz/x")" 1
equal "rows without a step too" "$(says lines.jsonl "1 rows without a step left out")" 1
refused "a name that is taken" 1 "run 'lines' exists already" \
    "$tw" import trainlog lines.jsonl --db t.sqlite --name lines
claim "a free name is found" "$tw" import trainlog lines.jsonl --db t.sqlite
equal "it is lines-2" "$(sql t.sqlite "SELECT count(*) FROM run_info WHERE run = 'lines-2'" | tail -n 1)" 1
claim "deleted" "$tw" runs --db t.sqlite --delete lines
equal "with its rows" "$(sql t.sqlite "SELECT count(*) FROM training_layer_ WHERE run_id NOT IN
    (SELECT run_id FROM run_)" | tail -n 1)" 0

# bad NAME WORDS CONTENT: refused in one line that names the file; no run.
bad() {
    printf "$3" >bad.log
    refused "$1" 1 "$2" "$tw" import trainlog bad.log --db bad.sqlite
    grep -qF bad.log lines.txt || not_ok "$1: names the file" "$(cat lines.txt)"
}
bad "an empty file" "an empty file" ""
bad "cut JSON" "row 2 is no JSON" '{"step": 1, "loss": 2}\n{"step": 2, "lo'
bad "a list of numbers" "row 1 is no object" '[1, 2]'
bad "a text as a loss" "'loss' is neither a number nor a list" '{"step": 1, "loss": "2.5"}'
bad "a list of losses" "'loss' is neither" '{"step": 1, "loss": [2.5]}'
bad "half a step" "step 1.5 is no whole number" '{"step": 1.5, "loss": 2}'
bad "a negative step" "no whole number" 'step,loss\n-1,2\n'
bad "no steps" "no column of steps" 'loss,lr\n1,2\n'
bad "no known column" "no row with a step and a known column" 'step,x\n1,2\n'
bad "a word in a CSV" "row 3: 'loss' is 'abc', no number" 'step,loss\n1,2\n2,abc\n'
bad "a short row" "row 2 has 1 columns, not 2" 'step,loss\n1\n'
bad "an open quote" "a quote is not closed" 'step,loss\n1,"2\n'
bad "two runs in a chart" "are the same: a file of one run" 'Step,a - loss,b - loss\n1,2,3\n'
bad "NUL bytes" "not a text file" 'step,loss\n1,\0002\n'
bad "a column without a name" "no row with a step" 'step,,x\n1,2,3\n'
bad "deep nesting" "no JSON" "$(printf '%5000s' | tr ' ' '[')"
refused "no such file" 1 "none.json" "$tw" import trainlog none.json --db bad.sqlite
refused "nothing to import" 2 "trainlog FILE" "$tw" import lines.jsonl
[ ! -e bad.sqlite ] && ok "no database is left of failures" || not_ok "no database is left"

for log in "$shared"/checkpoints/*/training_log.json; do
    [ -f "$log" ] || {
        skip "$log is not there"
        continue
    }
    claim "$log" "$tw" import trainlog "$log" --db shared.sqlite --name x
    equal "its steps and layers" "$(sql shared.sqlite "SELECT count(*) = count(ce) AND
        count(*) * (SELECT layers FROM run_info WHERE run = 'x') = (SELECT count(mean_nnz + alive)
        FROM training_layers WHERE run = 'x') FROM training_steps WHERE run = 'x'" | tail -n 1)" 1
    "$tw" runs --db shared.sqlite --delete x >/dev/null 2>&1
done
finish
