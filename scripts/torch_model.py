#!/usr/bin/env python3
"""A checkpoint's backbone in PyTorch and Hugging Face transformers, on one GPU:

    scripts/torch_model.py MODEL [--rows 32] [--ctx 2048] [--forms LIST]
                           [-r 12] [--seconds 3] [--device cuda|cpu]

    eager    as it is loaded: scaled-dot-product attention, bfloat16
    hooks    the same with forward hooks that count what twellscope counts: each
             token's non-zeros and sum of |h|, each neuron's firings, on the host
             after each pass
    compile  torch.compile of the backbone
    head     the head's product alone, without a loss

Uniformly random ids, nothing cached, no gradients. Prints a line "NAME
TOKENS_PER_MS MJ_PER_TOKEN PEAK_GB" for each: the median pass; energy by NVML's
total-energy counter over so many seconds ("-": none); the allocator's peak."""
import argparse
import statistics
import time

import torch
from transformers import AutoModelForCausalLM


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("model")
    p.add_argument("--rows", type=int, default=32)
    p.add_argument("--ctx", type=int, default=2048)
    p.add_argument("--forms", default="eager,hooks,compile,head")
    p.add_argument("-r", type=int, default=12)
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--device", default="cuda")
    return p.parse_args()


class Meter:
    """Millijoules so far, None where nothing counts them."""

    def __init__(self, device):
        self.handle = None
        if device == "cuda":
            try:
                import pynvml
                pynvml.nvmlInit()
                self.nvml = pynvml
                self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)
            except Exception as problem:  # no module, no driver: time alone
                print(f"# energy: {problem}")

    def read(self):
        return self.handle and self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def passes(run, device, at_least, seconds):
    """Seconds of each pass."""
    taken, begin = [], time.monotonic()
    while len(taken) < at_least or time.monotonic() - begin < seconds:
        start = time.monotonic()
        run()
        wait(device)
        taken.append(time.monotonic() - start)
    return taken


def measure(name, run, tokens, o, meter):
    passes(run, o.device, 3, 0)
    if o.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    before = meter.read()
    taken = passes(run, o.device, o.r, o.seconds)
    after = meter.read()
    energy = "-" if before is None else f"{(after - before) / len(taken) / tokens:.4f}"
    peak = torch.cuda.max_memory_allocated() / 1e9 if o.device == "cuda" else 0
    print(f"{name} {tokens / statistics.median(taken) / 1e3:.3f} {energy} {peak:.3f}", flush=True)


def counting(core):
    """Hooks on every down projection's input; a function that reads them."""
    found = {}

    def hook(layer):
        def see(module, inputs):
            h = inputs[0]
            on = h != 0
            found[layer] = (on.sum(-1, dtype=torch.int32), on.sum((0, 1), dtype=torch.int64),
                            h.abs().sum(-1, dtype=torch.float32))
        return see
    handles = [block.mlp.down_proj.register_forward_pre_hook(hook(i))
               for i, block in enumerate(core.layers)]
    return handles, lambda: [t.cpu() for parts in found.values() for t in parts]


def main():
    o = options()
    torch.manual_seed(0)
    whole = AutoModelForCausalLM.from_pretrained(o.model, dtype=torch.bfloat16,
                                                 attn_implementation="sdpa")
    whole = whole.to(o.device).eval()
    core, meter = whole.model, Meter(o.device)
    ids = torch.randint(0, whole.config.vocab_size, (o.rows, o.ctx), device=o.device)
    tokens = ids.numel()

    def plain():
        core(input_ids=ids, use_cache=False)
    with torch.inference_mode():
        for form in o.forms.split(","):
            if form == "eager":
                measure(form, plain, tokens, o, meter)
            elif form == "hooks":
                handles, read = counting(core)
                measure(form, lambda: (plain(), read()), tokens, o, meter)
                nnz = sum(float(t.float().mean()) for t in read()[::3]) / len(core.layers)
                print(f"# non-zeros {nnz:.2f}")
                for handle in handles:
                    handle.remove()
            elif form == "compile":
                compiled = torch.compile(core)
                measure(form, lambda: compiled(input_ids=ids, use_cache=False), tokens, o, meter)
            else:
                x = torch.randn(o.ctx, whole.config.hidden_size, device=o.device,
                                dtype=torch.bfloat16)
                measure(form, lambda: [x @ whole.lm_head.weight.t() for _ in range(o.rows)],
                        tokens, o, meter)


main()
