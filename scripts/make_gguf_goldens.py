#!/usr/bin/env python3
"""make_gguf_goldens.py LLAMA_CPP OUT [CASE ...]: what llama.cpp's own
converter makes of the cases of make_goldens.py (needs torch, transformers,
gguf and a checkout of llama.cpp).

    scripts/make_gguf_goldens.py ~/llama.cpp tests/data/gguf

Of each GGUF file only the part before the weights is kept (CASE.head), with a
list of where they came from (CASE.rows), found by comparing numbers: the
file's size, then a line for each tensor

    OFFSET NAME HF-NAME same
    OFFSET NAME HF-NAME plus                 1 was added
    OFFSET NAME HF-NAME turned               transposed
    OFFSET NAME HF-NAME rows 0 4 1 5 ...     row i is row [i] of HF-NAME
    OFFSET NAME - values 1 1.5 ...           made by the converter

all float32. tests/test_gguf_goldens.c puts the weights of tests/data/goldens
back in, and compares with that case's answers."""
import contextlib
import importlib
import json
import os
import pkgutil
import runpy
import shutil
import sys
import tempfile

import numpy as np

CASES = ["llama_bias", "llama_head_dim", "llama_linear", "llama_llama3",
         "llama_yarn", "mistral_full", "minicpm", "qwen2", "qwen3_bias",
         "gemma", "gemma2", "gemma3_deep", "phi3", "phi3_longrope",
         "olmo2", "stablelm_bias", "granite", "cohere_norm", "gpt2_relu",
         "gpt_neox_serial", "phi", "falcon_7b", "falcon_40b", "falcon_11b",
         "bloom", "nemotron"]


ACTIVATIONS = ["hidden_activation", "hidden_act", "activation_function",
               "activation"]


def old_fields(config):
    """What the converter looks for and newer transformers leave out."""
    kind = config.get("model_type")
    rope = config.get("rope_parameters") or {}
    if kind == "gpt2":
        config.setdefault("n_ctx", config["n_positions"])
    if kind == "gpt_neox":
        config.setdefault("rotary_pct", rope.get("partial_rotary_factor", 0.25))
    if kind == "falcon" and config.get("multi_query") and \
            not config.get("new_decoder_architecture"):
        config["num_kv_heads"] = 1
    if kind == "bloom":
        config.setdefault("seq_length", 64)
    if kind == "minicpm":
        config["architectures"] = ["MiniCPMForCausalLM"]
    return config


def patch_converter(path):
    """No tokenizer beside the tiny models: no vocabulary in the file, but the
    activation's name, which the converter leaves out."""
    sys.path[:0] = [path, os.path.join(path, "gguf-py")]
    package = importlib.import_module("conversion")
    for module in pkgutil.iter_modules(package.__path__):
        with contextlib.suppress(Exception):
            importlib.import_module("conversion." + module.name)
    base = importlib.import_module("conversion.base")

    def name_activation(self):
        names = [self.hparams.get(field) for field in ACTIVATIONS]
        name = next((n for n in names if n), None)
        if name:
            self.gguf_writer.add_string(
                self.gguf_writer.arch + ".hidden_activation", name)

    def patch(kind):
        kind.set_vocab = name_activation
        for below in kind.__subclasses__():
            patch(below)

    patch(base.TextModel)
    load = base.ModelBase.load_hparams
    base.ModelBase.load_hparams = staticmethod(
        lambda *a, **k: old_fields(load(*a, **k)))


def convert(path, folder, out):
    sys.argv = ["convert", folder, "--outfile", out, "--outtype", "f32"]
    runpy.run_path(os.path.join(path, "convert_hf_to_gguf.py"),
                   run_name="__main__")


def origin(data, weights):
    """How a stored tensor follows from one of the weights."""
    for name, weight in weights.items():
        if weight.size != data.size:
            continue
        flat = weight.reshape(data.shape) if weight.ndim != data.ndim else weight
        if flat.shape == data.shape and np.array_equal(flat, data):
            return f"{name} same"
        if flat.ndim == 1 and np.array_equal(flat + np.float32(1), data):
            return f"{name} plus"
        if flat.ndim == 2 and flat.T.shape == data.shape and \
                np.array_equal(flat.T, data):
            return f"{name} turned"
        rows = {r.tobytes(): i for i, r in enumerate(flat)}
        if flat.shape == data.shape and len(rows) == len(flat) and \
                all(r.tobytes() in rows for r in data):
            return f"{name} rows " + " ".join(str(rows[r.tobytes()]) for r in data)
    return "- values " + " ".join(repr(float(v)) for v in data.reshape(-1))


def read_weights(folder):
    from safetensors.torch import load_file
    weights = {}
    for file in sorted(os.listdir(folder)):
        if file.endswith(".safetensors") and file != "oracle.safetensors":
            weights.update({k: v.float().numpy() for k, v in
                            load_file(os.path.join(folder, file)).items()})
    return weights


def write_case(out, name, path, weights):
    import gguf
    reader = gguf.GGUFReader(path)
    start = min(int(t.data_offset) for t in reader.tensors)
    with open(path, "rb") as file:
        head = file.read(start)
    lines = [str(os.path.getsize(path))]
    for t in sorted(reader.tensors, key=lambda t: t.data_offset):
        assert t.tensor_type == gguf.GGMLQuantizationType.F32, t.name
        data = np.array(t.data).reshape([int(n) for n in t.shape][::-1])
        lines.append(f"{int(t.data_offset)} {t.name} {origin(data, weights)}")
    with open(os.path.join(out, name + ".head"), "wb") as file:
        file.write(head)
    with open(os.path.join(out, name + ".rows"), "w") as file:
        file.write("\n".join(lines) + "\n")


def main():
    converter, out = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    names = sys.argv[3:] or CASES
    import make_goldens
    from golden_cases import CASES as ALL
    patch_converter(converter)
    os.makedirs(out, exist_ok=True)
    for case in (c for c in ALL if c.name in names):
        with tempfile.TemporaryDirectory() as work:
            make_goldens.make(work, case, make_goldens.fnv1a(case.name) >> 1, True)
            folder = os.path.join(work, case.name)
            weights = read_weights(folder)
            os.remove(os.path.join(folder, "oracle.safetensors"))
            config = os.path.join(folder, "config.json")
            with open(config) as file:
                fields = old_fields(json.load(file))
            with open(config, "w") as file:
                json.dump(fields, file)
            # Gemma 3 drops rows that the tokenizer has no tokens for.
            with open(os.path.join(folder, "tokenizer.json"), "w") as file:
                json.dump({"model": {"vocab": list(range(fields["vocab_size"]))},
                           "added_tokens": []}, file)
            path = os.path.join(work, "x.gguf")
            convert(converter, folder, path)
            write_case(out, case.name, path, weights)
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
