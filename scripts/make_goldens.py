#!/usr/bin/env python3
"""make_goldens.py OUT [CASE ...]: tiny checkpoints of every family with answers
from Hugging Face transformers (needs torch, transformers, safetensors).

    scripts/make_goldens.py tests/data/goldens         # what the project ships
    scripts/make_goldens.py --weights FOLDER opt_post  # with the weights

A case is a folder of config.json, tensors.json and oracle.safetensors (the form
of doc/FORMAT.md, and `near`: [layers][rows], the values that lie so close to
their boundary that rounding decides whether they are zero). Weights are not
shipped: tensors.json lists every tensor's name, type, shape, file, scale and
offset, and element i of a tensor (row-major) is

    k = splitmix64(fnv1a(from) + i) >> 40                    24 bits
    (offset + scale * (k - 2^23) / 2^23) / 1024              exact in a double

rounded to nearest even, to float32 and then to the stored type (BOOL: not 0).
`from` is the name that transformers uses, and is left out where it is `name`.
fnv1a is the 64-bit hash of its bytes, splitmix64 the mixer with its increment
added first; both, and the sum, modulo 2^64. tests/golden_make.c is the other
half.

The answers are computed in float32 from the rounded weights by a fresh load with
eager attention, unless the case says otherwise. Cases stand in golden_cases.py,
and families that transformers does not have in golden_patches.py."""
import argparse
import json
import os
import shutil
import tempfile

import numpy
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from golden_cases import CASES

SEQUENCES, NEAR = 2, 1e-5
TYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16",
         torch.bool: "BOOL"}
MASK = (1 << 64) - 1
DOWN = ("down_proj", "fc2", "dense_4h_to_h", "fc_out", "mlp.c_proj")
GATE = ("gate_proj", "gate_up_proj")
UP = ("up_proj", "fc1", "dense_h_to_4h", "c_fc", "fc_in")


def fnv1a(name):
    value = 0xcbf29ce484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001b3 & MASK
    return value


def elements(name, shape, scale, offset):
    """The tensor's values in float32."""
    count = int(numpy.prod(shape))
    with numpy.errstate(over="ignore"):
        z = numpy.uint64(fnv1a(name)) + numpy.arange(count, dtype=numpy.uint64)
        z = z + numpy.uint64(0x9e3779b97f4a7c15)
        z = (z ^ z >> numpy.uint64(30)) * numpy.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ z >> numpy.uint64(27)) * numpy.uint64(0x94d049bb133111eb)
        z = z ^ z >> numpy.uint64(31)
    k = (z >> numpy.uint64(40)).astype(numpy.float64)
    value = (offset + scale * ((k - 2.0 ** 23) / 2.0 ** 23)) / 1024
    return torch.from_numpy(value.astype(numpy.float32)).reshape(shape)


def spread(name, tensor):
    """(scale, offset) in 1/1024: norms stay near what they start from, matrices
    keep the size of what they multiply."""
    if tensor.numel() and bool((tensor == 1).all()):
        return 256, 1024
    if tensor.dim() < 2:
        return 307, 0
    if any(part in name for part in ("embed", "wte", "wpe", "word_emb")):
        return 716, 0
    is_transposed = name.split(".")[-2] in ("c_attn", "c_proj", "c_fc")
    fan_in = tensor.shape[0 if is_transposed else 1]
    return round(1024 * 2.2 / fan_in ** 0.5), 0


def describe(folder, case):
    """A first save by transformers decides names, types and files. Returns the
    list for tensors.json, with `from` in all."""
    config = AutoConfig.for_model(case.model_type, **case.config)
    model = AutoModelForCausalLM.from_config(config)
    if case.reshape:
        case.reshape(model)
    model.to(getattr(torch, case.dtype)).save_pretrained(folder, max_shard_size=case.shard)
    edit(folder, case.json)
    tensors = []
    for file in sorted(f for f in os.listdir(folder) if f.endswith(".safetensors")):
        for name, first in load_file(os.path.join(folder, file)).items():
            scale, offset = spread(name, first.float())
            tensors.append(dict(name=case.rename(name) if case.rename else name,
                                dtype=TYPES[first.dtype], shape=list(first.shape), file=file,
                                scale=scale, offset=offset, **{"from": name}))
    for name, (kind, shape) in case.add.items():
        tensors.append(dict(name=name, dtype=kind, shape=shape, file=file, scale=1024, offset=0,
                            **{"from": name}))
    return tensors


def write_weights(folder, tensors, key):
    """The files and, of several, the index, with tensors called as `key` says."""
    files = {t["file"] for t in tensors}
    if len(files) > 1:
        with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
            json.dump(dict(metadata={}, weight_map={t[key]: t["file"] for t in tensors}), file)
    for file in files:
        data = {t[key]: elements(t["from"], t["shape"], t["scale"], t["offset"]).to(
            next(k for k, v in TYPES.items() if v == t["dtype"]))
            for t in tensors if t["file"] == file}
        save_file(data, os.path.join(folder, file), metadata={"format": "pt"})


def edit(folder, fields):
    """Sets, or with None deletes, fields of config.json."""
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    if callable(fields):
        config = fields(config)
    else:
        config = {k: v for k, v in {**config, **fields}.items()
                  if fields.get(k, "") is not None}
    with open(path, "w") as file:
        json.dump(config, file, indent=1)


def near_boundary(act, z):
    """How many of z [rows, F] rounding may put on either side of zero."""
    if act.startswith("relu"):
        return (z.abs() <= NEAR * z.abs().amax(1, keepdim=True)).sum(1)
    if act.startswith("fatrelu:"):
        bound = float(act.split(":")[1])
        return ((z - bound).abs() <= NEAR * z.abs().amax(1, keepdim=True)).sum(1)
    if "gelu" in act and act != "quick_gelu":  # 1 + erf and 1 + tanh vanish
        return (z < -4.5).sum(1)
    return torch.zeros(z.shape[0], dtype=torch.long)


def record(model, act):
    """Hooks that collect h and near counts, in the order of the layers."""
    h, near, is_gated = [], [], any(n.endswith(GATE) for n, _ in model.named_modules())

    def keep_h(module, args):
        h.append(args[0].detach().flatten(0, -2))

    def keep_near(module, args, out):
        z = out.detach().flatten(0, -2)
        fused = any(module is m for n, m in model.named_modules() if n.endswith("gate_up_proj"))
        near.append(near_boundary(act.removeprefix("both:"), z.chunk(2, 1)[0] if fused else z))

    for name, module in model.named_modules():
        if name.endswith(DOWN):
            module.register_forward_pre_hook(keep_h)
        elif name.endswith(GATE if is_gated else UP) or act.startswith("both:") and \
                name.endswith(UP):
            module.register_forward_hook(keep_near)
    return h, near


def answer(folder, case, seed):
    model, report = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation=case.attention, output_loading_info=True)
    missing = [key for key in report["missing_keys"] if not case.reshape or "gate" not in key]
    assert not missing, missing
    assert not report["mismatched_keys"], report["mismatched_keys"]
    model.eval()
    if case.patch:
        case.patch(model, folder)
    config = model.config
    act = case.act or getattr(config, "hidden_act", None) or "gelu_new"
    h, near = record(model, act)
    ids = torch.randint(0, config.vocab_size, (SEQUENCES, case.length),
                        generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits
    nll = torch.nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:],
                                            reduction="none")
    h, near = torch.stack(h), torch.stack(near)
    near = near.reshape(h.shape[0], -1, h.shape[1]).sum(1)
    save_file(dict(input_ids=ids.int(), nll=nll.contiguous(), near=near.int(),
                   logits_last=logits[:, -1].contiguous(), nnz=(h != 0).sum(-1).int(),
                   l1=h.abs().sum(-1), fire=(h != 0).sum(1).int()),
              os.path.join(folder, "oracle.safetensors"))
    return float(nll.mean()), float((h != 0).float().mean()), int(near.sum())


def make(out, case, seed, keep_weights):
    where = os.path.join(out, case.name)
    with tempfile.TemporaryDirectory() as folder:
        tensors = describe(folder, case)
        write_weights(folder, tensors, "from")
        nll, density, near = answer(folder, case, seed)
        edit(folder, case.published)
        write_weights(folder, tensors, "name")
        for t in tensors:
            if t["from"] == t["name"]:
                del t["from"]
        lines = ",\n".join(json.dumps(t, separators=(",", ":")) for t in tensors)
        with open(os.path.join(folder, "tensors.json"), "w") as file:
            file.write("[\n" + lines + "\n]\n")
        shutil.rmtree(where, ignore_errors=True)
        os.makedirs(where)
        for name in sorted(os.listdir(folder)):
            if keep_weights or name in ("config.json", "tensors.json", "oracle.safetensors"):
                shutil.copy(os.path.join(folder, name), where)
    size = sum(os.path.getsize(os.path.join(where, f)) for f in os.listdir(where))
    print(f"{case.name:28} nll {nll:7.3f}  active {density:.3f}  near {near:3}  {size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", action="store_true", help="keep the weights")
    parser.add_argument("out")
    parser.add_argument("case", nargs="*", help="names or their beginnings; all")
    args = parser.parse_args()
    for case in CASES:
        if not args.case or case.name.startswith(tuple(args.case)):
            make(args.out, case, fnv1a(case.name) >> 1, args.weights)


if __name__ == "__main__":
    main()
