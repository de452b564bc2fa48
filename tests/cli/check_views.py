#!/usr/bin/env python3
"""check_views.py DB RUN ORACLE: recomputes the published views of a run over an
oracle's ids (one sequence a document) from the oracle's own per-row counts, in
plain Python, and compares. No packages."""
import array
import json
import math
import sqlite3
import struct
import sys

db, run, oracle = sys.argv[1:]
data = open(oracle, "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])


def load(name):
    t = header[name]
    a = array.array({"I32": "i", "F32": "f"}[t["dtype"]])
    b, e = t["data_offsets"]
    a.frombytes(data[8 + n + b:8 + n + e])
    return t["shape"], a


(S, T), ids = load("input_ids")
(L, rows), nnz = load("nnz")
_, nll = load("nll")
_, l1 = load("l1")
(_, F), fire = load("fire")
c = sqlite3.connect(db)
bad = 0


def check(name, got, want, tol=0.0):
    global bad
    same = len(got) == len(want)
    if same:
        for g, w in zip(got, want):
            for a, b in zip(g, w):
                if isinstance(b, float) and tol:
                    same &= a is not None and abs(a - b) <= tol * max(1, abs(b))
                else:
                    same &= a == b
    print(("ok " if same else "not ok ") + name)
    if not same:
        bad += 1
        for g, w in list(zip(got, want))[:400]:
            if g != w:
                print("   ", g, "wanted", w)
                break


def rowvals(layer):
    return [nnz[layer * rows + r] for r in range(rows)]


def quantile(values, p):
    v = sorted(values)
    h = (len(v) - 1) * p
    i = int(h)
    return v[i] + (h - i) * (v[min(i + 1, len(v) - 1)] - v[i])


want = []
for l in range(L):
    v = rowvals(l)
    mean = sum(v) / rows
    std = math.sqrt(sum((x - mean) ** 2 for x in v) / rows)
    # delete-one jackknife over blocks; document + window 0, so a block a document
    blocks = [sum(v[s * T:(s + 1) * T]) for s in range(S)]
    loo = [(sum(v) - b) / (rows - T) for b in blocks]
    m = sum(loo) / S
    se = math.sqrt((S - 1) / S * sum((x - m) ** 2 for x in loo))
    f = fire[l * F:(l + 1) * F]
    want.append((l, F, rows, mean, std, se, min(v), quantile(v, .5), quantile(v, .9),
                 quantile(v, .99), quantile(v, .999), max(v), 1 - mean / F,
                 sum(x == 0 for x in f), sum(x == 1 for x in f), sum(x == rows for x in f),
                 sum(round(x * 65536) for x in l1[l * rows:(l + 1) * rows]) / 65536 / rows))
got = c.execute("""SELECT layer, width, tokens, mean_nnz, std_nnz, se_nnz, min_nnz, p50_nnz,
    p90_nnz, p99_nnz, p999_nnz, max_nnz, sparsity, dead, fired_once, always_on, mean_l1
    FROM layer_stats WHERE run = ? ORDER BY layer""", (run,)).fetchall()
check("layer_stats", got, [tuple(map(lambda x: float(x) if isinstance(x, float) else x, w))
                           for w in want], 1e-5)

want = []
for p in range(T):
    cells = [[nnz[l * rows + s * T + p] for s in range(S)] for l in range(L)]
    every = [x for layer in cells for x in layer]
    want.append((p, S, sum(every) / (S * L), min(every), max(every),
                 max(sum(layer) / S for layer in cells)))
got = c.execute("""SELECT position, tokens, mean_nnz, min_nnz, max_nnz, max_layer_mean
    FROM position_stats WHERE run = ? ORDER BY position""", (run,)).fetchall()
check("position_stats", got, want, 1e-12)

types = {}
for r in range(rows):
    types.setdefault(ids[r], []).append(r)
want = []
for t in sorted(types):
    at = types[t]
    cells = [nnz[l * rows + r] for l in range(L) for r in at]

    def mean_of(parity):
        some = [r for r in at if (r // T) % 2 == parity]
        return (sum(nnz[l * rows + r] for l in range(L) for r in some) / (len(some) * L)
                if some else None)
    want.append((t, len(at), len({r // T for r in at}), sum(cells) / len(cells),
                 mean_of(0), mean_of(1), min(cells), max(cells)))
got = c.execute("""SELECT token_id, count, in_sequences, mean_nnz, mean_nnz_even, mean_nnz_odd,
    min_nnz, max_nnz FROM token_stats WHERE run = ? ORDER BY token_id""", (run,)).fetchall()
check("token_stats", got, want, 1e-12)

want = [(l, t, len(types[t]), sum(nnz[l * rows + r] for r in types[t]) / len(types[t]))
        for l in range(L) for t in sorted(types)]
got = c.execute("""SELECT layer, token_id, count, mean_nnz FROM layer_token_stats
    WHERE run = ? ORDER BY layer, token_id""", (run,)).fetchall()
check("layer_token_stats", got, want, 1e-12)

want = [(l, i, rows, fire[l * F + i]) for l in range(L) for i in range(F)]
got = c.execute("""SELECT layer, neuron, tokens, fired FROM neuron_stats WHERE run = ?
    ORDER BY layer, neuron""", (run,)).fetchall()
check("neuron_stats", got, want)

want = []
for l in range(L):
    h = {}
    for x in rowvals(l):
        h[x] = h.get(x, 0) + 1
    want += [(l, x, h[x]) for x in sorted(h)]
got = c.execute("""SELECT layer, nnz, tokens FROM nnz_histogram WHERE run = ?
    ORDER BY layer, nnz""", (run,)).fetchall()
check("nnz_histogram", got, want)

want = []
for l in range(L):
    for s in range(S):
        want.append((l, s, T, sum(rowvals(l)[s * T:(s + 1) * T]), T - 1,
                     sum(float(x) for x in nll[s * (T - 1):(s + 1) * (T - 1)])))
got = c.execute("""SELECT layer, block, tokens, sum_nnz, predicted, sum_nll FROM layer_blocks
    WHERE run = ? ORDER BY layer, block""", (run,)).fetchall()
check("layer_blocks", got, want, 1e-5)

mean = sum(nll) / len(nll)
got = c.execute("""SELECT tokens, sequences, documents, predicted, skipped, mean_nll, perplexity
    FROM run_info WHERE run = ?""", (run,)).fetchall()
check("run_info", got, [(rows, S, S, S * (T - 1), 0, mean, math.exp(mean))], 1e-5)

got = c.execute("""SELECT layer, low, high, neurons FROM rate_histogram WHERE run = ?
    ORDER BY 1, 2""", (run,)).fetchall()
rates = {}
for layer, fired, tokens in c.execute("SELECT layer, fired, tokens FROM neuron_stats WHERE"
                                      " run = ?", (run,)):
    k = 0
    while fired and fired * 2 ** (k + 1) <= tokens:
        k += 1
    key = (layer, 0.5 ** (k + 1), 0.5 ** k) if fired else (layer, 0.0, 0.0)
    rates[key] = rates.get(key, 0) + 1
check("rate_histogram from neuron_stats", got, sorted(k + (n,) for k, n in rates.items()))

# What only the run knows, checked against itself: the corpus clock.
got = c.execute("""SELECT n.layer, d.tokens_seen, d.dead,
        sum(n.first_fired IS NULL OR n.first_fired >= d.tokens_seen)
    FROM neuron_stats n JOIN dead_curve d USING (run, active, layer) WHERE run = ?
    GROUP BY 1, 2""", (run,)).fetchall()
check("dead_curve from first_fired", [g[2:3] for g in got], [g[3:4] for g in got])
check("dead_curve ends at the last token",
      c.execute("SELECT max(tokens_seen) FROM dead_curve WHERE run = ?", (run,)).fetchall(),
      [(rows,)])
sys.exit(bad > 0)
