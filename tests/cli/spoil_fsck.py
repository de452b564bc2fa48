#!/usr/bin/env python3
"""spoil_fsck.py TWELLSCOPE CLEAN.sqlite: for every check that `fsck` makes of a
clean database, spoils a copy so that it must be violated, and looks whether it
is. Prints "ok CHECK" or "not ok CHECK". No packages."""
import csv
import io
import shutil
import sqlite3
import subprocess
import sys

tw, clean = sys.argv[1:]
R = "run_id = (SELECT run_id FROM run_ WHERE run = 'r')"
P = "run_id = (SELECT run_id FROM run_ WHERE run = 'part')"
L = f"{R} AND def_ord = 1 AND layer = 2"
ONE = "(SELECT min({0}) FROM {1} WHERE {2})"


def one(table, key, change, where=L):
    """Changes one row: the one of the smallest key."""
    return (f"UPDATE {table} SET {change} WHERE {where} AND {key} = "
            f"(SELECT min({key}) FROM {table} WHERE {where})")


FIRED = f"{L} AND fired > 1"
NEURON = "(SELECT min(neuron) FROM neuron_ WHERE " + FIRED + ")"


def neuron(change, where=L):
    return f"UPDATE neuron_ SET {change} WHERE {where} AND neuron = {NEURON}"


# A check's name: the SQL that must violate it. Those with True spoil so much
# that they stand alone.
spoils = {
    "definitions are named": (f"DELETE FROM definition_ WHERE {R} AND def_ord = 2", True),
    "definition 0 is the run's primary": "UPDATE run_ SET active = 'gate' WHERE run = 'r'",
    "every definition has every layer": (f"DELETE FROM layer_ WHERE {L}", True),
    "layers have the model's width": (f"UPDATE layer_ SET width = 3 WHERE {L}", True),
    "every layer has all its neurons": (f"DELETE FROM neuron_ WHERE {L} AND neuron = 7", True),
    "no row is of an unknown layer":
        f"UPDATE hist_ SET layer = 99 WHERE {R} AND def_ord = 2 AND layer = 1",
    "classes are named": "DELETE FROM class_name_ WHERE class = 0",
    "the tokenizer is in its table":
        ("UPDATE run_ SET tokenizer_hash = 'x' WHERE run = 'r'", True),
    "every token has its piece": f"DELETE FROM piece_ WHERE token_id = "
        f"{ONE.format('token_id', 'token_', R)}",
    "document rows = tokens + skipped":
        (one("document_", "document", "rows = rows + 1", R), True),
    "sequences = those of the documents":
        (one("document_", "document", "sequences = sequences + 1", R), True),
    "documents = rows of document_": ("UPDATE run_ SET documents = 3 WHERE run = 'r'", False),
    "a part holds its own documents":
        f"UPDATE document_ SET document = document + 1 WHERE {P} AND document = 0",
    "a document is cut by the context": (f"UPDATE run_ SET ctx = 2 WHERE run = 'r'", True),
    "a layer's tokens are the run's": f"UPDATE layer_ SET tokens = tokens + 1 WHERE {L}",
    "skipped rows = those of the classes": "UPDATE run_ SET skipped = 1 WHERE run = 'r'",
    "firings = non-zeros": neuron("fired = fired - 1"),
    "histogram mass = non-zeros": one("hist_", "nnz", "tokens = tokens + 1"),
    "histogram rows = tokens": one("hist_", "nnz", "tokens = tokens + 1"),
    "smallest non-zeros = histogram's": f"UPDATE layer_ SET min_nnz = 0 WHERE {L}",
    "largest non-zeros = histogram's": f"UPDATE layer_ SET max_nnz = 1 WHERE {L}",
    "blocks' non-zeros = layer's": one("block_", "block", "sum_nnz = sum_nnz + 2"),
    "blocks' tokens = layer's": one("block_", "block", "tokens = tokens + 2"),
    "counted classes' non-zeros = layer's":
        one("class_", "class", "sum_nnz = sum_nnz + 1", L + " AND skipped = 0"),
    "counted classes' tokens = layer's":
        one("class_", "class", "tokens = tokens + 1", L + " AND skipped = 0"),
    "counted classes' largest = layer's": f"UPDATE class_ SET max_nnz = 0 WHERE {L}",
    "positions' non-zeros = layer's": one("layer_position_", "position", "sum_nnz = 0"),
    "positions' tokens = layer's": one("layer_position_", "position", "tokens = 0"),
    "positions' smallest = layer's": f"UPDATE layer_position_ SET min_nnz = 0 WHERE {L}",
    "positions' largest = layer's": f"UPDATE layer_position_ SET max_nnz = 999 WHERE {L}",
    "token types' non-zeros = layer's": one("layer_token_", "token_id", "sum_nnz = 0"),
    "token types' counts = layer's tokens": one("layer_token_", "token_id", "count = 0"),
    "token types' smallest = layer's": f"UPDATE layer_token_ SET min_nnz = 0 WHERE {L}",
    "token types' largest = layer's": f"UPDATE layer_token_ SET max_nnz = 999 WHERE {L}",
    "position_ tokens = each layer's": one("layer_position_", "position", "tokens = 0"),
    "position_ non-zeros = over layers": one("position_", "position", "sum_nnz = 1", R),
    "position_ smallest = over layers": one("position_", "position", "min_nnz = 0", R),
    "position_ largest = over layers": one("position_", "position", "max_nnz = 999", R),
    "position_ largest layer = over layers":
        one("position_", "position", "max_layer_sum = 0", R),
    "position_ has every position": (f"DELETE FROM position_ WHERE {R} AND position = 3", True),
    "positions lie in the context":
        f"UPDATE position_ SET position = 1000 WHERE {R} AND position = 3 AND def_ord = 1",
    "token_ counts = each layer's": one("token_", "token_id", "count = count + 1", R),
    "token_ non-zeros = over layers": one("token_", "token_id", "sum_nnz = 1", R),
    "token_ smallest = over layers": one("token_", "token_id", "min_nnz = 0", R),
    "token_ largest = over layers": one("token_", "token_id", "max_nnz = 999", R),
    "token_ has every token type":
        (f"DELETE FROM token_ WHERE {R} AND token_id = (SELECT max(token_id) FROM "
         f"token_ WHERE {R})", True),
    "a token's sequences and even half fit":
        one("token_", "token_id", "in_sequences = 9999", R),
    "even tokens = even blocks' tokens": one("token_", "token_id", "count_even = -1", R),
    "even non-zeros = even blocks'": one("token_", "token_id", "sum_even = -1", R),
    "a neuron fires in at most its tokens": neuron("fired = tokens + 1"),
    "a neuron's tokens = the layer's": neuron("tokens = tokens + 1"),
    "first and last firing: there if it fired": neuron("last_document = NULL"),
    "first firing is not after the last": (neuron("first_document = last_document + 1"), True),
    "firings lie in known documents": neuron("first_row = 987654"),
    "first_fired = the corpus clock": neuron("first_fired = first_fired + 1"),
    "last_fired = the corpus clock": neuron("last_fired = last_fired + 1"),
    "firings fit between first and last": neuron("last_fired = first_fired"),
    "tiles = tokens x tiles a row":
        f"UPDATE tile_ SET tiles = tiles + 1 WHERE {R} AND layer = 1 AND tile_width = 64",
    "tile mass is the same in every width":
        f"UPDATE tile_ SET nnz = nnz + 1000 WHERE {R} AND layer = 3 AND tile_width = 128",
    "tile mass = the pattern's non-zeros":
        f"UPDATE tile_ SET nnz = nnz + 1000 WHERE {R} AND layer = 3 AND tile_width = 256",
    "no tile holds more than its width":
        f"UPDATE tile_ SET nnz = nnz + 1000 WHERE {R} AND layer = 3 AND tile_width = 256",
    "routes count every row":
        f"UPDATE route_ SET tokens = tokens + 1 WHERE {R} AND layer = 4",
    "routed rows fit": f"UPDATE route_ SET dense_rows = -1 WHERE {R} AND layer = 5",
    "overflow_rows = those of the layers":
        "UPDATE run_ SET overflow_rows = 987654 WHERE run = 'r'",
    "magnitudes = hidden's non-zeros":
        one("magnitude_", "log2_bin", "count = count + 1", R + " AND layer = 2"),
    "|h| of a neuron fits its firings":
        f"UPDATE neuron_ SET sum_abs = -1 WHERE {R} AND def_ord = 0 AND layer = 2",
    "|h| is the primary's alone": neuron("sum_abs = 0"),
    "blocks' losses = the run's": one("block_", "block", "sum_nll = 0"),
    "blocks' predicted rows = the run's": one("block_", "block", "predicted = 0"),
    "predicted = rows that have a next one": "UPDATE run_ SET predicted = 1 WHERE run = 'r'",
    "mean_nll = its sum / predicted": "UPDATE run_ SET mean_nll = 1.5 WHERE run = 'r'",
    "mean_nnz = non-zeros / tokens": f"UPDATE layer_ SET mean_nnz = 1.5 WHERE {L}",
    "dead = neurons that never fired": f"UPDATE layer_ SET dead = 384 WHERE {L}",
    "fired_once = neurons that fired once": f"UPDATE layer_ SET fired_once = -1 WHERE {L}",
    "always_on = neurons that always fired": f"UPDATE layer_ SET always_on = -1 WHERE {L}",
    "rate_ counts the neurons by rate": one("rate_", "halvings", "neurons = neurons + 1"),
    "dead_curve = from first_fired": one("dead_curve_", "tokens_seen", "dead = -1"),
    "dead_curve has its points": f"DELETE FROM dead_curve_ WHERE {L} AND tokens_seen = 8",
    "ledger blocks hold every row": one("ledger_block_", "block_id", "rows = rows + 1", R),
    "ledger blocks hold every sequence":
        (one("ledger_block_", "block_id", "sequences = sequences + 1", R), True),
    "ledger blocks are numbered": one("ledger_block_", "block_id", "before = 77", R),
    "ledger blocks have their columns":
        "DELETE FROM ledger_ WHERE kind = 5 AND layer = 1 AND block_id = 1",
    "examples: each firing, at most K":
        f"UPDATE neuron_ SET fired = 1 WHERE {R} AND def_ord = 0 AND layer = 4 AND neuron = "
        f"(SELECT min(neuron) FROM neuron_ WHERE {R} AND def_ord = 0 AND layer = 4 AND fired > 2)",
    "examples: the first is max_abs":
        f"UPDATE neuron_ SET max_abs = 77 WHERE {R} AND def_ord = 0 AND layer = 4",
    "times: the least is not above the median": "UPDATE bench_ SET ns_min = ns_median + 1",
    "training: layers belong to a step": "UPDATE training_layer_ SET step = -4 WHERE layer = 1",
    "training: alive is a fraction": "UPDATE training_step_ SET alive = 1.5",
    "se_nnz = jackknife over blocks": f"UPDATE layer_ SET se_nnz = 1.5 WHERE {L}",
    "std_nnz = the histogram's": f"UPDATE layer_ SET std_nnz = NULL WHERE {L}",
    "p50_nnz = the histogram's": f"UPDATE layer_ SET p50_nnz = 0.5 WHERE {L}",
    "p90_nnz = the histogram's": f"UPDATE layer_ SET p90_nnz = 0.5 WHERE {L}",
    "p99_nnz = the histogram's": f"UPDATE layer_ SET p99_nnz = 0.5 WHERE {L}",
    "p999_nnz = the histogram's": f"UPDATE layer_ SET p999_nnz = 0.5 WHERE {L}",
    "se_nll = jackknife over blocks": "UPDATE run_ SET se_nll = 0 WHERE run = 'r'",
    "perplexity = exp(mean_nll)": "UPDATE run_ SET perplexity = 0 WHERE run = 'r'",
    "every BLOB of the ledger decodes":
        ("UPDATE ledger_ SET data = substr(data, 1, length(data) - 3) WHERE kind = 7"
         " AND layer = 5 AND block_id = 2", True),
    "document_ = the ledger's": (one("document_", "document", "rows = rows + 1", R), True),
    "layer_ = the ledger's": (f"UPDATE layer_ SET sum_nnz = sum_nnz + 1 WHERE {L}", False),
    "hist_ = the ledger's": one("hist_", "nnz", "tokens = tokens + 1"),
    "block_ = the ledger's": one("block_", "block", "sum_nnz = sum_nnz + 2"),
    "block_'s losses = the ledger's":
        one("block_", "block", "sum_nll = sum_nll + 1", f"{R} AND def_ord = 0 AND layer = 1"),
    "class_ = the ledger's": one("class_", "class", "sum_nnz = sum_nnz + 1"),
    "layer_position_ = the ledger's": one("layer_position_", "position", "min_nnz = 0"),
    "position_ = the ledger's": one("position_", "position", "max_nnz = 999", R),
    "layer_token_ = the ledger's": one("layer_token_", "token_id", "sum_nnz = 0"),
    "token_ = the ledger's": one("token_", "token_id", "sum_even = -1", R),
    "neuron_ = the ledger's firings":
        f"UPDATE neuron_ SET last_row = last_row + 1 WHERE {R} AND def_ord = 0 AND layer = 1"
        " AND fired > 0 AND neuron < 9",
    "l1 = the ledger's, as rounded":
        f"UPDATE layer_ SET sum_l1 = sum_l1 * 1.1 WHERE {R} AND def_ord = 0 AND layer = 1",
    "tables and views are published ones":
        ("DROP VIEW layer_stats; CREATE VIEW layer_stats AS SELECT 1 AS run", True),
    "every row belongs to a run":
        "INSERT INTO training_dead_ VALUES (77, 1, 1, 1, 1)",
    "a run's tokenizer is known": ("DELETE FROM tokenizer_", True),
    "SQLite's integrity check": (b"freelist", True),
}


def findings(path):
    p = subprocess.run([tw, "fsck", "--db", path, "-o", "csv"], capture_output=True, text=True)
    return p.returncode, list(csv.DictReader(io.StringIO(p.stdout))), p.stderr


def spoil(path, changes):
    shutil.copy(clean, path)
    if changes == [b"freelist"]: # the header's count of free pages
        with open(path, "r+b") as f:
            f.seek(36)
            f.write(bytes([0, 0, 0, 5]))
        return
    db = sqlite3.connect(path)
    before = db.total_changes
    for sql in changes:
        if sql.startswith("DROP"):
            db.executescript(sql)
            continue
        db.execute(sql)
        if db.total_changes == before:
            print("not ok changes nothing:", sql)
        before = db.total_changes
    db.commit()
    db.close()


code, rows, words = findings(clean)
bad = [r for r in rows if r["result"] == "violated"]
print("ok" if code == 0 and not bad else "not ok", "a clean database", bad[:1], words if bad else "")
names = {r["check"] for r in rows if r["result"] == "ok"}
for name in sorted(names - set(spoils)):
    print("not ok no spoilt database for:", name)
print("not ok" if set(spoils) - names else "ok", "the clean one is asked everything",
      sorted(set(spoils) - names))
alone, groups, group = [], [], []
for name, change in spoils.items():
    change, is_alone = change if isinstance(change, tuple) else (change, False)
    if is_alone:
        alone.append([(name, change)])
    else:
        group.append((name, change))
        if len(group) == 8:
            groups.append(group)
            group = []
for group in alone + groups + [group]:
    spoil("spoilt.sqlite", [change for _, change in group])
    code, rows, words = findings("spoilt.sqlite")
    found = {r["check"]: r for r in rows if r["result"] == "violated"}
    for name, change in group:
        is_found = code == 1 and name in found and found[name]["cell"]
        print("ok" if is_found else "not ok", "found:", name)
        if not is_found:
            print("   ", code, change, words.strip()[:200])
