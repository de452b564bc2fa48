#!/usr/bin/env python3
"""make_bad.py MODEL OUT: broken copies of a small checkpoint, one folder a
fault, and broken ids and texts, for malformed.sh. No packages."""
import gzip
import json
import os
import shutil
import struct
import sys

model, out = sys.argv[1], sys.argv[2]


def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), data[8 + n:]


header, body = read(os.path.join(model, "model.safetensors"))
names = sorted(k for k in header if k != "__metadata__")
up = "model.layers.1.mlp.up_proj.weight"


def copy(name):
    folder = os.path.join(out, name)
    os.makedirs(folder)
    for f in ("config.json", "tokenizer.json", "model.safetensors"):
        shutil.copyfile(os.path.join(model, f), os.path.join(folder, f))
    return folder


def pack(head):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def write(folder, head, data, name="model.safetensors"):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(pack(head) + data)


def edit(name, change):
    """A copy whose header `change` has altered."""
    head = json.loads(json.dumps(header))
    data = change(head)
    write(copy(name), head, body if data is None else data)


def config(name, change):
    folder = copy(name)
    path = os.path.join(folder, "config.json")
    c = json.load(open(path))
    change(c)
    json.dump(c, open(path, "w"))


def tensor(name, **fields):
    def change(head):
        head[up].update(fields)
    edit(name, change)


# safetensors
folder = copy("truncated")
path = os.path.join(folder, "model.safetensors")
os.truncate(path, os.path.getsize(path) - 100)
folder = copy("header-past-end")
with open(os.path.join(folder, "model.safetensors"), "r+b") as f:
    f.write(struct.pack("<Q", 1 << 40))
folder = copy("tiny-file")
open(os.path.join(folder, "model.safetensors"), "wb").write(b"\x01\x02\x03")
write(copy("header-no-json"), b"{\"a\": [1, 2", body)
b, e = header[up]["data_offsets"]
tensor("overlapping", data_offsets=[b - 256, e - 256])
tensor("misaligned", data_offsets=[b + 1, e + 1])
tensor("reversed", data_offsets=[e, b])
tensor("past-the-end", data_offsets=[b + (1 << 40), e + (1 << 40)])
tensor("wrong-shape", shape=[header[up]["shape"][0], header[up]["shape"][1] // 2],
       data_offsets=[b, e])
tensor("wrong-dtype", dtype="I16")
tensor("unknown-dtype", dtype="Q7")
tensor("huge-shape", shape=[1 << 33, 1 << 33])
tensor("negative-shape", shape=[-1, -1])


def transposed(head):
    head[up]["shape"] = head[up]["shape"][::-1]


edit("transposed", transposed)


def missing(head):
    del head[up]
    # close the hole, so that only the tensor is missing
    order = sorted((v["data_offsets"][0], k) for k, v in head.items() if k != "__metadata__")
    data, at = b"", 0
    for _, k in order:
        s, t = head[k]["data_offsets"]
        data += body[s:t]
        head[k]["data_offsets"] = [at, at + t - s]
        at += t - s
    return data


edit("missing-tensor", missing)
folder = copy("twice-in-header")
text = json.dumps(header)[:-1] + ", " + json.dumps({up: header[up]})[1:]
write(folder, text.encode(), body)


def nan(head):
    s = head[up]["data_offsets"][0]
    return body[:s + 10] + b"\xc0\x7f" + body[s + 12:]


edit("nan", nan)


def huge(head):
    # finite weights whose products are not: h overflows while counting
    s, e = head[up]["data_offsets"]
    return body[:s] + b"\x7f\x7f" * ((e - s) // 2) + body[e:]


edit("huge-weights", huge)


# shards
def shards(name, change=None, index=None):
    folder = copy(name)
    os.remove(os.path.join(folder, "model.safetensors"))
    half = len(names) // 2
    files = {"model-00001-of-00002.safetensors": names[:half],
             "model-00002-of-00002.safetensors": names[half:]}
    if change:
        change(files)
    where = {}
    for f, held in files.items():
        head, data = {}, b""
        for k in held:
            s, t = header[k]["data_offsets"]
            head[k] = dict(header[k], data_offsets=[len(data), len(data) + t - s])
            data += body[s:t]
            where.setdefault(k, f)
        write(folder, head, data, f)
    if index:
        index(where, folder)
    json.dump({"weight_map": where},
              open(os.path.join(folder, "model.safetensors.index.json"), "w"))


shards("sharded-good")
shards("missing-shard", index=lambda w, d: os.remove(
    os.path.join(d, "model-00002-of-00002.safetensors")))
shards("outside", index=lambda w, d: w.update({up: "../x.safetensors"}))
shards("outside-absolute", index=lambda w, d: w.update({up: "/etc/passwd"}))
shards("tensor-twice", change=lambda f: f["model-00002-of-00002.safetensors"].append(names[0]))

# config.json
config("no-hidden-size", lambda c: c.pop("hidden_size"))
config("no-model-type", lambda c: c.pop("model_type"))
config("unknown-family", lambda c: c.update(model_type="mamba"))
config("vocab-mismatch", lambda c: c.update(vocab_size=2000))
config("negative-layers", lambda c: c.update(num_hidden_layers=-3))
config("huge-layers", lambda c: c.update(num_hidden_layers=1 << 40))
config("unknown-rope", lambda c: c["rope_parameters"].update(rope_type="spiral"))
config("text-for-number", lambda c: c.update(hidden_size="128"))


def unknown_activation(c):
    c["model_type"] = "llama"
    c["hidden_act"] = "softplus"


config("unknown-activation", unknown_activation)
folder = copy("config-no-json")
open(os.path.join(folder, "config.json"), "w").write("{\"model_type\": ")
folder = copy("no-config")
os.remove(os.path.join(folder, "config.json"))
folder = copy("no-weights")
os.remove(os.path.join(folder, "model.safetensors"))

# tokenizers
folder = copy("no-tokenizer")
os.remove(os.path.join(folder, "tokenizer.json"))


def tokenizer(name, change):
    folder = copy(name)
    path = os.path.join(folder, "tokenizer.json")
    t = json.load(open(path, encoding="utf-8"))
    change(t)
    json.dump(t, open(path, "w", encoding="utf-8"))


def past(t):
    t["added_tokens"].append(dict(t["added_tokens"][0], id=2050, content="<|new|>"))


tokenizer("tokenizer-past-embedding", past)
tokenizer("tokenizer-wordpiece", lambda t: t["model"].update(type="WordPiece"))
tokenizer("tokenizer-bad-merge", lambda t: t["model"]["merges"].insert(0, "nosuch piece"))
folder = copy("tokenizer-no-json")
open(os.path.join(folder, "tokenizer.json"), "w").write("[1, 2")


# ids
def npy(name, descr, items, shape, fortran=False, cut=0):
    head = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + items
    open(os.path.join(out, name), "wb").write(data[:len(data) - cut])


good = struct.pack("<6i", 1, 2, 3, 4, 5, 6)
npy("good.npy", "<i4", good, "(2, 3)")
npy("big-endian.npy", ">i4", good, "(6,)")
npy("fortran.npy", "<i4", good, "(2, 3)", True)
npy("float.npy", "<f4", good, "(6,)")
npy("short.npy", "<i4", good, "(6,)", cut=4)
npy("three-d.npy", "<i4", good, "(1, 2, 3)")
npy("huge.npy", "<i4", good, "(4611686018427387904, 8)")
npy("negative.npy", "<i4", struct.pack("<3i", 1, -2, 3), "(3,)")
npy("past-vocab.npy", "<i4", struct.pack("<3i", 1, 2048, 3), "(3,)")
npy("empty.npy", "<i4", b"", "(0,)")
open(os.path.join(out, "no.npy"), "wb").write(b"not an array")


# an oracle without answers
write(out, {"input_ids": {"dtype": "I32", "shape": [2, 3], "data_offsets": [0, 24]}}, good,
      "ids-only.safetensors")
write(out, {"input_ids": {"dtype": "I32", "shape": [2, 3], "data_offsets": [0, 24]},
            "nll": {"dtype": "F32", "shape": [2, 3], "data_offsets": [24, 48]}},
      good + good, "wrong-shape.safetensors")


# text
def text(name, data):
    open(os.path.join(out, name), "wb").write(data)


text("good.txt", b"The quick brown fox.\n")
text("invalid.txt", b"abc \xff\xfe def\n")
text("cut.txt", b"abc \xe2\x82")
text("empty.txt", b"")
text("blank.jsonl", b"\n\n")
text("bad.jsonl", b"{\"text\": \"ok\"}\n{\"text\": 7}\n")
text("nojson.jsonl", b"{\"text\": \"ok\"}\n{\"text\n")
whole = gzip.compress(b"The quick brown fox. " * 2000)
text("cut.txt.gz", whole[:len(whole) // 2])
text("junk.txt.gz", b"\x1f\x8b\x08\x00garbage garbage")
