"""make_formats.py SPARSELM OPT OUT: the same checkpoints in other formats,
written by Python's own library alone.

    OUT/bin     SPARSELM as pytorch_model.bin
    OUT/odd     the same, its tensors at odd places of the file
    OUT/tiny.gguf, OUT/assumed.gguf   SPARSELM as llama.cpp would write it, in
                float32, with and without its activation's name
    OUT/opt     the golden OPT with vocab.json and merges.txt, as Meta ships it
"""
import collections
import json
import os
import pickle
import shutil
import struct
import sys
import types
import zipfile

TYPES = {"F32": ("FloatStorage", 4), "BF16": ("BFloat16Storage", 2),
         "F16": ("HalfStorage", 2)}


class Storage:
    def __init__(self, kind, key, count):
        self.id = ("storage", kind, key, "cpu", count)


class Tensor:
    def __init__(self, storage, shape):
        self.storage, self.shape = storage, tuple(shape)

    def __reduce__(self):
        stride, strides = 1, []
        for size in reversed(self.shape):
            strides.insert(0, stride)
            stride *= size
        utils = sys.modules["torch._utils"]
        return utils._rebuild_tensor_v2, (
            self.storage, 0, self.shape, tuple(strides), False,
            collections.OrderedDict())


class Pickler(pickle._Pickler):
    def persistent_id(self, value):
        return value.id if isinstance(value, Storage) else None


def fake_torch():
    """Names that pickle looks up; nothing here is ever called."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    sys.modules.update({"torch": torch, "torch._utils": utils})

    def _rebuild_tensor_v2():
        raise AssertionError

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    for name, _ in TYPES.values():
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    return torch


def write_bin(path, tensors, alignment, shift):
    torch, state = fake_torch(), collections.OrderedDict()
    for key, (name, (kind, shape, data)) in enumerate(tensors.items()):
        storage, size = TYPES[kind]
        state[name] = Tensor(Storage(getattr(torch, storage), str(key),
                                     len(data) // size), shape)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        def add(name, data):
            info = zipfile.ZipInfo("pytorch_model/" + name)
            at = archive.fp.tell() + 30 + len(info.filename) + 4
            fill = (-at) % alignment + shift
            info.extra = struct.pack("<HH", 0x4246, fill) + b"Z" * fill
            archive.writestr(info, data)
        stream = __import__("io").BytesIO()
        Pickler(stream, 2).dump(state)
        add("data.pkl", stream.getvalue())
        add("byteorder", b"little")
        for key, (_, _, data) in enumerate(tensors.values()):
            add(f"data/{key}", data)
        add("version", b"3\n")


def read_safetensors(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])])
            for name, t in sorted(header.items())}


def golden(path):
    """The weights of a golden case: make_goldens.py tells the rule."""
    mask, tensors = (1 << 64) - 1, {}
    with open(path) as file:
        listed = json.load(file)
    for t in listed:
        seed, count, values = 0xcbf29ce484222325, 1, []
        for byte in t.get("from", t["name"]).encode():
            seed = (seed ^ byte) * 0x100000001b3 & mask
        for size in t["shape"]:
            count *= size
        for i in range(count):
            z = seed + i + 0x9e3779b97f4a7c15 & mask
            z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & mask
            z = (z ^ z >> 27) * 0x94d049bb133111eb & mask
            k = (z ^ z >> 31) >> 40
            values.append((t["offset"] + t["scale"] * ((k - 2 ** 23) / 2 ** 23))
                          / 1024)
        assert t["dtype"] == "F32"
        tensors[t["name"]] = ("F32", t["shape"],
                              struct.pack(f"<{count}f", *values))
    return tensors


def floats(kind, data):
    """As float32 bytes."""
    if kind == "F32":
        return data
    assert kind == "BF16"
    return b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))


NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm",
         "lm_head": "output"}


def gguf_name(name):
    stem = name.removesuffix(".weight")
    if stem in WHOLE:
        return WHOLE[stem] + ".weight"
    layer, rest = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{NAMES[rest]}.weight"


def neighbours(data, rows, heads):
    """llama.cpp's order of the rows of q and k."""
    size, dim = len(data) // rows, rows // heads
    out = []
    for head in range(heads):
        for j in range(dim // 2):
            for half in range(2):
                row = head * dim + half * dim // 2 + j
                out.append(data[row * size:(row + 1) * size])
    return b"".join(out)


def text(value):
    value = value.encode()
    return struct.pack("<Q", len(value)) + value


def value(key, item):
    """Integers are u32, numbers f32."""
    if isinstance(item, bool):
        body = struct.pack("<IB", 7, item)
    elif isinstance(item, int):
        body = struct.pack("<II", 4, item)
    elif isinstance(item, float):
        body = struct.pack("<If", 6, item)
    elif isinstance(item, str):
        body = struct.pack("<I", 8) + text(item)
    elif isinstance(item[0], str):
        body = struct.pack("<IIQ", 9, 8, len(item)) + b"".join(map(text, item))
    else:
        body = struct.pack(f"<IIQ{len(item)}i", 9, 5, len(item), *item)
    return text(key) + body


def vocabulary(path):
    with open(path) as file:
        tokenizer = json.load(file)
    pieces = {i: p for p, i in tokenizer["model"]["vocab"].items()}
    special = {t["id"] for t in tokenizer["added_tokens"]}
    pieces.update({t["id"]: t["content"] for t in tokenizer["added_tokens"]})
    merges = [m if isinstance(m, str) else " ".join(m)
              for m in tokenizer["model"]["merges"]]
    return {"model": "gpt2", "pre": "smollm", "merges": merges,
            "tokens": [pieces[i] for i in range(len(pieces))],
            "token_type": [3 if i in special else 1 for i in range(len(pieces))],
            "add_bos_token": False}


def write_gguf(path, config, tensors, vocab, activation):
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    keys = {"general.architecture": "llama",
            "llama.block_count": config["num_hidden_layers"],
            "llama.context_length": config["max_position_embeddings"],
            "llama.embedding_length": config["hidden_size"],
            "llama.feed_forward_length": config["intermediate_size"],
            "llama.attention.head_count": heads,
            "llama.attention.head_count_kv": kv,
            "llama.attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
            "llama.rope.freq_base": float(
                config["rope_parameters"]["rope_theta"])}
    if activation:
        keys["llama.hidden_activation"] = activation
    keys.update({"tokenizer.ggml." + k: v for k, v in vocab.items()})
    infos, data = b"", b""
    for name, (kind, shape, stored) in tensors.items():
        body = floats(kind, stored)
        for part, count in (("q_proj", heads), ("k_proj", kv)):
            if part in name:
                body = neighbours(body, shape[0], count)
        infos += text(gguf_name(name)) + struct.pack(
            f"<I{len(shape)}QIQ", len(shape), *reversed(shape), 0, len(data))
        data += body + b"\0" * (-len(body) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(value(k, v) for k, v in keys.items()) + infos
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % 32) + data)


def main():
    sparse, opt, out = sys.argv[1:4]
    tensors = read_safetensors(os.path.join(sparse, "model.safetensors"))
    for name, alignment, shift in (("bin", 64, 0), ("odd", 64, 1)):
        folder = os.path.join(out, name)
        os.makedirs(folder)
        for file in ("config.json", "tokenizer.json"):
            shutil.copy(os.path.join(sparse, file), folder)
        write_bin(os.path.join(folder, "pytorch_model.bin"), tensors, alignment,
                  shift)
    with open(os.path.join(sparse, "config.json")) as file:
        config = json.load(file)
    vocab = vocabulary(os.path.join(sparse, "tokenizer.json"))
    for name, activation in (("tiny", "relu"), ("assumed", None)):
        write_gguf(os.path.join(out, name + ".gguf"), config, tensors, vocab,
                   activation)
    folder = os.path.join(out, "opt")
    os.makedirs(folder)
    shutil.copy(os.path.join(opt, "config.json"), folder)
    write_bin(os.path.join(folder, "pytorch_model.bin"),
              golden(os.path.join(opt, "tensors.json")), 64, 0)
    pieces = [chr(c) for c in range(33, 127)] + ["\u0120", "\u010a", "\u0120t"]
    with open(os.path.join(folder, "vocab.json"), "w") as file:
        json.dump({p: i for i, p in enumerate(pieces)}, file)
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n\u0120 t\n")


main()
