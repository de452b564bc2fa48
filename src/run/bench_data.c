/* Synthetic layers: each row is drawn from a seed of its own, so that threads
 * change nothing. */
#include <config.h>

#include "run/bench_data.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "run/job.h"
#include "run/random.h"

#define NEVER -40.0 /* a threshold that no row passes */

/* Rounded to nearest even; too large values become infinite. */
static uint16_t half_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    float size = fabsf(value);
    if (!(size < 65520))
        return sign | (isnan(value) ? 0x7e00 : 0x7c00);
    int exponent;
    frexpf(size, &exponent);
    if (size == 0 || exponent < -13) /* subnormal: steps of 2^-24 */
        return (uint16_t)(sign | (uint16_t)nearbyintf(ldexpf(size, 24)));
    float steps = nearbyintf(ldexpf(size, 11 - exponent)); /* 1024 .. 2048 */
    return (uint16_t)(sign | (((exponent + 13) << 10) + (int)steps));
}

static uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void store(void *matrix, enum tw_dtype dtype, size_t i, float value)
{
    if (dtype == TW_F32)
        ((float *)matrix)[i] = value;
    else
        ((uint16_t *)matrix)[i] =
            dtype == TW_F16 ? half_of(value) : bf16_of(value);
}

/* A matrix to fill with normal numbers, in the threads' hands. */
struct filling {
    void *matrix;
    enum tw_dtype dtype;
    int64_t cols;
    double scale;
    uint64_t seed;
    bool ends_in_one; /* the last of each row is 1 */
};

static void fill_row(void *arg, int worker, int64_t row)
{
    (void)worker;
    const struct filling *f = arg;
    struct tw_random random = {f->seed};
    random.state = tw_random_bits(&random) + (uint64_t)row;
    random.state = tw_random_bits(&random);
    for (int64_t c = 0; c < f->cols; c++) {
        bool is_one = f->ends_in_one && c == f->cols - 1;
        double value = is_one ? 1 : f->scale * tw_random_normal(&random);
        store(f->matrix, f->dtype, (size_t)(row * f->cols + c), (float)value);
    }
}

static enum tw_status fill_all(const struct tw_bench_shape *s,
                               struct tw_bench_data *data, struct tw_error *err)
{
    struct tw_threads *pool;
    enum tw_status status = tw_threads_create(s->threads, &pool, err);
    if (status != TW_OK)
        return status;
    double to_ff = 1 / sqrt((double)s->d_model);
    double to_model = 1 / sqrt((double)s->d_ff);
    uint64_t seed = s->seed * 4;
    const struct {
        struct filling filling;
        int64_t rows;
    } all[] = {
        {{data->gate, s->dtype, s->d_model, to_ff, seed, false},
         data->gate ? s->d_ff : 0},
        {{data->up, s->dtype, s->d_model, to_ff, seed + 1, false}, s->d_ff},
        {{data->down, s->dtype, s->d_ff, to_model, seed + 2, false},
         s->d_model},
        {{data->x, TW_F32, s->d_model, 1, seed + 3, true}, s->rows},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct filling filling = all[i].filling;
        tw_threads_run(pool, fill_row, &filling, all[i].rows);
    }
    tw_threads_destroy(pool);
    return TW_OK;
}

static void describe(const struct tw_bench_shape *s, struct tw_bench_data *data)
{
    data->desc = (struct tw_ffn_desc){
        .d_model = s->d_model,
        .d_ff = s->d_ff,
        .activation = {.act = TW_ACT_RELU, .name = "relu"},
        .up = {data->up, s->dtype, s->d_ff, s->d_model},
        .down = {data->down, s->dtype, s->d_model, s->d_ff}};
    if (!s->is_plain)
        data->desc.gate =
            (struct tw_matrix){data->gate, s->dtype, s->d_ff, s->d_model};
}

enum tw_status tw_bench_data_make(const struct tw_bench_shape *s,
                                  struct tw_bench_data *data,
                                  struct tw_error *err)
{
    size_t m = (size_t)s->rows, k = (size_t)s->d_model, n = (size_t)s->d_ff;
    size_t item = tw_dtype_size(s->dtype);
    *data = (struct tw_bench_data){.rows = s->rows, .layer = -1};
    data->gate = s->is_plain ? NULL : tw_alloc_aligned(n * k, item);
    data->up = tw_alloc_aligned(n * k, item);
    data->down = tw_alloc_aligned(n * k, item);
    data->x = tw_alloc_aligned(m * k, sizeof *data->x);
    enum tw_status status = TW_OK;
    if ((!s->is_plain && !data->gate) || !data->up || !data->down || !data->x)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory for the layer");
    if (status == TW_OK)
        status = fill_all(s, data, err);
    describe(s, data);
    if (status != TW_OK)
        tw_bench_data_fini(data);
    return status;
}

void tw_bench_data_plant(struct tw_bench_data *data, const double *rate)
{
    struct tw_matrix *first =
        data->desc.gate.data ? &data->desc.gate : &data->desc.up;
    void *matrix = data->gate ? data->gate : data->up;
    for (int64_t n = 0; n < first->rows; n++) {
        double p = rate[n] > 1 - 1e-12 ? 1 - 1e-12 : rate[n];
        double threshold = p > 1e-12 ? tw_normal_quantile(p) : NEVER;
        store(matrix, first->dtype, (size_t)((n + 1) * first->cols - 1),
              (float)threshold);
    }
}

void tw_bench_data_fini(struct tw_bench_data *data)
{
    tw_free(data->gate);
    tw_free(data->up);
    tw_free(data->down);
    tw_free(data->x);
    if (data->job)
        tw_job_close(data->job);
    tw_free(data->job);
    *data = (struct tw_bench_data){.layer = -1};
}
