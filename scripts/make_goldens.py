#!/usr/bin/env python3
"""make_goldens.py OUT: tiny random Llama checkpoints in many configurations with
answers from Hugging Face transformers (needs torch, transformers, safetensors),
in the oracle form of doc/FORMAT.md. Check each with
    twellscope profile -m OUT/NAME --compare OUT/NAME/oracle.safetensors
The oracle comes from a fresh load in float32. GELU's exact zeros far below 0 are
a matter of the last bit of 1 + erf: its counts may differ, its losses may not."""
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

BASE = dict(vocab_size=512, hidden_size=64, intermediate_size=192, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=128,
            rms_norm_eps=1e-6, hidden_act="relu")
CASES = {
    "gelu": dict(hidden_act="gelu"), "gelu_new": dict(hidden_act="gelu_new"),
    "gelu_tanh": dict(hidden_act="gelu_pytorch_tanh"), "gelu_fast": dict(hidden_act="gelu_fast"),
    "quick_gelu": dict(hidden_act="quick_gelu"), "relu2": dict(hidden_act="relu2"),
    "silu_head_dim": dict(hidden_act="silu", head_dim=32),
    "bias": dict(attention_bias=True, mlp_bias=True),
    "grouped": dict(hidden_size=96, num_attention_heads=6, num_key_value_heads=2, head_dim=16),
    "odd": dict(hidden_size=72, num_attention_heads=3, num_key_value_heads=3,
                intermediate_size=300, vocab_size=517),
    "tied_f16": dict(tie_word_embeddings=True, dtype="float16"),
    "linear": dict(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=10000.0)),
    "llama3": dict(rope_parameters=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                        high_freq_factor=4.0, rope_theta=500000.0,
                                        original_max_position_embeddings=32)),
    "one_layer": dict(num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1,
                      hidden_size=16),
    "sharded_bf16": dict(dtype="bfloat16"),
}
SEQUENCES, LENGTH = 3, 96


def make(folder, seed, dtype="float32", **config):
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**{**BASE, **config}))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 2:
                p.normal_(0, 1.5 / p.shape[1] ** 0.5)
            elif "bias" in name:
                p.normal_(0, 0.3)
            else:
                p.copy_(1 + 0.1 * torch.randn_like(p))
    shard = "60KB" if "sharded" in folder else "5GB"
    model.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size=shard)


def answer(folder):
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                             attn_implementation="eager").eval()
    ids = torch.randint(0, model.config.vocab_size, (SEQUENCES, LENGTH))
    hidden = {}
    for i, layer in enumerate(model.model.layers):
        layer.mlp.down_proj.register_forward_pre_hook(
            lambda module, args, i=i: hidden.__setitem__(i, args[0].detach()))
    with torch.no_grad():
        logits = model(ids).logits
    nll = torch.nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:],
                                            reduction="none")
    h = torch.stack([hidden[i].reshape(SEQUENCES * LENGTH, -1) for i in sorted(hidden)])
    save_file(dict(input_ids=ids.int(), nll=nll.contiguous(),
                   logits_last=logits[:, -1].contiguous(), nnz=(h != 0).sum(-1).int(),
                   l1=h.abs().sum(-1), fire=(h != 0).sum(1).int()),
              os.path.join(folder, "oracle.safetensors"))


for number, (name, config) in enumerate(CASES.items()):
    where = os.path.join(sys.argv[1], name)
    make(where, number + 1, **config)
    answer(where)
    print(where)
