/* The forms of one layer: how each is loaded, run and compared. */
#include <config.h>

#include "run/bench_internal.h"

#include <math.h>
#include <sys/resource.h>

#include "base/active.h"

#define AT_ONCE 16 /* counted runs between start and finish */

static const struct {
    const char *target, *name;
    bool is_dense, is_library, makes_y;
} forms[TWP_FORMS] = {
    [TWP_FORM_LIBRARY] = {"ffn", "dense", true, true, true},
    [TWP_FORM_FUSED] = {"ffn", "dense", true, false, true},
    [TWP_FORM_COUNTED] = {"ffn", "dense-counted", false, false, true},
    [TWP_FORM_TWELL] = {"ffn", "twell", false, false, true},
    [TWP_FORM_UNCOUNTED] = {"ffn", "twell-uncounted", false, false, true},
    [TWP_FORM_AUTO] = {"ffn", "auto", false, false, true},
    [TWP_FORM_PRODUCT] = {"gate", "dense", true, true, false},
    [TWP_FORM_PACK] = {"gate", "pack", false, false, false},
    [TWP_FORM_ROUTE] = {"gate", "pack-route", false, false, false},
};

static const struct tw_active hidden = {.kind = TW_ACTIVE_HIDDEN,
                                        .name = "hidden"};
static const struct tw_active gate = {.kind = TW_ACTIVE_GATE, .name = "gate"};
static const struct tw_probes hidden_probe = {1, &hidden};
static const struct tw_probes gate_probe = {1, &gate};

void twp_form_describe(const struct twp_bench *b, int form,
                       struct tw_bench_row *row)
{
    *row = (struct tw_bench_row){.target = forms[form].target,
                                 .name = forms[form].name,
                                 .path = forms[form].is_library
                                             ? b->ops->bench->library
                                             : b->ops->bench->path(b->ctx),
                                 .is_dense = forms[form].is_dense,
                                 .rel_error = NAN,
                                 .mj_per_token = NAN,
                                 .peak_bytes = twp_form_bytes(b, form)};
}

/* The library may not know this layer, if there is another dense form. */
static enum tw_status load_library(struct twp_bench *b, struct tw_error *err)
{
    const struct tw_bench_ops *bench = b->ops->bench;
    struct tw_error why = {0};
    enum tw_status status =
        bench->dense_create(b->ctx, &b->data->desc, b->rows, &b->library, &why);
    if (status == TW_OK ||
        (status == TW_ERR_UNSUPPORTED && bench->has_uncounted))
        return TW_OK;
    return tw_error_set(err, status, "%s", why.text);
}

/* As profile does it: the first rows run as the layer is loaded, then it is
 * planned by their patterns. */
static enum tw_status load_planned(struct twp_bench *b,
                                   const struct tw_ffn_desc *desc,
                                   struct tw_error *err)
{
    enum tw_status status = b->ops->ffn_load(b->ctx, desc, &b->planned, err);
    if (status == TW_OK)
        status = b->ops->start(b->ctx, &b->batch, err);
    if (status != TW_OK)
        return status;
    tw_layer_obs_reset(&b->obs, b->rows);
    status = b->ops->ffn(b->ctx, b->y, b->x[0], b->x[0], b->planned,
                         &gate_probe, &b->obs, err);
    enum tw_status finished =
        b->ops->finish(b->ctx, status == TW_OK ? err : NULL);
    if (status == TW_OK)
        status = finished;
    if (status != TW_OK)
        return status;
    int64_t rows = b->rows < TW_PLAN_ROWS ? b->rows : TW_PLAN_ROWS;
    const struct tw_ffn_seen seen = {
        .rows = rows,
        .overflow_rows = (int64_t)b->obs.overflow_rows * rows / b->rows,
        .nnz = b->obs.nnz};
    status = b->ops->plan(b->ctx, b->planned, &seen, &b->plan, err);
    if (status == TW_OK)
        status = b->ops->plan_use(b->ctx, b->planned, &b->plan, err);
    return status;
}

enum tw_status twp_forms_load(struct twp_bench *b, struct tw_error *err)
{
    const struct tw_bench_ops *bench = b->ops->bench;
    struct tw_ffn_desc desc = b->data->desc;
    enum tw_status status = load_library(b, err);
    desc.path = TW_FFN_TWELL;
    if (status == TW_OK)
        status = b->ops->ffn_load(b->ctx, &desc, &b->twell, err);
    if (status == TW_OK && b->ops->plan)
        status = load_planned(b, &desc, err);
    desc.path = TW_FFN_DENSE;
    if (status == TW_OK && bench->has_uncounted)
        status = b->ops->ffn_load(b->ctx, &desc, &b->dense, err);
    bool is_there[TWP_FORMS] = {[TWP_FORM_LIBRARY] = b->library != NULL,
                                [TWP_FORM_FUSED] = bench->has_uncounted,
                                [TWP_FORM_COUNTED] = bench->has_uncounted,
                                [TWP_FORM_TWELL] = true,
                                [TWP_FORM_UNCOUNTED] = bench->has_uncounted,
                                [TWP_FORM_AUTO] = b->planned != NULL,
                                [TWP_FORM_PRODUCT] =
                                    b->library && bench->dense_product,
                                [TWP_FORM_PACK] = b->library && bench->pack,
                                [TWP_FORM_ROUTE] = b->library && bench->pack};
    for (int f = 0; f < TWP_FORMS; f++)
        b->is_there[f] = is_there[f];
    b->baseline = b->library ? TWP_FORM_LIBRARY : TWP_FORM_FUSED;
    return status;
}

void twp_forms_free(struct twp_bench *b)
{
    if (b->library)
        b->ops->bench->dense_destroy(b->ctx, b->library);
    if (b->twell)
        b->ops->ffn_free(b->ctx, b->twell);
    if (b->dense)
        b->ops->ffn_free(b->ctx, b->dense);
    if (b->planned)
        b->ops->ffn_free(b->ctx, b->planned);
    b->library = NULL;
    b->twell = b->dense = b->planned = NULL;
}

static enum tw_status run_layer(struct twp_bench *b, struct tw_ffn *ffn,
                                bool is_counted, const void *x,
                                struct tw_error *err)
{
    return b->ops->ffn(b->ctx, b->y, x, b->is_bare ? NULL : x, ffn,
                       is_counted ? &hidden_probe : NULL,
                       is_counted ? &b->obs : NULL, err);
}

static enum tw_status run_once(struct twp_bench *b, int form,
                               struct tw_error *err)
{
    const struct tw_bench_ops *bench = b->ops->bench;
    const void *x = b->x[b->next_input];
    b->next_input = (b->next_input + 1) % b->inputs;
    switch (form) {
    case TWP_FORM_LIBRARY:
        return bench->dense_run(b->ctx, b->library, b->y, x,
                                b->is_bare ? NULL : x, err);
    case TWP_FORM_FUSED:
        return run_layer(b, b->dense, false, x, err);
    case TWP_FORM_COUNTED:
        return run_layer(b, b->dense, true, x, err);
    case TWP_FORM_TWELL:
        return run_layer(b, b->twell, true, x, err);
    case TWP_FORM_UNCOUNTED:
        return run_layer(b, b->twell, false, x, err);
    case TWP_FORM_AUTO:
        return run_layer(b, b->planned, true, x, err);
    case TWP_FORM_PRODUCT:
        return bench->dense_product(b->ctx, b->library, x, err);
    default:
        return bench->pack(b->ctx, b->twell, x, &hidden_probe,
                           form == TWP_FORM_ROUTE ? &b->obs : NULL, err);
    }
}

/* As many runs as fit between one start and its finish, which waits. */
static enum tw_status run_some(struct twp_bench *b, int form, int64_t times,
                               int64_t *ns, struct tw_error *err)
{
    const struct tw_bench_ops *bench = b->ops->bench;
    enum tw_status status = b->ops->start(b->ctx, &b->batch, err);
    if (status == TW_OK)
        status = bench->clock_start(b->ctx, err);
    for (int64_t i = 0; status == TW_OK && i < times; i++)
        status = run_once(b, form, err);
    if (status == TW_OK)
        status = bench->clock_stop(b->ctx, ns, err);
    enum tw_status finished =
        b->ops->finish(b->ctx, status == TW_OK ? err : NULL);
    return status != TW_OK ? status : finished;
}

enum tw_status twp_form_run(struct twp_bench *b, int form, int64_t times,
                            int64_t *ns, struct tw_error *err)
{
    enum tw_status status = TW_OK;
    tw_layer_obs_reset(&b->obs, b->rows);
    *ns = 0;
    while (times > 0 && status == TW_OK) {
        int64_t some = times < AT_ONCE ? times : AT_ONCE, part = 0;
        status = run_some(b, form, some, &part, err);
        *ns += part;
        times -= some;
    }
    return status;
}

enum tw_status twp_form_compare(struct twp_bench *b, int form,
                                double *rel_error, struct tw_error *err)
{
    const struct tw_bench_ops *bench = b->ops->bench;
    int64_t ns;
    *rel_error = NAN;
    b->is_bare = true; /* else the residual's rounding is most of it */
    enum tw_status status = bench->poison(b->ctx, b->y, b->elements, err);
    if (status == TW_OK)
        status = twp_form_run(b, form, 1, &ns, err);
    b->is_bare = false;
    if (status != TW_OK || !forms[form].makes_y)
        return status;
    if (form == b->baseline) {
        void *kept = b->dense_y;
        b->dense_y = b->y;
        b->y = kept;
    }
    const void *y = form == b->baseline ? b->dense_y : b->y;
    return bench->distance(b->ctx, y, b->dense_y, b->elements, rel_error, err);
}

int64_t twp_form_bytes(const struct twp_bench *b, int form)
{
    const struct tw_bench_ops *bench = b->ops->bench;
    struct rusage usage;
    if (!bench->ffn_bytes) {
        getrusage(RUSAGE_SELF, &usage);
        return (int64_t)usage.ru_maxrss * 1024;
    }
    if (!forms[form].makes_y)
        return 0;
    int64_t ends = 2 * 2 * b->elements; /* x and y, two bytes each */
    if (form == TWP_FORM_LIBRARY)
        return ends + bench->dense_bytes(b->library);
    bool is_dense = form == TWP_FORM_FUSED || form == TWP_FORM_COUNTED;
    const struct tw_ffn *ffn = is_dense                ? b->dense
                               : form == TWP_FORM_AUTO ? b->planned
                                                       : b->twell;
    return ends + bench->ffn_bytes(ffn, b->rows);
}
