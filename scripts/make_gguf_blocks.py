#!/usr/bin/env python3
"""Writes tests/gguf_blocks.h: what the public `gguf` package makes of random
blocks of each GGUF type, 1000 a type, as a SHA-256 over the float32 results
and the first values. The blocks are not stored: byte i of type ID is byte
i % 8 of splitmix64's output number i / 8 from the seed ID, and the half-precision
scales are made finite by clearing bit 14 where the exponent is all ones.

    python3 scripts/make_gguf_blocks.py >tests/gguf_blocks.h     (needs gguf)
"""
import hashlib

import gguf
import numpy as np

BLOCKS = 1000
# Where a block's half-precision numbers stand.
HALVES = {
    "F16": [0], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0],
    "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
    "Q5_K": [0, 2], "Q6_K": [208],
}
TYPES = ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K",
         "Q3_K", "Q4_K", "Q5_K", "Q6_K"]


def splitmix64(seed, count):
    with np.errstate(over="ignore"):
        step = np.arange(1, count + 1, dtype=np.uint64)
        z = np.uint64(seed) + step * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def blocks(name, seed, size):
    count = (BLOCKS * size + 7) // 8
    data = splitmix64(seed, count).astype("<u8").view(np.uint8)
    data = data[:BLOCKS * size].reshape(BLOCKS, size).copy()
    for at in HALVES.get(name, []):
        high = data[:, at + 1]
        high[(high & 0x7C) == 0x7C] &= 0xBF
    if name == "BF16":
        high, low = data[:, 1], data[:, 0]
        high[((high & 0x7F) == 0x7F) & (low >= 0x80)] &= 0xBF
    return data


def main():
    print("/* Made by scripts/make_gguf_blocks.py with gguf; not to be edited. "
          "*/")
    print("static const struct {\n    const char *name;\n    uint32_t id;\n"
          "    const char *sha256;   /* of 1000 blocks' float32 values */\n"
          "    uint32_t first[4];    /* bits of the first values */\n"
          "} expected[] = {")
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        rows = blocks(name, int(kind), size)
        values = gguf.quants.dequantize(rows, kind).astype("<f4")
        assert np.isfinite(values).all()
        digest = hashlib.sha256(values.tobytes()).hexdigest()
        first = ", ".join(f"0x{v:08x}" for v in values.reshape(-1).view("<u4")[:4])
        print(f'    {{"{name}", {int(kind)},\n     "{digest}",\n'
              f"     {{{first}}}}},")
    print("};")


main()
