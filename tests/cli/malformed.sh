#!/bin/sh
# Broken input of every kind: one line that names file and cause, an exit
# status that is not 0, nothing lost.
. "${top_srcdir:-.}/tests/cli/lib.sh"

python3 "$top/tests/cli/make_bad.py" "$tiny" bad
cp "$top/README.md" text.txt

# A database with a run in it must come out of every refusal unchanged.
"$tw" profile -m "$tiny" -f bad/good.txt --db runs.sqlite --name taken \
    >/dev/null 2>&1
cp runs.sqlite before.sqlite

profile() {
    "$tw" profile --db runs.sqlite "$@"
}
# model FAULT WORDS
model() {
    refused "$1" ! "$2" profile -m "bad/$1" -f bad/good.txt
}
claim "a sharded copy is good" profile -m bad/sharded-good -f bad/good.txt \
    --db sharded.sqlite
model truncated model.safetensors
model header-past-end model.safetensors
model tiny-file model.safetensors
model header-no-json model.safetensors
model overlapping model.safetensors
model misaligned model.safetensors
model reversed model.safetensors
model past-the-end model.safetensors
model wrong-shape up_proj
model wrong-dtype up_proj
model unknown-dtype up_proj
model huge-shape up_proj
model negative-shape up_proj
model transposed "has shape [128, 384], expected [384, 128]"
model missing-tensor up_proj
model twice-in-header model.safetensors
model nan "up_proj"
model missing-shard model-00002-of-00002.safetensors
model outside "../x.safetensors"
model outside-absolute "/etc/passwd"
model tensor-twice "as well"
model no-hidden-size "config.json: no field 'hidden_size'"
model no-model-type "config.json: no field 'model_type'"
model unknown-family mamba
model vocab-mismatch 2000
model negative-layers num_hidden_layers
model huge-layers num_hidden_layers
model unknown-rope spiral
model text-for-number hidden_size
model unknown-activation softplus
model config-no-json config.json
model no-config config.json
model no-weights model.safetensors
model no-tokenizer tokenizer
model tokenizer-past-embedding 2050
model tokenizer-wordpiece WordPiece
model tokenizer-bad-merge tokenizer.json
model tokenizer-no-json tokenizer.json
refused "no such model" ! nosuch profile -m nosuch -f bad/good.txt

# file FAULT WORDS
file() {
    refused "$1" ! "$2" profile -m "$tiny" -f "bad/$1"
}
file big-endian.npy big-endian.npy
file fortran.npy fortran.npy
file float.npy float.npy
file short.npy short.npy
file three-d.npy three-d.npy
file huge.npy huge.npy
file no.npy no.npy
file empty.npy empty.npy
file nosuch.txt nosuch.txt
refused "a directory as text" ! "bad: " profile -m "$tiny" -f bad

for bad in "-c 0" "-b 0" "--limit 0" "-t 0" "--limit x" "--shard 3/3" \
    "--active nosuch" "--active topp:2" "--skip nosuch" "--split nosuch" \
    "--skip bos,foo" "--skip special,nothing" "--skip first:0" "--tag bad" \
    "--activation nosuch" "--resume" "-f - --resume --name x" "-f - -f -" \
    "--bos perhaps" "--time-limit soon" "--nosuch" "--checkpoint -1" "word"; do
    refused "$bad" 2 "" profile -m "$tiny" -f bad/good.txt $bad
done
refused "unknown --activation" ! softmax profile -m "$tiny" -f bad/good.txt \
    --activation softmax
refused "an empty name" 2 "--name" profile -m "$tiny" -f bad/good.txt --name ""
refused "a name too long" 2 "--name" profile -m "$tiny" -f bad/good.txt \
    --name "$(printf 'n%.0s' $(seq 300))"
refused "--dry-run of a taken name" 1 "taken" profile -m "$tiny" \
    -f bad/good.txt --name taken --dry-run
refused "--dry-run into no folder" ! "nofolder" "$tw" profile -m "$tiny" \
    -f bad/good.txt --db nofolder/x.sqlite --dry-run
for how in "--split stream" "--bos yes" "-c 16" "--limit 10" "--shard 0/2" \
    "--skip first:1" "--active gate" "--no-loss" "--resume --name taken"; do
    refused "--compare with $how" 2 "--compare" profile -m "$tiny" $how \
        --compare "$tiny/oracle.safetensors"
done
refused "an oracle without answers" 1 "no answers" profile -m "$tiny" \
    --compare bad/ids-only.safetensors
refused "an oracle of another shape" 1 "nll" profile -m "$tiny" \
    --compare bad/wrong-shape.safetensors
refused "unknown --backend" ! vulkan profile -m "$tiny" -f bad/good.txt \
    --backend vulkan
refused "no model" 2 "-m MODEL" profile -f bad/good.txt
refused "no text" 2 "-f FILE" profile -m "$tiny"
refused "name taken" 1 "taken" profile -m "$tiny" -f bad/good.txt --name taken
refused "--resume of another model" 1 "not the same run" profile \
    -m "$(python3 - "$tiny" <<'P'
import json, os, shutil, sys
shutil.copytree(sys.argv[1], "other", dirs_exist_ok=True)
data = bytearray(open("other/model.safetensors", "rb").read())
data[-2] ^= 1
open("other/model.safetensors", "wb").write(data)
print("other")
P
)" -f bad/good.txt --name taken --resume
refused "--resume with another -c" 1 "-c" profile -m "$tiny" -f bad/good.txt \
    --name taken --resume -c 32
refused "--resume with another skip" 1 "--skip" profile -m "$tiny" \
    -f bad/good.txt --name taken --resume --skip first:2
same "a refused database is unchanged, byte for byte" runs.sqlite before.sqlite

# Databases that are not ours.
python3 - <<'P'
import sqlite3
c = sqlite3.connect("theirs.sqlite"); c.execute("create table t(a)"); c.commit()
c.close()
data = bytearray(open("runs.sqlite", "rb").read())
data[60:64] = (7).to_bytes(4, "big")
open("newer.sqlite", "wb").write(data)
open("text.sqlite", "w").write("just a text " * 500)
P
for db in theirs newer text; do
    cp $db.sqlite $db.before
    refused "$db database" ! "$db.sqlite" "$tw" profile -m "$tiny" \
        -f bad/good.txt --db $db.sqlite
    same "$db database is unchanged" $db.sqlite $db.before
    refused "sql on $db database" ! "$db.sqlite" "$tw" sql --db $db.sqlite \
        "SELECT 1"
done
refused "missing folder for the database" ! "nofolder" "$tw" profile -m "$tiny" \
    -f bad/good.txt --db nofolder/x.sqlite
refused "sql without a database" ! nosuch.sqlite "$tw" sql --db nosuch.sqlite \
    "SELECT 1"
[ ! -e nosuch.sqlite ] && ok "and none was made" || not_ok "and none was made"
refused "sql that would write" ! "" "$tw" sql --db runs.sqlite \
    "DELETE FROM run_"
refused "sql with an error" ! "nosuch" "$tw" sql --db runs.sqlite \
    "SELECT * FROM nosuch"
same "sql changed nothing" runs.sqlite before.sqlite

# Faults that show only while counting: the run stays, as failed, with a cause.
later() {
    refused "$1" ! "$2" "$tw" profile -m "$tiny" -f bad/good.txt -f "bad/$1" \
        --db later.sqlite --name "$1"
    equal "$1: failed, with its cause" "$(sql later.sqlite "SELECT status,
        cause LIKE '%$2%' FROM run_info WHERE run = '$1'" | tail -n 1)" \
        "failed,1"
}
later negative.npy -2
later past-vocab.npy 2048
later invalid.txt invalid.txt
later cut.txt cut.txt
later cut.txt.gz cut.txt.gz
later junk.txt.gz junk.txt.gz
later bad.jsonl bad.jsonl
later nojson.jsonl nojson.jsonl
later blank.jsonl blank.jsonl
refused "h that overflows" 1 "layer 1" "$tw" profile -m bad/huge-weights \
    -f bad/good.txt --db later.sqlite --name huge
equal "names layer, token and neuron, and stays as failed" "$(sql later.sqlite \
    "SELECT status, cause LIKE '%layer%token%neuron%' FROM run_info
     WHERE run = 'huge'" | tail -n 1)" "failed,1"
refused "empty.txt" ! "empty.txt" "$tw" profile -m "$tiny" -f bad/empty.txt \
    --db later.sqlite --name empty
refused "empty prompt" ! "" "$tw" profile -m "$tiny" -p "" --db later.sqlite \
    --name prompt

# A full disk at a checkpoint (needs the right to mount a small file system).
if mkdir -p small && mount -t tmpfs -o size=600k tmpfs small 2>/dev/null; then
    head -c 400k /dev/zero >small/filler
    refused "disk full" ! "small/x.sqlite" "$tw" profile -m "$tiny" \
        -f text.txt --db small/x.sqlite --name full --checkpoint 0
    rm small/filler
    state=$(sql small/x.sqlite "SELECT status FROM run_info" 2>&1 | tail -n 1)
    case $state in
    failed | interrupted | status) ok "disk full: readable afterwards" ;;
    *) not_ok "disk full: readable afterwards" "$state" ;;
    esac
    umount small
else
    skip "disk full: no right to mount a file system here"
fi
finish
