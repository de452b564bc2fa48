#!/usr/bin/env python3
"""make_corpus.py DOCUMENTS MAX_TOKENS SEED OUT.jsonl [ORDER_SEED]: documents of
1 to about MAX_TOKENS tokens, words drawn by a fixed generator; ORDER_SEED
shuffles their order. No packages."""
import json
import random
import sys

count, longest, seed, out = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
rng = random.Random(seed)
words = ("the of and to in a is that for it was on with as be by at from or an this not are but "
         "sparse neuron layer token count fire dead model weight matrix row tile gate hidden "
         "river stone winter morning garden letter number seven eleven 1984 3.14 don't we've "
         "caf\u00e9 na\u00efve \u65e5\u672c \U0001f642 --- ... \n\n\t").split(" ")
documents = []
for i in range(count):
    # lengths from one word up, every size equally likely
    n = 1 if i % 17 == 0 else rng.randint(1, max(1, int(longest / 1.6)))
    documents.append(" ".join(rng.choice(words) for _ in range(n)))
if len(sys.argv) > 5:
    random.Random(int(sys.argv[5])).shuffle(documents)
with open(out, "w", encoding="utf-8") as f:
    for d in documents:
        f.write(json.dumps({"text": d}, ensure_ascii=False) + "\n")
