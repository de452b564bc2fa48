#!/usr/bin/env python3
"""make_tokenizers.py OUT: the small vocabularies of tests/data/tokenizers, trained
on this project's own text, with the ids that their own libraries give (needs
tokenizers, sentencepiece). OUT/bundle.json: "models" (the model of a
tokenizer.json), "cases" (what stands around one, and "ids" for each of "texts"),
"files" (a tokenizer.model each, with its config and ids)."""
import glob
import io
import json
import os
import sys

import sentencepiece
import tokenizers

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MARK = "\u2581"
TEXTS = [
    "", " ", "   ", "a", " a", "a ", "  two  spaces ", "\n", "a\n\n  b\t c\r\n", "The text's words don't end.",
    "it'S THEY'LL", "1 12 123 1234 12345", "x = (a + b) * 3.14; /* ** */", "int main(void) { return 0; }",
    "Gr\u00fc\u00dfe aus K\u00f6ln, caf\u00e9 e\u0301 n\u0303", "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440",
    "\u4f60\u597d \u4e16\u754c \u4f60\u597d", "\U0001f680\U0001f680 go \U0001f9ed", "\u00b9\u00b2\u00b3 1\u00b23 \u00bd 3\u00bd",
    "\u2581", "\u2581a \u2581", "a\u2581b", "<s>", "a<s>b", " <s> a </s>", "<0x0A>", "<unk> x", "a<ud>b <ud> ",
    "\u00a0a\u3000b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "=" * 70,
]
SPM = {
    "llama": dict(byte_fallback=True, add_dummy_prefix=True, remove_extra_whitespaces=False),
    "gemma": dict(byte_fallback=True, add_dummy_prefix=False, remove_extra_whitespaces=False,
                  user_defined_symbols=["\n", MARK * 2, MARK * 3, "<ud>"], pad_id=0, eos_id=1, bos_id=2, unk_id=3),
    "squeeze": dict(byte_fallback=False, add_dummy_prefix=True, remove_extra_whitespaces=True),
}


def corpus():
    names = ["README.md", "HACKING.md"] + sorted(glob.glob(TOP + "/doc/*.md")) + sorted(glob.glob(TOP + "/src/text/*.h"))
    text = [open(os.path.join(TOP, name), encoding="utf-8").read() for name in names]
    return "\n".join(text).split("\n") + [t for t in TEXTS if ord(max(t or "a")) > 127]


def train_spm(out, name, options):
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=stream, model_type="bpe", vocab_size=520 if options["byte_fallback"] else 320,
        normalization_rule_name="identity", character_coverage=0.998, num_threads=1, minloglevel=2, **options)
    with open(os.path.join(out, name + ".model"), "wb") as file:
        file.write(stream.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue())


def model_of(processor):
    """As a tokenizer.json has it: every split of a piece is a merge, the best score first."""
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    vocab = {p: i for i, p in enumerate(pieces)}
    merges = [(p[:i], p[i:], processor.get_score(vocab[p])) for p in pieces for i in range(1, len(p))
              if p[:i] in vocab and p[i:] in vocab and not processor.is_control(vocab[p])]
    merges.sort(key=lambda m: -m[2])
    return dict(type="BPE", unk_token="<unk>", fuse_unk=True, byte_fallback=True, vocab=vocab,
                merges=[[a, b] for a, b, _ in merges])


def train_bytes():
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(corpus(), tokenizers.trainers.BpeTrainer(
        vocab_size=420, show_progress=False, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(tokenizer.to_str())["model"]
    return dict(type="BPE", vocab=model["vocab"], merges=model["merges"])


def split(regex):
    return dict(type="Split", pattern=dict(Regex=regex), behavior="Isolated", invert=False)


def level(regex):
    return dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=regex)


def added(names, first, **flags):
    base = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    return [dict(base, id=first + i, content=n, **flags) for i, n in enumerate(names)]


def metaspace(scheme, is_split):
    return dict(type="Metaspace", replacement=MARK, prepend_scheme=scheme, split=is_split)


def sequence(*parts):
    return dict(type="Sequence", pretokenizers=list(parts))


def cases(size):
    numbers = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|"
               r"\s*[\r\n]+|\s+(?!\S)|\s+")
    prepend = dict(type="Sequence", normalizers=[dict(type="Prepend", prepend=MARK),
                                                 dict(type="Replace", pattern=dict(String=" "), content=MARK)])
    marks = dict(type="Replace", pattern=dict(String=" "), content=MARK)
    special = added(["<unk>", "<s>", "</s>"], 0)
    last = added(["<s>", "<ud>"], size)
    spaces = dict(type="Replace", pattern=dict(Regex=" {2,}"), content=" ")
    yield "llama", "characters", dict(fuse_unk=True), prepend, None, special
    yield "llama, tokens normalized", "characters", {}, prepend, None, [dict(t, normalized=True) for t in special]
    yield "characters unfused", "characters", dict(byte_fallback=False, fuse_unk=False), prepend, None, special
    yield "characters fused", "characters", dict(byte_fallback=False), prepend, None, special
    yield "characters whole", "characters", dict(ignore_merges=True), prepend, metaspace("never", True), special
    yield "gemma", "characters", {}, marks, dict(type="Split", pattern=dict(String=" "), behavior="MergedWithPrevious",
                                                 invert=False), special
    yield "spaces by regex", "characters", {}, dict(type="Sequence", normalizers=[spaces, marks]), None, special
    for scheme in ("always", "first", "never"):
        yield "metaspace " + scheme, "characters", {}, None, metaspace(scheme, True), special
        yield "metaspace whole " + scheme, "characters", {}, None, metaspace(scheme, False), special
    yield "llama3", "bytes", dict(ignore_merges=True), None, sequence(split(numbers % r"\p{N}{1,3}"), level(False)), last
    yield "qwen2", "bytes", {}, dict(type="NFC"), sequence(split(numbers % r"\p{N}"), level(False)), last
    yield "falcon", "bytes", {}, None, sequence(
        dict(type="Punctuation", behavior="Contiguous"), level(True), dict(type="Digits", individual_digits=False),
        split("[0-9][0-9][0-9]")), last
    yield "bloom", "bytes", {}, None, sequence(
        split(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"), level(False)), last


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    files = []
    for name, options in SPM.items():
        processor = train_spm(out, name, options)
        if name == "llama":
            characters = model_of(processor)
        keys = ("bos", "eos", "unk")
        files.append(dict(file=name + ".model", ids=[processor.encode(t) for t in TEXTS],
                          **{k: getattr(processor, k + "_id")() for k in keys}))
    models = dict(characters=characters, bytes=train_bytes())
    rows = []
    for name, model, options, normalizer, pre, tokens in cases(len(models["bytes"]["vocab"])):
        around = dict(added_tokens=tokens, normalizer=normalizer, pre_tokenizer=pre, post_processor=None, decoder=None)
        text = json.dumps(dict(version="1.0", model=dict(models[model], **options), **around))
        tokenizer = tokenizers.Tokenizer.from_str(text)
        rows.append(dict(name=name, model=model, options=options, **around,
                         ids=[tokenizer.encode(t, add_special_tokens=False).ids for t in TEXTS]))
    with open(os.path.join(out, "bundle.json"), "w", encoding="utf-8") as file:
        json.dump(dict(texts=TEXTS, models=models, cases=rows, files=files), file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


main()
