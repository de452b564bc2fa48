/* Forms of hidden.cu's kernels for relu in bf16, with and without counts. */
#include "kernels/cuda/hidden.cuh"

namespace hidden {

template <int FORM>
static enum tw_status launch_of(const struct twp_device *device, const Params &p, bool is_gated,
                                cudaStream_t stream, struct tw_error *err)
{
    if (is_gated)
        return p.counts.is_on ? launch<RELU, true, TW_BF16, FAST, FORM>(device, p, stream, err)
                              : launch<RELU, true, TW_BF16, OFF, FORM>(device, p, stream, err);
    return p.counts.is_on ? launch<RELU, false, TW_BF16, FAST, FORM>(device, p, stream, err)
                          : launch<RELU, false, TW_BF16, OFF, FORM>(device, p, stream, err);
}

enum tw_status launch_form(const struct twp_device *device, const Params &p, bool is_gated,
                           int form, cudaStream_t stream, struct tw_error *err)
{
    switch (form) {
#define FORM(n)                                                                                    \
    case n:                                                                                        \
        return launch_of<n>(device, p, is_gated, stream, err)
        FORM(NO_FORM);
        FORM(FLAGS);
        FORM(FLAGS | LEAN);
        FORM(FLAGS | LEAN | LEAD);
        FORM(FLAGS | LEAN | LEAD_2);
        FORM(FLAGS | LEAN | TAIL);
        FORM(FLAGS | LEAN | TAIL | LEAD);
#undef FORM
    default:
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "cuda: no form %d of hidden", form);
    }
}

} // namespace hidden
