/* The cpu row of the operations table: float32 on OpenBLAS and our threads. */
#include <config.h>

#include "kernels/cpu/cpu_internal.h"

static enum tw_status probe(struct tw_error *err)
{
    (void)err; /* every machine has one */
    return TW_OK;
}

const struct tw_ops tw_ops_cpu = {
    .name = "cpu",
    .probe = probe,
    .init = twp_cpu_init,
    .fini = twp_cpu_fini,
    .device = twp_cpu_device,
    .compute_dtype = "float32",
    .alloc = twp_cpu_alloc,
    .free = twp_cpu_free,
    .upload = twp_cpu_upload,
    .download = twp_cpu_download,
    .weight_load = twp_cpu_weight_load,
    .weight_free = twp_cpu_weight_free,
    .ffn_load = twp_cpu_ffn_load,
    .ffn_free = twp_cpu_ffn_free,
    .plan = twp_cpu_plan,
    .plan_use = twp_cpu_plan_use,
    .start = twp_cpu_start,
    .finish = twp_cpu_finish,
    .mark = twp_cpu_mark,
    .mark_ns = twp_cpu_mark_ns,
    .layer_end = twp_cpu_layer_end,
    .embed = twp_cpu_embed,
    .positions = twp_cpu_positions,
    .norm = twp_cpu_norm,
    .matmul = twp_cpu_matmul,
    .rope = twp_cpu_rope,
    .attention = twp_cpu_attention,
    .add = twp_cpu_add,
    .act_mul = twp_cpu_act_mul,
    .ffn = twp_cpu_ffn,
    .head_nll = twp_cpu_head_nll,
    .bench = &twp_bench_cpu,
};
