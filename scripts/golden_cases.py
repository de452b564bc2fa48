"""The cases of make_goldens.py: a family's base form, and what each changes.
Tensors and answers are transformers' (or golden_patches.py's)."""
from dataclasses import dataclass, field

import golden_patches as patches


@dataclass
class Case:
    name: str
    model_type: str             # transformers' class
    config: dict
    dtype: str = "float32"      # as stored
    shard: str = "5GB"          # largest file
    json: dict = field(default_factory=dict)       # config.json as read: {field: value}
    published: dict = field(default_factory=dict)  # what only our program reads
    rename: object = None       # name -> name, as older files have it
    add: dict = field(default_factory=dict)        # {name: (type, shape)} nobody uses
    act: str = None             # where hidden_act does not say it
    attention: str = "eager"
    length: int = 40            # of each sequence
    patch: object = None
    reshape: object = None


LLAMA = dict(vocab_size=128, hidden_size=32, intermediate_size=96, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
GPT2 = dict(vocab_size=128, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1,
            eos_token_id=2)
PLAIN = dict(vocab_size=128, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64)
BASE = {
    "llama": LLAMA, "arcee": LLAMA, "mistral": LLAMA, "qwen2": LLAMA, "granite": LLAMA, "olmo2": LLAMA,
    "nemotron": LLAMA, "stablelm": LLAMA, "smollm3": {**LLAMA, "pad_token_id": 0},
    "phi3": {**LLAMA, "pad_token_id": 0}, "qwen3": {**LLAMA, "head_dim": 16},
    "cohere": {**LLAMA, "pad_token_id": 0}, "phi": {**PLAIN, "intermediate_size": 96},
    "gemma": {**LLAMA, "head_dim": 16}, "gemma2": {**LLAMA, "head_dim": 16},
    "gemma3_text": {**LLAMA, "head_dim": 16}, "gpt2": GPT2,
    "gpt_neox": {**PLAIN, "intermediate_size": 96}, "gptj": {**GPT2, "rotary_dim": 4},
    "opt": {**PLAIN, "ffn_dim": 96, "word_embed_proj_dim": 32}, "falcon": PLAIN,
    "persimmon": {**PLAIN, "intermediate_size": 96},
    "bloom": dict(vocab_size=128, hidden_size=32, n_layer=2, n_head=4),
}
CASES = []
HALF, BRAIN = dict(dtype="float16", shard="16KB"), dict(dtype="bfloat16")


def case(name, model_type, options=None, **config):
    CASES.append(Case(name, model_type, {**BASE[model_type], **config}, **(options or {})))


def rope(kind, theta=10000.0, **fields):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=theta, **fields))


# Llama and what is shaped like it
case("llama_silu", "llama")
case("llama_relu_tied", "llama", BRAIN, hidden_act="relu", tie_word_embeddings=True)
case("llama_bias", "llama", hidden_act="relu", attention_bias=True, mlp_bias=True)
case("llama_odd", "llama", HALF, hidden_act="relu", hidden_size=36, num_attention_heads=3,
     num_key_value_heads=1, intermediate_size=75, vocab_size=131)
case("llama_head_dim", "llama", head_dim=24, hidden_act="relu")
case("llama_sharded", "llama", {**BRAIN, "shard": "16KB"}, hidden_act="relu")
case("llama_one", "llama", hidden_act="relu", num_hidden_layers=1, hidden_size=8,
     num_attention_heads=1, num_key_value_heads=1)
for act in ("gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu", "relu2"):
    case("llama_" + act, "llama", hidden_act=act)
case("llama_linear", "llama", **rope("linear", factor=2.0))
case("llama_dynamic", "llama", **rope("dynamic", factor=2.0))
case("llama_llama3", "llama", BRAIN, **rope(
    "llama3", 500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=32))
case("llama_yarn", "llama", **rope("yarn", factor=2.0, original_max_position_embeddings=32))
case("llama_yarn_beta", "llama", **rope(
    "yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=16.0, beta_slow=2.0,
    attention_factor=0.9))
case("llama_old_linear", "llama", dict(json=dict(
    rope_parameters=None, rope_theta=5000.0, rope_scaling=dict(type="linear", factor=4.0))))
case("llama_fatrelu", "llama", dict(act="fatrelu:0.25", patch=patches.fatrelu, json=dict(
    hidden_act_param=0.25), published=dict(hidden_act="fatrelu")))
case("sparsellama", "llama", {**BRAIN, **dict(
    act="fatrelu:0.01", patch=patches.fatrelu, json=dict(hidden_act_param=0.01),
    published=dict(model_type="sparsellama", hidden_act="fatrelu"))})
SPARSE = dict(act="relu", patch=patches.relu)
for family in ("llama", "qwen2"):
    published = dict(model_type=family + "_sparse_relu", sparsity_gated_mlp=True)
    case(family + "_sparse_gated", family, {**SPARSE, "published": published})
    case(family + "_sparse_plain", family, {
        **BRAIN, **SPARSE, "published": {**published, "sparsity_gated_mlp": False},
        "patch": patches.plain, "reshape": patches.drop_gate}, tie_word_embeddings=True)
MINICPM = dict(scale_emb=12, scale_depth=1.4, dim_model_base=16)
case("minicpm", "llama", dict(
    patch=patches.minicpm, json=MINICPM, published=dict(model_type="minicpm")))
case("minicpm_s", "llama", {**BRAIN, **dict(
    act="fatrelu:0.1", patch=patches.minicpm, json=dict(MINICPM, hidden_act_param=0.1),
    published=dict(model_type="minicpm", hidden_act="fatrelu"))},
    vocab_size=129, tie_word_embeddings=True)
case("minicpm_deep", "llama", {**HALF, **dict(
    act="relu", patch=patches.minicpm, json=dict(scale_emb=1.5, scale_depth=0.7,
                                                 dim_model_base=48),
    published=dict(model_type="minicpm"))}, hidden_size=48, hidden_act="relu",
    num_hidden_layers=3, num_key_value_heads=4)
PREDICTOR = {f"model.layers.{i}.mlp.predictor.{n}.weight": ("F32", [8, 32]) for i in (0, 1)
             for n in ("fc1", "fc2")}
case("bamboo", "mistral", dict(act="both:relu", patch=patches.drelu, published=dict(
    model_type="bamboo")), hidden_act="relu", sliding_window=None)
case("bamboo_window", "mistral", {**BRAIN, **dict(
    act="both:relu", patch=patches.drelu, add=PREDICTOR,
    published=dict(model_type="bamboo"))}, hidden_act="relu", sliding_window=16)

case("mistral", "mistral", sliding_window=16)
case("mistral_full", "mistral", BRAIN, sliding_window=None, head_dim=16, hidden_act="relu")
case("mistral_tied", "mistral", HALF, sliding_window=4096, tie_word_embeddings=True)
case("qwen2", "qwen2")
case("qwen2_window", "qwen2", BRAIN, use_sliding_window=True, sliding_window=8,
     max_window_layers=1, hidden_act="relu")
case("qwen2_tied", "qwen2", HALF, tie_word_embeddings=True, num_key_value_heads=1)
case("qwen2_old", "qwen2", dict(json=dict(layer_types=None, rope_parameters=None,
                                          rope_theta=1000000.0)))
case("qwen2_window_old", "qwen2", dict(json=dict(layer_types=None)), use_sliding_window=True,
     sliding_window=8, max_window_layers=1)
case("qwen3", "qwen3")
case("qwen3_bias", "qwen3", BRAIN, attention_bias=True, hidden_act="relu",
     tie_word_embeddings=True)
case("qwen3_window", "qwen3", HALF, use_sliding_window=True, sliding_window=8,
     max_window_layers=1)
case("gemma", "gemma", num_key_value_heads=1)
case("gemma_half", "gemma", HALF, hidden_size=48, num_key_value_heads=4)
case("gemma_tanh", "gemma", {**BRAIN, "json": dict(
    hidden_act="gelu", hidden_activation="gelu_pytorch_tanh")},
    hidden_activation="gelu_pytorch_tanh")
case("gemma2", "gemma2", sliding_window=16, query_pre_attn_scalar=16)
case("gemma2_bare", "gemma2", BRAIN, sliding_window=16, query_pre_attn_scalar=24,
     attn_logit_softcapping=None, final_logit_softcapping=None, hidden_size=40)
case("gemma2_caps", "gemma2", HALF, sliding_window=8, query_pre_attn_scalar=16,
     attn_logit_softcapping=5.0, final_logit_softcapping=4.0, num_hidden_layers=3)
case("gemma2_old", "gemma2", {**BRAIN, **dict(json=dict(
    layer_types=None, rope_parameters=None, rope_theta=5000.0, attn_logit_softcapping=None,
    final_logit_softcapping=None))}, sliding_window=8,
    query_pre_attn_scalar=16, num_hidden_layers=3)
case("gemma3_old", "gemma3_text", {**BRAIN, **dict(json=dict(
    layer_types=None, rope_parameters=None, rope_theta=500000.0, rope_local_base_freq=5000.0,
    rope_scaling=dict(rope_type="linear", factor=8.0), sliding_window_pattern=2))},
    sliding_window=8, query_pre_attn_scalar=16, num_hidden_layers=3)
case("gemma3", "gemma3_text", sliding_window=8, query_pre_attn_scalar=16, num_hidden_layers=3,
     layer_types=["sliding_attention", "full_attention", "sliding_attention"])
case("gemma3_linear", "gemma3_text", BRAIN, sliding_window=16, query_pre_attn_scalar=20,
     layer_types=["sliding_attention", "full_attention"], rope_parameters=dict(
         sliding_attention=dict(rope_type="default", rope_theta=10000.0),
         full_attention=dict(rope_type="linear", factor=4.0, rope_theta=1000000.0)))
case("gemma3_deep", "gemma3_text", sliding_window=8, query_pre_attn_scalar=16,
     num_hidden_layers=6, intermediate_size=48, vocab_size=64, rope_parameters=dict(
         sliding_attention=dict(rope_type="default", rope_theta=10000.0),
         full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000000.0)))
case("gemma3_wrapped", "gemma3_text", {**HALF, **dict(
    rename=lambda name: name.replace("model.", "language_model.model.", 1),
    published=lambda c: dict(model_type="gemma3", text_config=c))},
    sliding_window=8, query_pre_attn_scalar=16)
case("olmo2", "olmo2")
case("olmo2_relu", "olmo2", BRAIN, hidden_act="relu", tie_word_embeddings=True,
     attention_bias=True, num_key_value_heads=4)
case("olmo2_half", "olmo2", HALF, hidden_size=48, num_attention_heads=6)
case("stablelm", "stablelm")
case("stablelm_old", "stablelm", dict(json=dict(rope_parameters=None, rope_theta=5000.0)))
case("stablelm_bias", "stablelm", BRAIN, use_qkv_bias=True, hidden_act="relu",
     tie_word_embeddings=True)
case("stablelm_parallel", "stablelm", HALF, use_parallel_residual=True, qk_layernorm=True,
     **rope("default", partial_rotary_factor=0.5))
case("smollm3", "smollm3", no_rope_layers=[1, 0])
case("smollm3_tied", "smollm3", BRAIN, no_rope_layers=[0, 1], hidden_act="relu",
     tie_word_embeddings=True, attention_bias=True)
case("smollm3_interval", "smollm3", HALF, no_rope_layer_interval=2, mlp_bias=True)
case("smollm3_window", "smollm3", dict(json=dict(layer_types=None)), use_sliding_window=True,
     sliding_window=8, no_rope_layers=[1, 0])
case("granite", "granite", embedding_multiplier=3.0, residual_multiplier=0.22,
     attention_multiplier=0.2, logits_scaling=2.0)
case("granite_bias", "granite", BRAIN, attention_bias=True, mlp_bias=True, hidden_act="relu",
     tie_word_embeddings=True, attention_multiplier=0.3, logits_scaling=0.5)
case("granite_half", "granite", HALF, embedding_multiplier=12.0, residual_multiplier=0.5)
case("cohere", "cohere")
case("cohere_norm", "cohere", BRAIN, use_qk_norm=True, hidden_act="relu", logit_scale=0.25)
case("cohere_bias", "cohere", HALF, attention_bias=True, num_key_value_heads=4)
case("phi3", "phi3", sliding_window=16)
case("phi3_full", "phi3", BRAIN, sliding_window=None, hidden_act="relu",
     tie_word_embeddings=True)
case("phi3_partial", "phi3", HALF, hidden_size=48, num_key_value_heads=1,
     **rope("default", partial_rotary_factor=0.5))
case("phi3_longrope", "phi3", dict(json=dict(original_max_position_embeddings=64)),
     max_position_embeddings=256, original_max_position_embeddings=64, **rope(
         "longrope", short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.5, 2.0, 3.0, 4.0],
         original_max_position_embeddings=64))
case("phi3_old", "phi3", {**BRAIN, **dict(json=dict(
    rope_parameters=None, rope_theta=5000.0, original_max_position_embeddings=64,
    rope_scaling=dict(type="longrope", short_factor=[1.0, 1.2, 1.4, 1.6],
                      long_factor=[2.0] * 4)))}, max_position_embeddings=128,
    original_max_position_embeddings=64)

# The GPTs and their kin
case("opt", "opt")
case("opt_350m", "opt", HALF, do_layer_norm_before=False, word_embed_proj_dim=20)
case("opt_post", "opt", do_layer_norm_before=False)
case("opt_gelu", "opt", BRAIN, activation_function="gelu", tie_word_embeddings=False,
     vocab_size=131, ffn_dim=70)
case("opt_bare", "opt", enable_bias=False, layer_norm_elementwise_affine=False)
case("opt_no_final", "opt", {**BRAIN, "rename": lambda n: n.removeprefix("model.")},
     _remove_final_layer_norm=True)
LEGACY = {f"transformer.h.{i}.attn.{n}": s for i in (0, 1)
          for n, s in (("bias", ("F32", [1, 1, 64, 64])), ("masked_bias", ("F16", [])))}
case("gpt2", "gpt2")
case("gpt2_relu", "gpt2", BRAIN, activation_function="relu", n_inner=75, vocab_size=131)
case("gpt2_legacy", "gpt2", {**HALF, **dict(
    rename=lambda n: n.removeprefix("transformer."),
    add={k.removeprefix("transformer."): v for k, v in LEGACY.items()})})
case("gpt2_scaled", "gpt2", dict(shard="16KB"), scale_attn_by_inverse_layer_idx=True,
     tie_word_embeddings=False, activation_function="relu", n_layer=3)
case("gpt2_unscaled", "gpt2", scale_attn_weights=False, activation_function="gelu", n_embd=48,
     n_head=3)
NEOX = {f"gpt_neox.layers.{i}.attention.{n}": s for i in (0, 1)
        for n, s in (("bias", ("BOOL", [1, 1, 64, 64])), ("masked_bias", ("F16", [])),
                     ("rotary_emb.inv_freq", ("F16", [1])))}
case("gpt_neox", "gpt_neox", dict(add=NEOX))
case("gpt_neox_serial", "gpt_neox", BRAIN, use_parallel_residual=False, hidden_act="relu",
     **rope("default", partial_rotary_factor=1.0))
case("gpt_neox_bare", "gpt_neox", {**HALF, "shard": "16KB"}, attention_bias=False,
     tie_word_embeddings=True, hidden_act="gelu_new", vocab_size=131, intermediate_size=75)
case("gpt_neox_old", "gpt_neox", dict(json=dict(
    rope_parameters=None, rotary_pct=0.5, rotary_emb_base=5000)), hidden_act="relu",
    **rope("default", 5000.0, partial_rotary_factor=0.5))
case("gptj", "gptj")
case("gptj_relu", "gptj", {**BRAIN, "add": LEGACY}, activation_function="relu", rotary_dim=8,
     n_inner=70, vocab_size=131)
case("gptj_tied", "gptj", HALF, rotary_dim=6, n_embd=48, tie_word_embeddings=True)
case("phi", "phi")
case("phi_norm", "phi", qk_layernorm=True, hidden_act="relu")
case("phi_grouped", "phi", BRAIN, num_key_value_heads=2, hidden_act="relu",
     tie_word_embeddings=True)
case("phi_old", "phi", {**HALF, **dict(json=dict(
    rope_parameters=None, rope_theta=5000.0, partial_rotary_factor=0.25, rope_scaling=None))},
    vocab_size=131)
case("phi_linear", "phi", **rope("linear", factor=2.0, partial_rotary_factor=0.5))
FALCON = dict(act="gelu")
# transformers' eager attention adds Falcon's slopes twice (once as part of the mask)
ALIBI = dict(attention="sdpa")
case("falcon_7b", "falcon", FALCON)
case("falcon_7b_relu", "falcon", {**BRAIN, "act": "relu"}, activation="relu", ffn_hidden_size=70,
     vocab_size=131)
case("falcon_40b", "falcon", {**BRAIN, **FALCON}, new_decoder_architecture=True, num_kv_heads=2)
case("falcon_11b", "falcon", {**HALF, **FALCON}, new_decoder_architecture=True, num_kv_heads=2,
     num_ln_in_parallel_attn=1, tie_word_embeddings=False)
case("falcon_rw", "falcon", {**HALF, **ALIBI, **FALCON}, multi_query=False,
     parallel_attn=False, alibi=True, bias=True)
# positions past 256 are rounded
case("falcon_rw_relu", "falcon", {**ALIBI, "act": "relu", "length": 280}, multi_query=False,
     parallel_attn=False, alibi=True, bias=True, activation="relu", num_attention_heads=32,
     hidden_size=64, ffn_hidden_size=96)
case("falcon_serial", "falcon", dict(act="relu"), multi_query=True, parallel_attn=False,
     activation="relu")
case("falcon_heads", "falcon", {"act": "relu", "shard": "16KB"}, multi_query=False,
     activation="relu", bias=True)
OLD_FALCON = dict(num_hidden_layers=None, num_attention_heads=None, num_kv_heads=None,
                  new_decoder_architecture=None, num_ln_in_parallel_attn=None,
                  ffn_hidden_size=None, max_position_embeddings=None, rope_parameters=None,
                  n_layer=2, n_head=4)
case("refined_40b", "falcon", {**BRAIN, **FALCON, "published": {
    **OLD_FALCON, "model_type": "RefinedWeb", "n_head_kv": 2, "multi_query": None}},
    new_decoder_architecture=True, num_kv_heads=2)
case("refined_7b", "falcon", {**HALF, **FALCON, "published": {
    **OLD_FALCON, "model_type": "RefinedWebModel"}})
BLOOM = dict(act="bloom_gelu")
case("bloom", "bloom", BLOOM)
case("bloom_heads", "bloom", {**HALF, **BLOOM, "rename": lambda n: n.removeprefix(
    "transformer.")}, n_head=12, hidden_size=48, vocab_size=131)
case("bloom_brain", "bloom", {**BRAIN, **BLOOM}, n_head=8, n_layer=3)
case("bloom_old", "bloom", {**BLOOM, "published": dict(
    hidden_size=None, n_layer=None, n_head=None, n_embed=32, num_hidden_layers=2,
    num_attention_heads=4, seq_length=48)})
case("bloom_sharded", "bloom", {**BLOOM, "shard": "16KB"}, n_head=2, tie_word_embeddings=False)
case("arcee", "arcee")
case("arcee_bias", "arcee", BRAIN, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
     head_dim=16)
case("arcee_yarn", "arcee", {**HALF, "shard": "16KB"}, hidden_act="relu", **rope(
    "yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0))
case("persimmon", "persimmon")
case("persimmon_bare", "persimmon", BRAIN, qk_layernorm=False, hidden_act="relu",
     tie_word_embeddings=True)
case("persimmon_old", "persimmon", {**HALF, **dict(json=dict(
    rope_parameters=None, rope_theta=5000.0))}, vocab_size=131, intermediate_size=75)
case("nemotron", "nemotron")
case("nemotron_bias", "nemotron", BRAIN, attention_bias=True, mlp_bias=True,
     tie_word_embeddings=True, head_dim=16)
case("nemotron_old", "nemotron", {**HALF, **dict(json=dict(
    rope_parameters=None, rope_theta=10000.0, partial_rotary_factor=0.5, rope_scaling=None))},
    num_key_value_heads=1)
case("nemotron_silu", "nemotron", hidden_act="silu", **rope("default",
                                                            partial_rotary_factor=1.0))
