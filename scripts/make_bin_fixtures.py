#!/usr/bin/env python3
"""make_bin_fixtures.py OUT: small files as PyTorch itself writes them, for
tests/test_torch_bin.c (needs torch).

    scripts/make_bin_fixtures.py tests/data/bin

state.bin    each type, views, names that share a storage, a Parameter, a list
view.bin     a transposed view, which is refused
legacy.bin   the form before 1.6, which is refused
object.bin   a whole module, which is refused
"""
import collections
import os
import sys

import torch


def count(*shape, dtype=torch.float32, start=0):
    size = 1
    for n in shape:
        size *= n
    return (torch.arange(start, start + size) / 4).to(dtype).reshape(shape)


def main():
    out = sys.argv[1]
    base = count(6, 4)
    state = collections.OrderedDict()
    state["whole"] = base
    state["rows"] = base[2:5]
    state["again"] = base
    state["half"] = count(5, dtype=torch.float16, start=-3)
    state["brain"] = count(2, 3, dtype=torch.bfloat16)
    state["parameter"] = torch.nn.Parameter(count(3, start=7))
    state["scalar"] = torch.tensor(2.5)
    state["empty"] = torch.zeros(0, 4)
    state["ids"] = torch.arange(4)
    state["mask"] = torch.tensor([True, False])
    state["double"] = count(2, dtype=torch.float64)
    state["note"] = [1, "two", 3.0, None, True, (4,), {"five": 70000}]
    state._metadata = collections.OrderedDict(version=1)
    torch.save(state, os.path.join(out, "state.bin"))
    torch.save({"good": count(2), "turned": base.t()},
               os.path.join(out, "view.bin"))
    torch.save({"weight": count(2, 2)}, os.path.join(out, "legacy.bin"),
               _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Linear(2, 2), os.path.join(out, "object.bin"))


main()
