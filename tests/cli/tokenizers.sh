#!/bin/sh
# tokenize prints ids and pieces of every kind of tokenizer file, and names
# what it refuses.
. "${top_srcdir:-.}/tests/cli/lib.sh"
data=$top/tests/data/tokenizers

# column NUMBER MODEL TEXT: of what tokenize prints, joined by bars
column() {
    "$tw" tokenize -m "$2" -p "$3" | cut -f "$1" | paste -s -d '|' -
}

mkdir spm json gpt2 none unigram
cp "$data/llama.model" spm/tokenizer.model
python3 - "$data/bundle.json" <<'PY'
import json, sys
bundle = json.load(open(sys.argv[1], encoding="utf-8"))
case = next(c for c in bundle["cases"] if c["name"] == "llama3")
json.dump(dict(case, model=dict(bundle["models"]["bytes"], **case["options"])),
          open("json/tokenizer.json", "w"))
model = bundle["models"]["bytes"]
json.dump(model["vocab"], open("gpt2/vocab.json", "w"))
open("gpt2/merges.txt", "w", encoding="utf-8").writelines(
    " ".join(m) + "\n" for m in model["merges"])
json.dump(dict(model=dict(type="Unigram")), open("unigram/tokenizer.json", "w"))
wanted = {t: i for t, i in zip(bundle["texts"], case["ids"])}
print("|".join(str(i) for i in wanted["1 12 123 1234 12345"]), file=open("json.ids", "w"))
PY
equal "tokenizer.model: pieces" "$(column 2 spm 'a b')" " a| b"
equal "tokenizer.model: bytes" "$(column 2 spm 'a🤗')" \
    " a|<0xF0>|<0x9F>|<0xA4>|<0x97>"
equal "tokenizer.model: a special token" "$(column 1 spm '</s>')" 2
equal "tokenizer.json: ids" "$(column 1 json '1 12 123 1234 12345')" \
    "$(cat json.ids)"
equal "vocab.json and merges.txt: pieces" "$(column 2 gpt2 'a the')" \
    "a| the"
equal "the same text comes back from bytes" \
    "$("$tw" tokenize -m json -p 'the tokenizer' | cut -f 2 | tr -d '\n')" \
    "the tokenizer"
refused "no tokenizer" ! \
    "tokenizer.json, tokenizer.model, or vocab.json with merges.txt" \
    "$tw" tokenize -m none -p a
refused "a model that is none of ours" ! "'Unigram' (supported: BPE)" \
    "$tw" tokenize -m unigram -p a
head -c 3000 "$data/llama.model" >none/tokenizer.model
refused "a cut tokenizer.model" ! "none/tokenizer.model: " \
    "$tw" tokenize -m none -p a
finish
