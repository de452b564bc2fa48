"""Families that transformers does not have, as published: a Llama whose
config.json, read back from `folder`, says what differs."""
import json
import math
import os
import types

import torch


def read(folder):
    with open(os.path.join(folder, "config.json")) as file:
        return json.load(file)


def activate(model, act):
    for layer in model.model.layers:
        del layer.mlp.act_fn  # a module; act is a function
        layer.mlp.act_fn = act


def fatrelu(model, folder):
    """ProSparse, SparseLlama: x where x > hidden_act_param, else 0."""
    bound = read(folder)["hidden_act_param"]
    activate(model, lambda x: torch.where(x > bound, x, torch.zeros_like(x)))


def minicpm(model, folder):
    """MiniCPM: scaled embeddings, residual branches and logits."""
    config = read(folder)
    branch = config["scale_depth"] / math.sqrt(config["num_hidden_layers"])
    head = config["hidden_size"] / config["dim_model_base"]
    model.model.embed_tokens.register_forward_hook(
        lambda module, args, out: out * config["scale_emb"])
    for layer in model.model.layers:
        layer.self_attn.register_forward_hook(
            lambda module, args, out: (out[0] * branch, *out[1:]))
        layer.mlp.register_forward_hook(lambda module, args, out: out * branch)
    model.lm_head.register_forward_pre_hook(lambda module, args: (args[0] / head,))
    if "hidden_act_param" in config:
        fatrelu(model, folder)


def drelu(model, folder):
    """Bamboo, TurboSparse: relu on the gate and on the up projection."""
    for layer in model.model.layers:
        layer.mlp.forward = types.MethodType(
            lambda mlp, x: mlp.down_proj(torch.relu(mlp.gate_proj(x)) *
                                         torch.relu(mlp.up_proj(x))), layer.mlp)


def drop_gate(model):
    """The sparse models' plain form has no gate projection."""
    for layer in model.model.layers:
        del layer.mlp.gate_proj


def plain(model, folder):
    drop_gate(model)
    for layer in model.model.layers:
        layer.mlp.forward = types.MethodType(
            lambda mlp, x: mlp.down_proj(torch.relu(mlp.up_proj(x))), layer.mlp)


def relu(model, folder):
    """The sparse models' config says silu, their code is ReLU."""
    activate(model, torch.relu)
