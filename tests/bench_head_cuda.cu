/* Times the loss head on one GPU against the product it contains: K 2048, 49,152 words,
 * bf16, random data.
 *
 *     bench_head_cuda [M[,M...] [REPEATS]]
 *
 * cuBLASLt's product alone in bf16, 2048 rows at once, as PyTorch's chunks; head.c by
 * chunks of logits, and its products alone; head.c fused; the same, all rows at once
 * (head_product.cu). Prints for each the median time, that by the first's of the same
 * round, and how far its losses are from the chunks', or that they are the fused ones'.
 * scripts/bench_head_cuda builds and runs it; default 8192,65536, 20 rounds: some ten
 * seconds. */
#include "tests/bench_cuda.cuh"

extern "C" {
#include "kernels/cuda/context.h"
}

namespace {

constexpr int K = 2048, VOCAB = 49152, AT_ONCE = 2048, COLS = 4096;
constexpr int DRAWN = 8192; // rows, repeated

struct Case {
    int m;
    uint16_t *x[ROTATE], *w, *logits;
    float *wide;
    twp_map x_map[ROTATE], w_map;
    std::vector<int32_t> token, position;
    std::vector<int64_t> offset;
    tw_batch batch = {};
    twp_cuda context = {}; // its parts that the head needs
    tw_weight weight = {};
    std::vector<float> nll;
    void *part;
};

uint16_t *uploaded(const std::vector<uint16_t> &v, size_t count)
{
    uint16_t *p = device<uint16_t>(count);
    for (size_t at = 0; at < count; at += v.size())
        OK(cudaMemcpy(p + at, v.data(), std::min(v.size(), count - at) * 2,
                      cudaMemcpyHostToDevice));
    return p;
}

int32_t *uploaded(const std::vector<int32_t> &v)
{
    int32_t *p = device<int32_t>(v.size());
    OK(cudaMemcpy(p, v.data(), v.size() * 4, cudaMemcpyHostToDevice));
    return p;
}

/* One batch of sequences of 2048. */
void make_batch(Case &c)
{
    for (int r = 0; r < c.m; r++) {
        normal();
        c.token.push_back((int32_t)(state % VOCAB));
        c.position.push_back(r % 2048);
        if (r % 2048 == 0)
            c.offset.push_back(r);
    }
    c.offset.push_back(c.m);
    c.batch.rows = c.m;
    c.batch.seqs = (int64_t)c.offset.size() - 1;
    c.batch.offset = c.offset.data();
    c.batch.token = c.token.data();
    twp_flight &flight = c.context.flight[0];
    flight.batch = &c.batch;
    flight.nll_host.is_host = flight.wanted_host.is_host = true;
    flight.on_device.rows = c.m;
    flight.on_device.seqs = (int32_t)c.batch.seqs;
    flight.on_device.token = uploaded(c.token);
    flight.on_device.position = uploaded(c.position);
    c.context.now = &flight;
}

void make_case(Case &c, int m)
{
    c.m = m;
    auto x = normals((size_t)DRAWN * K, 1);
    for (int i = 0; i < ROTATE; i++) {
        c.x[i] = uploaded(x, (size_t)m * K);
        OK(twp_map_encode(&c.x_map[i], TW_BF16, c.x[i], m, K, K, &err));
    }
    c.w = uploaded(normals((size_t)DRAWN * K, 1 / sqrtf(K)), (size_t)VOCAB * K);
    OK(twp_map_encode(&c.w_map, TW_BF16, c.w, VOCAB, K, K, &err));
    c.logits = device<uint16_t>((size_t)AT_ONCE * VOCAB);
    c.wide = device<float>((size_t)AT_ONCE * COLS);
    c.part = device<char>(tw_head_part_bytes(m, VOCAB));
    c.weight.data = c.w;
    c.weight.rows = VOCAB;
    c.weight.cols = K;
    c.nll.resize(m);
    OK(twp_device_open(0, &c.context.device, &err));
    c.context.type = TW_BF16;
    OK(twp_products_create(&c.context.products, &err));
    make_batch(c);
}

/* head.c on that path. */
void run_head(Case &c, int i, tw_cuda_path path)
{
    tw_head head = {};
    head.scale = 1;
    tw_head_obs obs = {};
    obs.nll = c.nll.data();
    c.context.device.path = path;
    OK(twp_cuda_head_nll(&c.context, c.x[i], &c.weight, &head, &obs, &err));
    c.context.device.path = TW_CUDA_HOPPER;
}

/* The fused kernels, all rows at once. */
void run_fused(Case &c, int i)
{
    twp_head_args a = {};
    a.type = TW_BF16;
    a.x = &c.x_map[i];
    a.w = &c.w_map;
    a.k = K;
    a.vocab = VOCAB;
    a.rows = c.m;
    a.scale = 1;
    a.part = c.part;
    a.nll = (float *)c.context.now->nll_device.at;
    a.batch = &c.context.now->on_device;
    OK(tw_launch_head(&c.context.device, &a, 0, &err));
}

/* head.c's products without its losses. */
void run_wide(Case &c, int i)
{
    for (int row = 0; row < c.m; row += AT_ONCE)
        for (int col = 0; col < VOCAB; col += COLS) {
            twp_product p = {};
            p.y = c.wide;
            p.x = c.x[i] + (size_t)row * K;
            p.w = c.w + (size_t)col * K;
            p.m = std::min(AT_ONCE, c.m - row);
            p.n = p.ld = std::min(COLS, VOCAB - col);
            p.k = K;
            p.is_wide = true;
            OK(twp_multiply(&c.context, &p, &err));
        }
}

std::vector<float> losses(Case &c)
{
    std::vector<float> v(c.m);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(v.data(), c.context.now->nll_device.at, v.size() * 4, cudaMemcpyDeviceToHost));
    return v;
}

float distance(const std::vector<float> &a, const std::vector<float> &b)
{
    float far = 0;
    for (size_t i = 0; i < a.size(); i++)
        if (std::isnan(a[i]) || std::isnan(b[i]))
            far = std::isnan(a[i]) && std::isnan(b[i]) ? far : INFINITY;
        else
            far = std::max(far, fabsf(a[i] - b[i]));
    return far;
}

void bench(int m, int repeats)
{
    Case c;
    make_case(c, m);
    Product torch = product(std::min(m, AT_ONCE), VOCAB, K, CUBLASLT_EPILOGUE_DEFAULT, 0, c.x[0],
                            c.w, c.logits);
    std::vector<Form> forms = {
        {"cuBLASLt product, 2048 rows",
         [&](int i) {
             for (int row = 0; row < m; row += AT_ONCE)
                 torch.run(c.x[i] + (size_t)row * K, c.w, NULL, c.logits);
         },
         {}},
        {"head.c's chunks, products alone", [&](int i) { run_wide(c, i); }, {}},
        {"head.c's chunks", [&](int i) { run_head(c, i, TW_CUDA_PORTABLE); }, {}},
        {"head.c, fused", [&](int i) { run_head(c, i, TW_CUDA_HOPPER); }, {}},
        {"fused, all rows at once", [&](int i) { run_fused(c, i); }, {}}};
    std::vector<std::vector<float>> nll;
    for (const Form &form : forms) {
        if (c.context.now->nll_device.at)
            OK(cudaMemset(c.context.now->nll_device.at, 0xff, (size_t)m * 4));
        form.run(0);
        nll.push_back(c.context.now->nll_device.at ? losses(c) : std::vector<float>());
    }
    time_forms(forms, repeats);
    printf("\nM %d, vocabulary %d, K %d\n%-34s %9s %8s %9s\n", m, VOCAB, K, "", "median ms",
           "/product", "distance");
    for (size_t i = 0; i < forms.size(); i++) {
        std::vector<float> by;
        for (size_t r = 0; r < forms[i].ms.size(); r++)
            by.push_back(forms[i].ms[r] / forms[0].ms[r]);
        printf("%-34s %9.4f %8.3f", forms[i].name.c_str(), median(forms[i].ms), median(by));
        if (i >= 2)
            printf(" %9.2g%s", distance(nll[i], nll[2]),
                   memcmp(nll[i].data(), nll[3].data(), (size_t)m * 4) ? "" : ", as fused");
        printf("\n");
    }
    fflush(stdout);
}

} // namespace

int main(int argc, char **argv)
{
    auto ms = list(argc > 1 ? argv[1] : "8192,65536");
    int repeats = argc > 2 ? atoi(argv[2]) : 20;
    OK(cublasLtCreate(&lt));
    lt_workspace = device<char>(WORKSPACE);
    for (double m : ms)
        bench((int)m, repeats);
    return 0;
}
