#!/usr/bin/env python3
"""The per-token ledger in plain Python, for interpreters that can't load SQLite
extensions. As a module:

    import ledger
    for row in ledger.token_activity("x.sqlite", "run", layer=3):
        print(row["sequence"], row["position"], row["token_id"], row["nnz"])
    for row in ledger.active_neurons("x.sqlite", "run", layer=3):
        print(row["neuron"], row["value"])

As a program: ledger.py DB RUN token_activity|active_neurons|examples [LAYER]
prints CSV.
The format stands in doc/FORMAT.md."""
import array
import csv
import os
import sqlite3
import struct
import sys
import zlib

SEQUENCES, TOKENS, CLASSES, NLL, NNZ, L1, SET, VALUES, WATCH = range(9)


def unpack(blob):
    """A BLOB's sections as lists of numbers."""
    if blob[0] != 1:
        raise ValueError("ledger BLOB of version %d" % blob[0])
    heads = [struct.unpack_from("<BI", blob, 2 + 5 * i) for i in range(blob[1])]
    raw = zlib.decompress(blob[2 + 5 * blob[1]:])
    if len(raw) != sum(size * count for size, count in heads):
        raise ValueError("a ledger BLOB is damaged")
    at, sections = 0, []
    for size, count in heads:
        planes = [raw[at + p * count:at + (p + 1) * count] for p in range(size)]
        at += size * count
        if size == 1:
            sections.append(list(planes[0]))
            continue
        wide = bytearray(4 * count)
        for p, plane in enumerate(planes):
            wide[p::4] = plane
        numbers = array.array("I", bytes(wide))
        if sys.byteorder == "big":
            numbers.byteswap()
        sections.append(numbers.tolist())
    return sections


def as_float(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def widen(half):
    return as_float(half << 16)


def open_run(path, run):
    db = sqlite3.connect("file:%s?mode=ro" % path, uri=True)
    row = db.execute("SELECT run_id, layers, ctx FROM run_ WHERE run = ?", (run,)).fetchone()
    if not row:
        raise ValueError("%s: no run '%s'" % (path, run))
    return (db,) + row


def column(db, block, kind, definition, layer):
    row = db.execute("SELECT data FROM ledger_ WHERE block_id = ? AND kind = ? AND def_ord = ?"
                     " AND layer = ?", (block, kind, definition, layer)).fetchone()
    return unpack(row[0]) if row else None


def blocks(db, run_id, ctx):
    """(block, rows of it): one (sequence, document, position) each."""
    lengths = db.execute("SELECT document, sequences FROM document_ WHERE run_id = ?"
                         " ORDER BY document", (run_id,)).fetchall()
    before, total = {}, 0
    for document, sequences in lengths:
        before[document] = total
        total += sequences
    for block, document in db.execute("SELECT block_id, document FROM ledger_block_ WHERE"
                                      " run_id = ? ORDER BY document, start", (run_id,)).fetchall():
        rows = []
        for step, start, length in zip(*column(db, block, SEQUENCES, 0, -1)):
            document += step
            sequence = before[document] + start // ctx
            rows += [(sequence, document, p) for p in range(length)]
        yield block, rows


def token_activity(path, run, layer=None, definition=0):
    db, run_id, layers, ctx = open_run(path, run)
    for block, rows in blocks(db, run_id, ctx):
        tokens = column(db, block, TOKENS, 0, -1)[0]
        loss = column(db, block, NLL, 0, -1)
        for number in range(layers) if layer is None else [layer]:
            nnz = column(db, block, NNZ, definition, number)
            l1 = column(db, block, L1, 0, number)
            for r, (sequence, document, position) in enumerate(rows if nnz else []):
                nll = as_float(loss[0][r]) if loss else None
                yield {"sequence": sequence, "document": document, "position": position,
                       "layer": number, "token_id": tokens[r], "nnz": nnz[0][r],
                       "l1": widen(l1[0][r]) if l1 else None,
                       "nll_next": None if nll is None or nll != nll else nll}


def active_neurons(path, run, layer=None):
    db, run_id, layers, ctx = open_run(path, run)
    for block, rows in blocks(db, run_id, ctx):
        for number in range(layers) if layer is None else [layer]:
            sets, at = column(db, block, SET, 0, number), 0
            if not sets:
                continue
            nnz = column(db, block, NNZ, 0, number)[0]
            values = column(db, block, VALUES, 0, number)[0]
            for (sequence, document, position), count in zip(rows, nnz):
                rank = -1
                for i in range(at, at + count):
                    rank += sets[1][i] + 1
                    yield {"sequence": sequence, "document": document, "position": position,
                           "layer": number, "neuron": sets[0][rank], "value": widen(values[i])}
                at += count


def examples(path, run, layer=None):
    db, run_id, layers, ctx = open_run(path, run)
    before, total = {}, 0
    for document, sequences in db.execute("SELECT document, sequences FROM document_ WHERE"
                                          " run_id = ? ORDER BY document", (run_id,)).fetchall():
        before[document] = total
        total += sequences
    for number in range(layers) if layer is None else [layer]:
        row = db.execute("SELECT data FROM example_ WHERE run_id = ? AND layer = ?",
                         (run_id, number)).fetchone()
        counts, values, documents, places = unpack(row[0]) if row else ([], [], [], [])
        at = 0
        for neuron, count in enumerate(counts):
            for rank in range(1, count + 1):
                yield {"layer": number, "neuron": neuron, "rank": rank,
                       "sequence": before[documents[at]] + places[at] // ctx,
                       "position": places[at] % ctx, "value": as_float(values[at])}
                at += 1


def main(arguments):
    tables = {"token_activity": token_activity, "active_neurons": active_neurons,
              "examples": examples}
    if len(arguments) not in (3, 4) or arguments[2] not in tables:
        sys.exit(__doc__)
    path, run, table = arguments[:3]
    layer = int(arguments[3]) if len(arguments) == 4 else None
    out = None
    try:
        for row in tables[table](path, run, layer):
            if out is None:
                out = csv.DictWriter(sys.stdout, row, lineterminator="\n")
                out.writeheader()
            out.writerow(row)
    except (ValueError, sqlite3.Error, zlib.error, struct.error, IndexError) as error:
        sys.exit("ledger.py: %s: %s" % (path, error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main(sys.argv[1:])
