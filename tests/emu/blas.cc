/* cuBLASLt's products: bf16, fp16 or fp32 in and out, sums in fp32. Each element
 * is one sum along K, in one order, whatever the shape. */
#include "cublasLt.h"
#include "runtime_internal.h"

struct emu_lt_layout {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t stride;
    int32_t order;
};
struct emu_lt_desc {
    int32_t turn_a, turn_b;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    cudaDataType bias_type;
};
struct emu_lt_preference {
    uint64_t workspace;
};
struct cublasLtContext {
    int unused;
};

namespace emu {

static size_t size_of(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static float load(const void *from, cudaDataType type, uint64_t at)
{
    if (type == CUDA_R_32F)
        return static_cast<const float *>(from)[at];
    uint16_t bits = static_cast<const uint16_t *>(from)[at];
    return type == CUDA_R_16F ? widen_f16(bits) : widen_bf16(bits);
}

static void store(void *to, cudaDataType type, uint64_t at, float value)
{
    if (type == CUDA_R_32F)
        static_cast<float *>(to)[at] = value;
    else
        static_cast<uint16_t *>(to)[at] =
            type == CUDA_R_16F ? round_f16(value) : round_bf16(value);
}

static uint64_t place(const emu_lt_layout &m, uint64_t row, uint64_t col)
{
    uint64_t stride = (uint64_t)m.stride;
    return m.order == CUBLASLT_ORDER_ROW ? row * stride + col : col * stride + row;
}

/* Rows of op(m), or columns where it is B: K together, padded to 16 by zeros. */
static std::vector<float> gathered(const void *data, const emu_lt_layout &m, bool is_turned,
                                   uint64_t count, uint64_t k, uint64_t room)
{
    std::vector<float> out(count * room);
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t j = 0; j < k; j++)
            out[i * room + j] = load(data, m.type, is_turned ? place(m, j, i) : place(m, i, j));
    return out;
}

typedef float Four __attribute__((vector_size(16)));

static float dot(const float *a, const float *b, uint64_t room)
{
    Four sum[4] = {}, x[4], y[4];
    for (uint64_t j = 0; j < room; j += 16) {
        memcpy(x, a + j, sizeof x);
        memcpy(y, b + j, sizeof y);
        for (int i = 0; i < 4; i++)
            sum[i] += x[i] * y[i];
    }
    Four all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return (all[0] + all[1]) + (all[2] + all[3]);
}

struct Matmul {
    emu_lt_desc desc;
    emu_lt_layout la, lb, lc, ld;
    const void *a, *b, *c;
    void *d;
    float alpha, beta;

    void run() const
    {
        uint64_t m = ld.rows, n = ld.cols, k = desc.turn_a ? la.rows : la.cols;
        uint64_t room = (k + 15) / 16 * 16;
        std::vector<float> x = gathered(a, la, desc.turn_a, m, k, room);
        std::vector<float> y = gathered(b, lb, !desc.turn_b, n, k, room);
        for (uint64_t i = 0; i < m; i++)
            for (uint64_t j = 0; j < n; j++)
                finish(i, j, alpha * dot(&x[i * room], &y[j * room], room));
    }
    void finish(uint64_t i, uint64_t j, float sum) const
    {
        if (beta != 0)
            sum += beta * load(c, lc.type, place(lc, i, j));
        if (desc.epilogue & CUBLASLT_EPILOGUE_BIAS)
            sum += load(desc.bias, desc.bias_type, i);
        if (desc.epilogue & CUBLASLT_EPILOGUE_RELU)
            sum = sum < 0 ? 0 : sum;
        store(d, ld.type, place(ld, i, j), sum);
    }
};

static bool is_layout(const emu_lt_layout &m, const void *data)
{
    uint64_t line = m.order == CUBLASLT_ORDER_ROW ? m.cols : m.rows;
    return m.rows && m.cols && m.stride >= (int64_t)line &&
           reinterpret_cast<uintptr_t>(data) % size_of(m.type) == 0;
}

static cublasStatus_t check(const Matmul &p)
{
    uint64_t m = p.ld.rows, n = p.ld.cols, k = p.desc.turn_a ? p.la.rows : p.la.cols;
    bool fits = (p.desc.turn_a ? p.la.cols : p.la.rows) == m &&
                (p.desc.turn_b ? p.lb.cols : p.lb.rows) == k &&
                (p.desc.turn_b ? p.lb.rows : p.lb.cols) == n && p.lc.rows == m &&
                p.lc.cols == n;
    bool is_good = fits && is_layout(p.la, p.a) && is_layout(p.lb, p.b) &&
                   is_layout(p.lc, p.c) && is_layout(p.ld, p.d) && p.la.type == p.lb.type &&
                   (!(p.desc.epilogue & CUBLASLT_EPILOGUE_BIAS) || p.desc.bias);
    return is_good ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

} // namespace emu

using namespace emu;

extern "C" {

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
           : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
           : status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                   : "another status";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = new cublasLtContext{};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType scale)
{
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *desc = new emu_lt_desc{0, 0, CUBLASLT_EPILOGUE_DEFAULT, nullptr, CUDA_R_16BF};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    delete desc;
    return CUBLAS_STATUS_SUCCESS;
}

/* A value of that many bytes into a field of as many. */
#define TAKE(field)                                                                               \
    (bytes == sizeof(field) ? (memcpy(&(field), value, bytes), CUBLAS_STATUS_SUCCESS)             \
                            : CUBLAS_STATUS_INVALID_VALUE)

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return TAKE(desc->turn_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return TAKE(desc->turn_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return TAKE(desc->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return TAKE(desc->bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return TAKE(desc->bias_type);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t stride)
{
    *layout = new emu_lt_layout{type, rows, cols, stride, CUBLASLT_ORDER_COL};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
        return TAKE(layout->type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
        return TAKE(layout->order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
        return TAKE(layout->rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
        return TAKE(layout->cols);
    case CUBLASLT_MATRIX_LAYOUT_LD:
        return TAKE(layout->stride);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *wish)
{
    *wish = new emu_lt_preference{};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish)
{
    delete wish;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wish,
                                     cublasLtMatmulPreferenceAttributes_t attribute,
                                     const void *value, size_t bytes)
{
    return attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? TAKE(wish->workspace)
                                                                 : CUBLAS_STATUS_SUCCESS;
}

/* Two algorithms, the first of which (of real ones) splits its sums: whoever wants
 * a row's bits to be the same in every batch takes the other. */
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *)
{
    int32_t splits = algo->data[0] ? 1 : 2, scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
    if (bytes != sizeof splits)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? &splits : &scheme, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int room,
                                              cublasLtMatmulHeuristicResult_t list[], int *count)
{
    *count = room < 2 ? room : 2;
    for (int i = 0; i < *count; i++)
        list[i] = {{{(uint64_t)i}}, 0, CUBLAS_STATUS_SUCCESS, 1};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t la,
                              const void *b, cublasLtMatrixLayout_t lb, const void *beta,
                              const void *c, cublasLtMatrixLayout_t lc, void *d,
                              cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t *, void *,
                              size_t, cudaStream_t stream)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const Matmul p = {*desc, *la, *lb, *lc, *ld, a, b, c, d, *static_cast<const float *>(alpha),
                      *static_cast<const float *>(beta)};
    cublasStatus_t status = check(p);
    if (status == CUBLAS_STATUS_SUCCESS)
        enqueue(stream, [p]() { p.run(); });
    return status;
}

} // extern "C"
