#!/bin/sh
# The same checkpoint in every format: the same identity, the same counts, the
# same tokens; an assumed activation is said and refused by --strict.
. "${top_srcdir:-.}/tests/cli/lib.sh"

opt=$top/tests/data/goldens/opt
python3 "$top/tests/cli/make_formats.py" "$tiny" "$opt" .
printf 'The boy walked into town 12 times,\nand then the rain came.\n' >text.txt

# fact MODEL WORD: a line of info
fact() {
    "$tw" info -m "$1" | sed -n "s/^$2  *//p"
}
equal "a .bin has the identity of its tensors" \
    "$(fact bin model_hash)" "$(fact "$tiny" model_hash)"
equal "wherever they lie in the file" \
    "$(fact odd model_hash)" "$(fact "$tiny" model_hash)"
equal "info names the format" "$(fact bin stored | cut -d: -f1)" \
    "PyTorch, 1 file"
equal "info names GGUF" "$(fact tiny.gguf stored)" \
    "GGUF, 1 file: $(fact bin tensors | cut -d' ' -f1) float32 tensors"

# counts MODEL NAME...: what a profile counted
counts() {
    "$tw" profile -m "$1" -f text.txt --db "$2.sqlite" --name x >/dev/null \
        2>err.txt || cat err.txt
    sql "$2.sqlite" "SELECT layer, mean_nnz, sparsity, dead, round(mean_l1, 2)
        FROM layer_stats" >"$2.txt"
    sql "$2.sqlite" "SELECT tokens, round(mean_nll, 5), activation FROM run_info" \
        >>"$2.txt"
}
counts "$tiny" safetensors
counts bin bin
counts tiny.gguf gguf
same ".bin counts as safetensors" safetensors.txt bin.txt
same "GGUF counts as safetensors" safetensors.txt gguf.txt
"$tw" tokenize -m "$tiny" -f text.txt >ids.txt
"$tw" tokenize -m tiny.gguf -f text.txt >ids-gguf.txt
same "GGUF tokens are the tokenizer's" ids.txt ids-gguf.txt
"$tw" tokenize --tokenizer "$tiny" -f text.txt >ids-dir.txt
same "--tokenizer names one" ids.txt ids-dir.txt
claim "--tokenizer for a GGUF" "$tw" profile -m tiny.gguf --tokenizer "$tiny" \
    -f text.txt --db other.sqlite

claim "a directory of a .gguf" sh -c "mkdir one; cp tiny.gguf one; \
    '$tw' profile -m one -f text.txt --db one.sqlite"
equal "its source is the key" \
    "$(sql one.sqlite 'SELECT activation_source FROM run_info' | tail -n 1)" \
    llama.hidden_activation
equal "its name is the file's" \
    "$(sql one.sqlite 'SELECT run FROM run_info' | tail -n 1)" tiny
claim "an assumed activation runs" "$tw" profile -m assumed.gguf -f text.txt \
    --db assumed.sqlite
equal "and is stored as such" \
    "$(sql assumed.sqlite 'SELECT activation, activation_source FROM run_info' |
        tail -n 1)" \
    "silu,assumed: no key llama.hidden_activation"
refused "--strict refuses it" 3 "the activation silu is assumed" \
    "$tw" profile -m assumed.gguf -f text.txt --db strict.sqlite --strict
"$tw" profile -m assumed.gguf -f text.txt --db override.sqlite \
    --activation relu >/dev/null 2>&1
equal "--activation says it" \
    "$(sql override.sqlite 'SELECT activation_source FROM run_info' |
        tail -n 1)" override

claim "OPT as Meta ships it" "$tw" profile -m opt -f text.txt --db opt.sqlite
claim "and it computes what it should" "$tw" profile -m opt \
    --compare "$opt/oracle.safetensors" --db opt.sqlite --name oracle

# The Hugging Face cache: snapshots of links into blobs.
cached() {
    snapshot=hub/models--org--$1/snapshots/abc
    mkdir -p "$snapshot" "hub/models--org--$1/blobs" "hub/models--org--$1/refs"
    printf abc >"hub/models--org--$1/refs/main"
    shift
    for file; do
        cp "$file" "$snapshot/../../blobs/$(basename "$file").blob"
        ln -s "../../blobs/$(basename "$file").blob" \
            "$snapshot/$(basename "$file")"
    done
}
cached bin bin/config.json bin/pytorch_model.bin
cached gguf tiny.gguf
HF_HUB_CACHE=$PWD/hub
export HF_HUB_CACHE
equal "a .bin in the cache" "$(fact org/bin model_hash)" \
    "$(fact "$tiny" model_hash)"
equal "a .gguf in the cache" "$(fact org/gguf model_hash)" \
    "$(fact tiny.gguf model_hash)"

mkdir cut
cp bin/config.json cut
head -c 100000 bin/pytorch_model.bin >cut/pytorch_model.bin
refused "a cut .bin" 1 "pytorch_model.bin: zip archive" "$tw" info -m cut
head -c 100000 tiny.gguf >cut.gguf
refused "a cut GGUF" 1 "cut.gguf: tensor" "$tw" info -m cut.gguf
finish
