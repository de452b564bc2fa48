#!/usr/bin/env python3
"""make_planted.py OUT [--scale 1.5b | shape options] [--nnz N | --profile FILE]:
a checkpoint of random weights whose feed-forward layers have a wanted mean
number of non-zeros, for timing. Needs numpy; writes as it goes.

How it is planted. Every row of the embedding is 0.5 z + 0.7 s: z normal without
its part along s, s the same random signs for every token. The layers' outputs
are kept so small that the normed stream stays the embedding's, so what a gate
row w gives over random tokens is normal with mean c w.s and a known spread; one
multiple of s is taken off all gate rows of a layer, so large that the mean
probability of a positive gate is nnz / d_ff. Neurons differ in how often they
fire (w.s differs); --flat takes each row's own part along s away, and all fire
equally often. Any text or ids will do.

OUT also gets a tokenizer of bytes and ids.npy (random ids, documents of 2048)."""
import argparse
import json
import math
import os
import struct
import sys

import numpy as np

SCALES = {  # the paper's table 2: layers; hidden 2048, 32 heads
    "tiny": dict(layers=4, hidden=128, heads=4, d_ff=352, vocab=512, positions=512),
    "0.5b": dict(layers=8), "1b": dict(layers=18), "1.5b": dict(layers=28), "2b": dict(layers=38)}
DEFAULTS = dict(layers=28, hidden=2048, heads=32, vocab=49152, positions=2048)
VARIED, SHARED = 0.5, 0.7  # of an embedding row's elements
INIT = 0.02
OUTPUT = 0.003             # a layer's output beside the stream, about


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("out")
    p.add_argument("--scale", choices=SCALES, default="1.5b")
    for name in ("layers", "hidden", "heads", "kv-heads", "d-ff", "vocab", "positions"):
        p.add_argument("--" + name, type=int)
    p.add_argument("--nnz", type=float, default=29, help="mean non-zeros of each layer")
    p.add_argument("--profile", help="a file of a mean a line, the first number after a layer's own "
                   "(CSV of layer,mean_nnz,... also); spread over the layers")
    p.add_argument("--plain", action="store_true", help="not gated; d_ff 8192 unless given")
    p.add_argument("--flat", action="store_true", help="every neuron fires equally often")
    p.add_argument("--ids", type=int, default=65536, help="length of ids.npy")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    for name, value in {**DEFAULTS, **SCALES[a.scale]}.items():
        if getattr(a, name) is None:
            setattr(a, name, value)
    a.kv_heads = a.kv_heads or a.heads
    a.d_ff = a.d_ff or (8192 if a.plain else 5632)
    if a.hidden % a.heads or a.heads % a.kv_heads:
        p.error("hidden must divide by heads, heads by kv-heads")
    return a


def wanted(a):
    """Mean non-zeros of each layer."""
    if not a.profile:
        return [a.nnz] * a.layers
    found = []
    for line in open(a.profile):
        cells = line.replace(",", " ").split()
        try:
            found.append(float(cells[1] if len(cells) > 1 else cells[0]))
        except (ValueError, IndexError):
            continue  # comments, names of columns
    if not found:
        sys.exit(f"{a.profile}: no numbers")
    at = np.linspace(0, len(found) - 1, a.layers)
    return list(np.interp(at, range(len(found)), found))


def bf16(x):
    """Rounded to nearest even, as uint16."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def widened(x):
    return (x.astype(np.uint32) << 16).view(np.float32)


def tail(x):
    """P(normal > x), absolute error below 1e-7 (Abramowitz, Stegun 26.2.17)."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978
             + t * 1.330274429))))
    upper = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * series
    return np.where(x >= 0, upper, 1 - upper)


class Writer:
    """safetensors whose shapes are known before the numbers."""

    def __init__(self, path, shapes):
        self.left = list(shapes.items())
        header, at = {"__metadata__": {"format": "pt"}}, 0
        for name, shape in self.left:
            size = 2 * math.prod(shape)
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.file = open(path, "wb")
        self.file.write(struct.pack("<Q", len(text)) + text)

    def put(self, name, make):
        """make(rows, columns) gives a block of rows as uint16."""
        expected, shape = self.left.pop(0)
        assert name == expected, (name, expected)
        rows, columns = (1, shape[0]) if len(shape) == 1 else shape
        step = max(1, (1 << 24) // columns)
        for first in range(0, rows, step):
            self.file.write(make(min(step, rows - first), columns).tobytes())

    def close(self):
        assert not self.left, self.left[0]
        self.file.close()


def shapes_of(a):
    d, kv = a.hidden, a.hidden // a.heads * a.kv_heads
    shapes = {"model.embed_tokens.weight": [a.vocab, d]}
    for i in range(a.layers):
        at = f"model.layers.{i}."
        shapes |= {at + "input_layernorm.weight": [d], at + "self_attn.q_proj.weight": [d, d],
                   at + "self_attn.k_proj.weight": [kv, d], at + "self_attn.v_proj.weight": [kv, d],
                   at + "self_attn.o_proj.weight": [d, d],
                   at + "post_attention_layernorm.weight": [d]}
        if not a.plain:
            shapes[at + "mlp.gate_proj.weight"] = [a.d_ff, d]
        shapes |= {at + "mlp.up_proj.weight": [a.d_ff, d], at + "mlp.down_proj.weight": [d, a.d_ff]}
    shapes["model.norm.weight"] = [d]
    return shapes


class Maker:
    def __init__(self, a):
        self.a, self.rng = a, np.random.default_rng(a.seed)
        self.signs = np.where(self.rng.random(a.hidden) < 0.5, -1, 1).astype(np.float32)
        self.rms = math.sqrt(VARIED ** 2 + SHARED ** 2)

    def normal(self, std):
        return lambda rows, columns: bf16(
            self.rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(std))

    def constant(self, value):
        return lambda rows, columns: bf16(np.full((rows, columns), value, np.float32))

    def without_signs(self, x):
        return x - (x @ self.signs / len(self.signs))[:, None] * self.signs

    def embedding(self, rows, columns):
        z = self.without_signs(self.rng.standard_normal((rows, columns), dtype=np.float32))
        return bf16(np.float32(VARIED) * z + np.float32(SHARED) * self.signs)

    def planted(self, nnz):
        """The whole matrix [d_ff][d] whose products are positive that often."""
        d, f = self.a.hidden, self.a.d_ff
        w = self.rng.standard_normal((f, d), dtype=np.float32) * np.float32(INIT)
        if self.a.flat:
            w = self.without_signs(w)
        mean = (w @ self.signs).astype(np.float64) * SHARED / self.rms
        spread = np.linalg.norm(self.without_signs(w), axis=1) * VARIED / self.rms
        low, high = -100.0, 100.0
        for _ in range(60):
            middle = (low + high) / 2
            fire = tail((middle - mean) / spread).sum()
            low, high = (middle, high) if fire > nnz else (low, middle)
        shift = (low + high) / 2 / (d * SHARED / self.rms)
        return bf16(w - np.float32(shift) * self.signs)

    def layer(self, out, i, nnz):
        a, at = self.a, f"model.layers.{i}."
        d, q = a.hidden, self.normal(INIT)
        # what a product gives, over what it should, beside the stream
        attention = OUTPUT * self.rms / (math.sqrt(d) * INIT * math.sqrt(d))
        live = max(nnz, 1) * (INIT * math.sqrt(d)) ** (2 if a.plain else 4) / 4
        down = OUTPUT * self.rms / math.sqrt(live)
        out.put(at + "input_layernorm.weight", self.constant(1))
        for part in "qkv":
            out.put(at + f"self_attn.{part}_proj.weight", q)
        out.put(at + "self_attn.o_proj.weight", self.normal(attention))
        out.put(at + "post_attention_layernorm.weight", self.constant(1))
        planted, taken = self.planted(nnz), [0]

        def rows_of(rows, columns):
            taken[0] += rows
            return planted[taken[0] - rows:taken[0]]
        out.put(at + ("mlp.up_proj.weight" if a.plain else "mlp.gate_proj.weight"), rows_of)
        if not a.plain:
            out.put(at + "mlp.up_proj.weight", q)
        out.put(at + "mlp.down_proj.weight", self.normal(min(down, INIT)))


def write_config(a):
    config = {
        "architectures": ["SparseLlamaForCausalLM" if a.plain else "LlamaForCausalLM"],
        "model_type": "llama_sparse_relu" if a.plain else "llama", "hidden_act": "relu",
        "hidden_size": a.hidden, "intermediate_size": a.d_ff, "num_hidden_layers": a.layers,
        "num_attention_heads": a.heads, "num_key_value_heads": a.kv_heads,
        "head_dim": a.hidden // a.heads, "rms_norm_eps": 1e-5, "vocab_size": a.vocab,
        "max_position_embeddings": a.positions, "rope_theta": 10000.0,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "attention_bias": False,
        "mlp_bias": False, "bos_token_id": 256, "eos_token_id": 256}
    if a.plain:
        config["sparsity_gated_mlp"] = False
    json.dump(config, open(os.path.join(a.out, "config.json"), "w"), indent=1)


def write_tokenizer(a):
    """Each byte a token, by the printable names that byte-level BPE gives them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    name = {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}
    end = {"id": 256, "content": "<|endoftext|>", "single_word": False, "lstrip": False,
           "rstrip": False, "normalized": False, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "vocab": {name[b]: b for b in range(256)}, "merges": []}
    json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end],
               "normalizer": None, "pre_tokenizer": level, "post_processor": None,
               "decoder": level, "model": model},
              open(os.path.join(a.out, "tokenizer.json"), "w"), indent=1)


def main():
    a = options()
    os.makedirs(a.out, exist_ok=True)
    write_config(a)
    if a.vocab > 256:
        write_tokenizer(a)
    maker, means = Maker(a), wanted(a)
    shapes = shapes_of(a)
    out = Writer(os.path.join(a.out, "model.safetensors"), shapes)
    out.put("model.embed_tokens.weight", maker.embedding)
    for i, nnz in enumerate(means):
        maker.layer(out, i, nnz)
    # so that a row's own logit is about 2 above the others
    own = VARIED ** 2 * a.hidden / maker.rms
    out.put("model.norm.weight", maker.constant(2 / own))
    out.close()
    rows = max(1, a.ids // a.positions)
    ids = maker.rng.integers(0, a.vocab, (rows, a.positions), dtype=np.int32)
    np.save(os.path.join(a.out, "ids.npy"), ids)
    total = sum(math.prod(s) for s in shapes.values())
    print(f"{a.out}: {total / 1e9:.3f} G parameters, planted non-zeros "
          + " ".join(f"{m:.1f}" for m in means))


main()
