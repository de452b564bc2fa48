#!/usr/bin/env python3
"""make_model.py OUT --layers L --hidden D --d-ff F --heads H --kv-heads K
--vocab V [--act relu]: a random bf16 Llama of that shape, for memory and time
(a block of random weights, repeated), and 256 random ids. No packages."""
import argparse
import json
import os
import random
import struct

p = argparse.ArgumentParser()
p.add_argument("out")
for name, default in (("layers", 2), ("hidden", 64), ("d-ff", 192), ("heads", 4),
                      ("kv-heads", 4), ("vocab", 512)):
    p.add_argument("--" + name, type=int, default=default)
p.add_argument("--act", default="relu")
a = p.parse_args()
os.makedirs(a.out, exist_ok=True)
head_dim = a.hidden // a.heads
config = {
    "model_type": "llama", "hidden_act": a.act, "hidden_size": a.hidden,
    "intermediate_size": a.d_ff, "num_hidden_layers": a.layers,
    "num_attention_heads": a.heads, "num_key_value_heads": a.kv_heads,
    "head_dim": head_dim, "rms_norm_eps": 1e-5, "vocab_size": a.vocab,
    "max_position_embeddings": 8192, "rope_theta": 500000.0,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "attention_bias": False, "mlp_bias": False}
json.dump(config, open(os.path.join(a.out, "config.json"), "w"), indent=1)

shapes = {"model.embed_tokens.weight": [a.vocab, a.hidden],
          "model.norm.weight": [a.hidden], "lm_head.weight": [a.vocab, a.hidden]}
kv = a.kv_heads * head_dim
for i in range(a.layers):
    layer = f"model.layers.{i}."
    shapes.update({
        layer + "input_layernorm.weight": [a.hidden],
        layer + "post_attention_layernorm.weight": [a.hidden],
        layer + "self_attn.q_proj.weight": [a.hidden, a.hidden],
        layer + "self_attn.k_proj.weight": [kv, a.hidden],
        layer + "self_attn.v_proj.weight": [kv, a.hidden],
        layer + "self_attn.o_proj.weight": [a.hidden, a.hidden],
        layer + "mlp.gate_proj.weight": [a.d_ff, a.hidden],
        layer + "mlp.up_proj.weight": [a.d_ff, a.hidden],
        layer + "mlp.down_proj.weight": [a.hidden, a.d_ff]})

rng = random.Random(1)
scale = 1.0 / a.hidden ** 0.5
block = b"".join(struct.pack("<f", rng.gauss(0, scale))[2:] for _ in range(1000003))
ones = b"\x80\x3f" * a.hidden
header, at = {}, 0
for name, shape in shapes.items():
    n = 2
    for s in shape:
        n *= s
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
    at += n
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(os.path.join(a.out, "model.safetensors"), "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    for name, shape in shapes.items():
        if len(shape) == 1:
            f.write(ones)
            continue
        left = 2 * shape[0] * shape[1]
        while left:
            part = block[:left] if left < len(block) else block
            f.write(part)
            left -= len(part)

ids = struct.pack("<256i", *(rng.randrange(a.vocab) for _ in range(256)))
head = "{'descr': '<i4', 'fortran_order': False, 'shape': (256,), }"
head += " " * (-(10 + len(head) + 1) % 64) + "\n"
with open(os.path.join(a.out, "ids.npy"), "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + ids)
