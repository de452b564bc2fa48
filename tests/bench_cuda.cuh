/* What the programs share that time the cuda backend's kernels beside cuBLASLt:
 * random data, products, forms that run interleaved in another order in each
 * round. */
#ifndef TESTS_BENCH_CUDA_CUH
#define TESTS_BENCH_CUDA_CUH

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/memory.h"
#include "kernels/cuda/cuda_internal.h"

namespace {

constexpr int ROTATE = 3, WARM_UPS = 3; // inputs, past the L2 cache; rounds
constexpr size_t WORKSPACE = 64 << 20;

#define OK(call)                                                              \
    do {                                                                      \
        if (auto status_ = (call)) {                                          \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, (int)status_); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

tw_error err;

template <typename T> T *device(size_t count)
{
    void *p;
    OK(cudaMalloc(&p, count * sizeof(T)));
    return static_cast<T *>(p);
}

uint64_t state = 88172645463325252ull;

float normal() // sum of four uniforms, unit variance
{
    float sum = 0;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    for (int i = 0; i < 4; i++)
        sum += (float)(state >> 16 * i & 0xffff) / 65536 - 0.5f;
    return sum * 1.7320508f;
}

std::vector<uint16_t> normals(size_t count, float scale)
{
    std::vector<uint16_t> v(count);
    for (auto &e : v)
        e = twp_bf16_of(normal() * scale);
    return v;
}

/* ---- cuBLASLt: C[m][n] = A[m][k] B[n][k]^T (+ C) ---- */

cublasLtHandle_t lt;
void *lt_workspace;

struct Product {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
    float beta;

    void run(const void *x, const void *w, const void *residual, void *y) const
    {
        float alpha = 1;
        OK(cublasLtMatmul(lt, op, &alpha, w, a, x, b, &beta, residual ? residual : y, c, y, c,
                          &algo, lt_workspace, WORKSPACE, 0));
    }
};

/* The fastest of the heuristic's algorithms without split-K. */
Product product(int m, int n, int k, cublasLtEpilogue_t epilogue, float beta, const void *x,
                const void *w, void *y)
{
    Product p;
    p.beta = beta;
    cublasOperation_t t = CUBLAS_OP_T;
    OK(cublasLtMatmulDescCreate(&p.op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    OK(cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t));
    OK(cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                      sizeof epilogue));
    OK(cublasLtMatrixLayoutCreate(&p.a, CUDA_R_16BF, k, n, k));
    OK(cublasLtMatrixLayoutCreate(&p.b, CUDA_R_16BF, k, m, k));
    OK(cublasLtMatrixLayoutCreate(&p.c, CUDA_R_16BF, n, m, n));
    cublasLtMatmulPreference_t wish;
    OK(cublasLtMatmulPreferenceCreate(&wish));
    size_t bytes = WORKSPACE;
    OK(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                            sizeof bytes));
    cublasLtMatmulHeuristicResult_t found[12];
    int count = 0;
    OK(cublasLtMatmulAlgoGetHeuristic(lt, p.op, p.a, p.b, p.c, p.c, wish, 12, found, &count));
    float best = 1e30f;
    cudaEvent_t from, to;
    OK(cudaEventCreate(&from));
    OK(cudaEventCreate(&to));
    for (int i = 0; i < count; i++) {
        Product q = p;
        q.algo = found[i].algo;
        q.run(x, w, NULL, y);
        OK(cudaEventRecord(from));
        for (int r = 0; r < 4; r++)
            q.run(x, w, NULL, y);
        OK(cudaEventRecord(to));
        OK(cudaEventSynchronize(to));
        float ms;
        OK(cudaEventElapsedTime(&ms, from, to));
        if (ms < best) {
            best = ms;
            p.algo = q.algo;
        }
    }
    return p;
}

__global__ void multiply_kernel(uint4 *h, const uint4 *up, size_t chunks)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= chunks)
        return;
    uint4 a = h[i], b = up[i];
    __nv_bfloat162 *p = reinterpret_cast<__nv_bfloat162 *>(&a);
    const __nv_bfloat162 *q = reinterpret_cast<const __nv_bfloat162 *>(&b);
    for (int j = 0; j < 4; j++)
        p[j] = __hmul2(p[j], q[j]);
    h[i] = a;
}

struct Form {
    std::string name;
    std::function<void(int)> run; // with the input of that number
    std::vector<float> ms;
};

void time_forms(std::vector<Form> &forms, int repeats)
{
    cudaEvent_t from, to;
    OK(cudaEventCreate(&from));
    OK(cudaEventCreate(&to));
    int input = 0;
    std::vector<size_t> order(forms.size());
    for (size_t i = 0; i < order.size(); i++)
        order[i] = i;
    for (int r = -WARM_UPS; r < repeats; r++) {
        for (size_t i = order.size() - 1; i > 0; i--) { // another order each time
            normal();
            std::swap(order[i], order[state % (i + 1)]);
        }
        for (size_t at : order) {
            Form &form = forms[at];
            input = (input + 1) % ROTATE;
            OK(cudaEventRecord(from));
            form.run(input);
            OK(cudaEventRecord(to));
            OK(cudaEventSynchronize(to));
            float ms;
            OK(cudaEventElapsedTime(&ms, from, to));
            if (r >= 0)
                form.ms.push_back(ms);
        }
    }
}

float median(std::vector<float> v)
{
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

/* ---- the layer under test ---- */

struct Layer {
    tw_ffn *ffn = NULL;
    twp_ffn_call call = {};
    void *work = NULL, *counts = NULL;
};

Layer layer(const tw_ffn_desc &desc, int m, bool is_counting, int row_limit)
{
    Layer l;
    if (twp_ffn_create(&desc, TW_BF16, &l.ffn, &err) != TW_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    if (row_limit > 0)
        l.ffn->row_limit = row_limit;
    l.work = device<char>(twp_ffn_work_bytes(l.ffn, m));
    l.call.rows = m;
    twp_ffn_work_carve(l.ffn, m, l.work, &l.call.work);
    if (is_counting) {
        int32_t n = (int32_t)desc.d_ff;
        tw_active active[2] = {};
        active[0].kind = TW_ACTIVE_GATE;
        active[1].kind = TW_ACTIVE_HIDDEN;
        tw_probes probes = {2, active};
        twp_counts_defs(&probes, &l.call.counts);
        l.counts = device<char>(twp_cuda_counts_bytes(m, n, l.call.counts.defs));
        twp_counts_carve(m, n, l.counts, &l.call.counts);
        l.call.counts.is_on = true;
        OK(twp_counts_clear(&l.call.counts, m, n, 0, &err));
    }
    return l;
}

void layer_free(Layer &l)
{
    twp_ffn_destroy(l.ffn);
    cudaFree(l.work);
    cudaFree(l.counts);
}

std::vector<double> list(const char *text)
{
    std::vector<double> out;
    for (char *at = const_cast<char *>(text); *at;) {
        out.push_back(strtod(at, &at));
        at += *at == ',';
    }
    return out;
}

} // namespace

#endif
