/* Times the cuda backend's gated feed-forward layer against cuBLASLt on one GPU:
 * K 2048, N 5632, bf16, random data in which each neuron fires equally often.
 *
 *     bench_ffn_cuda [M[,M...] [NNZ[,NNZ...] [REPEATS [ROUTED[,ROUTED...]]]]]
 *
 * All forms run interleaved, in another order in each repeat (what runs after a
 * gather finds a cooler, faster chip), on inputs that rotate past the L2 cache;
 * medians, least times and the median distance from
 * the median are printed, and how far the outputs are apart. Built by
 * scripts/bench_ffn_cuda, which is the way to run it. */
#include "tests/bench_cuda.cuh"

namespace {

constexpr int K = 2048, N = 5632, VARIANTS = 2;

double distance(const uint16_t *a_device, const uint16_t *b_device, size_t count)
{
    std::vector<uint16_t> a(count), b(count);
    OK(cudaMemcpy(a.data(), a_device, count * 2, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(b.data(), b_device, count * 2, cudaMemcpyDeviceToHost));
    double far = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        double p = tw_bf16_to_f32(a[i]), q = tw_bf16_to_f32(b[i]);
        far += (p - q) * (p - q);
        size += q * q;
    }
    return sqrt(far / size);
}

std::vector<double> routed_rows;

/* t with P(normal > t) = p. */
double tail(double p)
{
    double lo = 0, hi = 8;
    for (int i = 0; i < 60; i++) {
        double mid = (lo + hi) / 2;
        (0.5 * erfc(mid / sqrt(2.0)) > p ? lo : hi) = mid;
    }
    return lo;
}

/* One size and density: weights, inputs, layers and what is timed. x has a constant
 * column, whose gate weights shift every neuron's threshold. */
struct Bench {
    int m;
    std::vector<uint16_t> gate, up, down; // on the host
    tw_ffn_desc desc = {};
    twp_device dev, portable; // the other path's kernels beside
    uint16_t *x[ROTATE], *residual, *y, *y_dense, *g, *u;
    twp_map maps[ROTATE], h_map;
    Layer sparse, plain, dense, dense_off;
    std::vector<Layer> routing;
    void *wg, *wu, *wd;
    Product gate_only, gate_relu, down_add;
    std::vector<Form> forms;
    /* Of the first outputs: how far from cuBLASLt's; non-zeros; rows routed. */
    double far = 0, far_dense = 0, mean = 0;
    std::vector<uint32_t> active;
    uint32_t routed = 0;

    Bench(int rows, double nnz);
    ~Bench();
    void make_weights(double nnz);
    void make_inputs();
    void make_layers();

    void run(const Layer &l, int i, uint16_t *out) const;
    void baseline(int i) const;
    void pack(int i, const twp_device &on) const;
    void route() const;
    void unpack(int i, int variant, bool is_counting, bool is_hide) const;
    void hidden(int i, bool is_counting, const twp_device &on) const;
    void down_own(const twp_device &on) const;

    void compare();
    void add_products();
    void add_routed();
    void add_sparse();
    void print() const;
};

Bench::Bench(int rows, double nnz) : m(rows)
{
    make_weights(nnz);
    OK(twp_device_open(0, &dev, &err));
    portable = dev;
    OK(twp_device_take_path(&portable, TW_CUDA_PORTABLE, &err));
    make_inputs();
    make_layers();
}

Bench::~Bench()
{
    for (Layer &l : routing)
        layer_free(l);
    for (Layer *l : {&sparse, &plain, &dense, &dense_off})
        layer_free(*l);
    for (uint16_t *p : {x[0], x[1], x[2], residual, y, y_dense, g, u})
        cudaFree(p);
}

void Bench::make_weights(double nnz)
{
    double threshold = tail(nnz / N);
    gate = normals((size_t)N * K, 1 / sqrtf(K));
    up = normals((size_t)N * K, 1 / sqrtf(K));
    down = normals((size_t)N * K, 1 / sqrtf(N));
    for (int n = 0; n < N; n++)
        gate[(size_t)n * K] = twp_bf16_of((float)-threshold);
    desc.d_model = K;
    desc.d_ff = N;
    OK(tw_activation_parse("relu", &desc.activation, &err));
    desc.gate = {gate.data(), TW_BF16, N, K};
    desc.up = {up.data(), TW_BF16, N, K};
    desc.down = {down.data(), TW_BF16, K, N};
}

/* Fewer rows than m are drawn and repeated; each input starts elsewhere. */
void Bench::make_inputs()
{
    int drawn = std::min(m, 16384);
    residual = device<uint16_t>((size_t)m * K);
    auto rows = normals((size_t)drawn * K, 1);
    for (int i = 0; i < drawn; i++)
        rows[(size_t)i * K] = twp_bf16_of(1);
    for (int i = 0; i < ROTATE; i++) {
        x[i] = device<uint16_t>((size_t)m * K);
        for (int r = 0; r < m; r += drawn)
            for (int half = 0; half < 2; half++)
                OK(cudaMemcpy(x[i] + (size_t)(r + half * (drawn / 2)) * K,
                              rows.data() + (size_t)((half + i) % 2 * (drawn / 2)) * K,
                              (size_t)drawn / 2 * K * 2, cudaMemcpyHostToDevice));
        OK(twp_map_encode(&maps[i], TW_BF16, x[i], m, K, K, &err));
    }
    OK(cudaMemcpy(residual, x[1], (size_t)m * K * 2, cudaMemcpyDeviceToDevice));
    y = device<uint16_t>((size_t)m * K);
    y_dense = device<uint16_t>((size_t)m * K);
    g = device<uint16_t>((size_t)m * N);
    u = device<uint16_t>((size_t)m * N);
}

void Bench::make_layers()
{
    desc.path = TW_FFN_TWELL;
    sparse = layer(desc, m, true, 0);
    plain = layer(desc, m, false, 0);
    desc.path = TW_FFN_DENSE;
    dense = layer(desc, m, true, 0);
    dense_off = layer(desc, m, false, 0);
    OK(twp_map_encode(&h_map, TW_BF16, dense.call.work.h, m, N, N, &err));
    wg = sparse.ffn->gate;
    wu = sparse.ffn->up;
    wd = sparse.ffn->down;
    gate_only = product(m, N, K, CUBLASLT_EPILOGUE_DEFAULT, 0, x[0], wg, g);
    gate_relu = product(m, N, K, CUBLASLT_EPILOGUE_RELU, 0, x[0], wg, g);
    down_add = product(m, K, N, CUBLASLT_EPILOGUE_DEFAULT, 1, g, wd, y_dense);
}

/* ---- what is timed ---- */

void Bench::run(const Layer &l, int i, uint16_t *out) const
{
    twp_ffn_call call = l.call;
    call.x = x[i];
    call.residual = residual;
    call.y = out;
    OK(twp_ffn_run(l.ffn, &dev, &call, 0, &err));
}

void Bench::baseline(int i) const
{
    size_t chunks = (size_t)m * N / 8;
    gate_relu.run(x[i], wg, NULL, g);
    gate_only.run(x[i], wu, NULL, u);
    multiply_kernel<<<(chunks + 255) / 256, 256>>>((uint4 *)g, (uint4 *)u, chunks);
    down_add.run(g, wd, residual, y_dense);
}

void Bench::pack(int i, const twp_device &on) const
{
    twp_pack_args a = {TW_BF16, &maps[i], &sparse.ffn->gate_map, NULL, m, K, desc.activation,
                       sparse.call.work.packed};
    OK(tw_launch_pack(&on, &a, 0, &err));
}

void Bench::route() const
{
    const twp_ffn_call &call = sparse.call;
    twp_route_args a = {call.work.packed, m, INT32_MAX, call.work.is_routed,
                        call.work.block_routed, call.counts};
    OK(tw_launch_route(&dev, &a, 0, &err));
}

void Bench::unpack(int i, int variant, bool is_counting, bool is_hide) const
{
    const twp_ffn_call &call = sparse.call;
    twp_unpack_args a = {TW_BF16, call.work.packed, call.work.list_of_h, call.work.is_routed, m, K,
                         x[i], wu, sparse.ffn->down_t, NULL, NULL, residual, y,
                         is_counting ? call.counts : twp_counts{}, variant};
    OK(is_hide ? tw_launch_hide(&a, 0, &err) : tw_launch_add(&a, 0, &err));
}

void Bench::hidden(int i, bool is_counting, const twp_device &on) const
{
    const twp_ffn_call &call = dense.call;
    twp_hidden_args a = {TW_BF16, &maps[i], &dense.ffn->gate_map, &dense.ffn->up_map, NULL, NULL,
                         {m, NULL, NULL}, K, N, desc.activation, NULL, call.work.h, N, NULL, NULL,
                         call.work.parts,
                         is_counting ? call.counts : twp_counts{}};
    OK(tw_launch_hidden(&on, &a, 0, &err));
}

void Bench::down_own(const twp_device &on) const
{
    twp_down_args a = {TW_BF16, &h_map, &dense.ffn->down_map, {m, NULL, NULL}, N, K, NULL,
                       residual, y, dense.call.work.parts, false, twp_counts{}};
    OK(tw_launch_down(&on, &a, 0, &err));
}

/* ---- once, before ---- */

void Bench::compare()
{
    size_t compared = (size_t)std::min(m, 4096) * K;
    baseline(0);
    run(sparse, 0, y);
    OK(cudaDeviceSynchronize());
    far = distance(y, y_dense, compared);
    run(dense, 0, y);
    OK(cudaDeviceSynchronize());
    far_dense = distance(y, y_dense, compared);
    active.resize(m);
    OK(cudaMemcpy(active.data(), sparse.call.counts.nnz[0], (size_t)m * 4,
                  cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(&routed, sparse.call.counts.dense_rows, 4, cudaMemcpyDeviceToHost));
    for (uint32_t v : active)
        mean += (double)v / m;
}

/* Places of what print() divides by. */
constexpr int GATE_PRODUCT = 0, DENSE_FFN = 4;

void Bench::add_products()
{
    forms = {
        {"cuBLASLt gate product", [this](int i) { gate_only.run(x[i], wg, NULL, g); }, {}},
        {"pack (ours)", [this](int i) { pack(i, dev); }, {}},
        {"pack (portable)", [this](int i) { pack(i, portable); }, {}},
        {"route with statistics", [this](int) { route(); }, {}},
        {"cuBLASLt dense FFN", [this](int i) { baseline(i); }, {}},
        {"cuBLASLt down product", [this](int) { down_add.run(g, wd, residual, y_dense); }, {}},
        {"dense FFN (ours, counts)", [this](int i) { run(dense, i, y); }, {}},
        {"dense FFN (ours, none)", [this](int i) { run(dense_off, i, y); }, {}},
        {"  hidden, counts", [this](int i) { hidden(i, true, dev); }, {}},
        {"  hidden, none", [this](int i) { hidden(i, false, dev); }, {}},
        {"  hidden, counts, portable", [this](int i) { hidden(i, true, portable); }, {}},
        {"  down", [this](int) { down_own(dev); }, {}},
        {"  down, portable", [this](int) { down_own(portable); }, {}},
    };
}

/* Sparse layers whose row limit routes about so many rows. */
void Bench::add_routed()
{
    std::vector<uint32_t> sorted = active;
    std::sort(sorted.begin(), sorted.end());
    desc.path = TW_FFN_TWELL;
    for (int wanted : routed_rows) {
        int limit = (int)sorted[m - 1 - std::min(wanted, m - 1)];
        routing.push_back(layer(desc, m, true, std::max(limit, 1)));
        int routes = (int)(sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), limit));
        size_t at = routing.size() - 1;
        forms.push_back({"sparse FFN, routed " + std::to_string(routes),
                         [this, at](int i) { run(routing[at], i, y); }, {}});
    }
}

void Bench::add_sparse()
{
    forms.push_back({"sparse FFN (counts)", [this](int i) { run(sparse, i, y); }, {}});
    forms.push_back({"sparse FFN (none)", [this](int i) { run(plain, i, y); }, {}});
    forms.push_back({"  hide, counts", [this](int i) { unpack(i, 0, true, true); }, {}});
    for (int v = 0; v <= VARIANTS; v++) {
        std::string name = " variant " + std::to_string(v);
        forms.push_back({"  hide" + name, [this, v](int i) { unpack(i, v, false, true); }, {}});
        forms.push_back({"  add" + name, [this, v](int i) { unpack(i, v, false, false); }, {}});
    }
}

void Bench::print() const
{
    printf("\nM %d, mean non-zeros %.1f, rows routed %u; rel. difference to cuBLASLt: sparse %.2e, "
           "dense %.2e\n",
           m, mean, routed, far, far_dense);
    printf("%-28s %9s %9s %9s %8s %8s\n", "", "median ms", "least", "mad", "/gate", "dense/");
    float gate_ms = median(forms[GATE_PRODUCT].ms), dense_ms = median(forms[DENSE_FFN].ms);
    for (auto &form : forms) {
        float mid = median(form.ms);
        std::vector<float> off;
        for (float ms : form.ms)
            off.push_back(fabsf(ms - mid));
        printf("%-28s %9.4f %9.4f %9.4f %8.3f %8.3f\n", form.name.c_str(), mid,
               *std::min_element(form.ms.begin(), form.ms.end()), median(off), mid / gate_ms,
               dense_ms / mid);
    }
    fflush(stdout);
}

void bench(int m, double nnz, int repeats)
{
    Bench b(m, nnz);
    b.compare();
    b.add_products();
    b.add_routed();
    if (b.mean < 400)
        b.add_sparse();
    time_forms(b.forms, repeats);
    b.print();
}

} // namespace

int main(int argc, char **argv)
{
    auto ms = list(argc > 1 ? argv[1] : "16384,65536");
    auto nnz = list(argc > 2 ? argv[2] : "15,29,50,100,300,911");
    int repeats = argc > 3 ? atoi(argv[3]) : 30;
    routed_rows = list(argc > 4 ? argv[4] : "");
    OK(cublasLtCreate(&lt));
    lt_workspace = device<char>(WORKSPACE);
    for (double m : ms)
        for (double n : nnz)
            bench((int)m, n, repeats);
    return 0;
}
