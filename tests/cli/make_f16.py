"""make_f16.py CHECKPOINT OUT: the same checkpoint (one safetensors file in
bfloat16 or float32) in float16; its other files as they are."""
import json
import os
import shutil
import struct
import sys

source, out = sys.argv[1:]
shutil.copytree(source, out)
path = os.path.join(out, "model.safetensors")
with open(path, "rb") as file:
    size, = struct.unpack("<Q", file.read(8))
    header, data = json.loads(file.read(size)), file.read()

parts, at = [], 0
for name, tensor in header.items():
    if name == "__metadata__":
        continue
    begin, end = tensor["data_offsets"]
    stored = data[begin:end]
    if tensor["dtype"] == "BF16":
        pairs = struct.unpack("<%dH" % (len(stored) // 2), stored)
        stored = struct.pack("<%dI" % len(pairs), *(p << 16 for p in pairs))
    values = struct.unpack("<%df" % (len(stored) // 4), stored)
    parts.append(struct.pack("<%de" % len(values), *values))
    tensor["dtype"] = "F16"
    tensor["data_offsets"] = [at, at + len(parts[-1])]
    at += len(parts[-1])
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)  # what follows is aligned
os.chmod(path, 0o644)
with open(path, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
