#!/usr/bin/env python3
"""PyTorch's dense feed-forward layer, eager and torch.compile'd, on one GPU:

    scripts/torch_ffn.py [-M ROWS[,ROWS...]] [-K 2048] [-N 5632] [--plain]
                         [--nnz 29] [-r 30]

y = x + (relu(x Wg^T) * (x Wu^T)) Wd^T, plain: x + relu(x Wu^T) Wd^T, in bf16,
on rows like bench's: normal, the last component 1, so that a neuron's weight
for it sets how often it fires. Prints a line "NAME ROWS NANOSECONDS" for each,
the median of the repetitions, interleaved, inputs rotating past the L2 cache.
"""
import argparse
import statistics

import torch
import torch.nn.functional as F


def options():
    p = argparse.ArgumentParser()
    p.add_argument("-M", default="16384")
    p.add_argument("-K", type=int, default=2048)
    p.add_argument("-N", type=int, default=5632)
    p.add_argument("--plain", action="store_true")
    p.add_argument("--nnz", type=float, default=29)
    p.add_argument("-r", type=int, default=30)
    return p.parse_args()


def weights(o):
    normal = torch.Generator(device="cuda").manual_seed(0)

    def matrix(rows, cols):
        return torch.randn(rows, cols, device="cuda", generator=normal) / cols**0.5

    rate = torch.tensor(o.nnz / o.N, dtype=torch.float64)
    first, up, down = matrix(o.N, o.K), matrix(o.N, o.K), matrix(o.K, o.N)
    first[:, -1] = float(torch.special.ndtri(rate))
    return [w.to(torch.bfloat16) for w in (first, up, down)]


def gated(x, gate, up, down):
    return x + F.linear(F.relu(F.linear(x, gate)) * F.linear(x, up), down)


def plain(x, first, up, down):
    return x + F.linear(F.relu(F.linear(x, first)), down)


def inputs(rows, o):
    out = []
    for _ in range(3):
        x = torch.randn(rows, o.K, device="cuda")
        x[:, -1] = 1
        out.append(x.to(torch.bfloat16))
    return out


def timed(form, x, w):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(200_000)  # the host is ahead of the device
    begin.record()
    form(x, *w)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e6


def main():
    o = options()
    layer, w = (plain if o.plain else gated), weights(o)
    for rows in (int(m) for m in o.M.split(",")):
        torch._dynamo.reset()
        forms = {"torch-eager": layer, "torch-compile": torch.compile(layer, dynamic=False)}
        x, times = inputs(rows, o), {name: [] for name in forms}
        for i in range(-5, o.r):
            for name, form in forms.items():
                ns = timed(form, x[i % 3], w)
                if i >= 0:
                    times[name].append(ns)
        for name, ns in times.items():
            print(name, rows, round(statistics.median(ns)), flush=True)


with torch.no_grad():
    main()
