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

void bench(int m, double nnz, int repeats)
{
    double p = nnz / N, lo = 0, hi = 8; // threshold with tail p
    for (int i = 0; i < 60; i++) {
        double mid = (lo + hi) / 2;
        (0.5 * erfc(mid / sqrt(2.0)) > p ? lo : hi) = mid;
    }
    auto gate = normals((size_t)N * K, 1 / sqrtf(K));
    auto up = normals((size_t)N * K, 1 / sqrtf(K));
    auto down = normals((size_t)N * K, 1 / sqrtf(N));
    for (int n = 0; n < N; n++)
        gate[(size_t)n * K] = twp_bf16_of((float)-lo);
    tw_ffn_desc desc = {};
    desc.d_model = K;
    desc.d_ff = N;
    OK(tw_activation_parse("relu", &desc.activation, &err));
    desc.gate = {gate.data(), TW_BF16, N, K};
    desc.up = {up.data(), TW_BF16, N, K};
    desc.down = {down.data(), TW_BF16, K, N};
    desc.path = TW_FFN_TWELL;
    twp_device dev;
    OK(twp_device_open(0, &dev, &err));
    twp_device portable = dev; // the other path's kernels beside
    OK(twp_device_take_path(&portable, TW_CUDA_PORTABLE, &err));
    // inputs: fewer rows than m are drawn and repeated
    int drawn = std::min(m, 16384);
    uint16_t *x[ROTATE], *residual = device<uint16_t>((size_t)m * K);
    auto rows = normals((size_t)drawn * K, 1);
    for (int i = 0; i < drawn; i++)
        rows[(size_t)i * K] = twp_bf16_of(1);
    for (int i = 0; i < ROTATE; i++) {
        x[i] = device<uint16_t>((size_t)m * K);
        for (int r = 0; r < m; r += drawn) // each input starts elsewhere
            for (int half = 0; half < 2; half++)
                OK(cudaMemcpy(x[i] + (size_t)(r + half * (drawn / 2)) * K,
                              rows.data() + (size_t)((half + i) % 2 * (drawn / 2)) * K,
                              (size_t)drawn / 2 * K * 2, cudaMemcpyHostToDevice));
    }
    OK(cudaMemcpy(residual, x[1], (size_t)m * K * 2, cudaMemcpyDeviceToDevice));
    uint16_t *y = device<uint16_t>((size_t)m * K), *y_dense = device<uint16_t>((size_t)m * K);
    uint16_t *g = device<uint16_t>((size_t)m * N), *u = device<uint16_t>((size_t)m * N);

    Layer sparse = layer(desc, m, true, 0), plain = layer(desc, m, false, 0);
    desc.path = TW_FFN_DENSE;
    Layer dense = layer(desc, m, true, 0), dense_off = layer(desc, m, false, 0);
    void *wg = sparse.ffn->gate, *wu = sparse.ffn->up, *wd = sparse.ffn->down;
    Product gate_only = product(m, N, K, CUBLASLT_EPILOGUE_DEFAULT, 0, x[0], wg, g);
    Product gate_relu = product(m, N, K, CUBLASLT_EPILOGUE_RELU, 0, x[0], wg, g);
    Product down_add = product(m, K, N, CUBLASLT_EPILOGUE_DEFAULT, 1, g, wd, y_dense);
    size_t chunks = (size_t)m * N / 8;

    auto run = [&](Layer &l, int i, uint16_t *out) {
        l.call.x = x[i];
        l.call.residual = residual;
        l.call.y = out;
        OK(twp_ffn_run(l.ffn, &dev, &l.call, 0, &err));
    };
    auto baseline = [&](int i) {
        gate_relu.run(x[i], wg, NULL, g);
        gate_only.run(x[i], wu, NULL, u);
        multiply_kernel<<<(chunks + 255) / 256, 256>>>((uint4 *)g, (uint4 *)u, chunks);
        down_add.run(g, wd, residual, y_dense);
    };
    twp_map maps[ROTATE], h_map;
    for (int i = 0; i < ROTATE; i++)
        OK(twp_map_encode(&maps[i], TW_BF16, x[i], m, K, K, &err));
    OK(twp_map_encode(&h_map, TW_BF16, dense.call.work.h, m, N, N, &err));
    auto pack = [&](int i, const twp_device &dev) {
        twp_pack_args a = {TW_BF16, &maps[i], &sparse.ffn->gate_map, NULL, m, K, desc.activation,
                           sparse.call.work.packed};
        OK(tw_launch_pack(&dev, &a, 0, &err));
    };
    auto unpack = [&](int i, int variant, bool is_counting, bool is_hide) {
        twp_unpack_args a = {TW_BF16, sparse.call.work.packed, sparse.call.work.list_of_h,
                             sparse.call.work.is_routed, m, K, x[i], wu,
                             sparse.ffn->down_t, NULL, NULL, residual, y,
                             is_counting ? sparse.call.counts : twp_counts{}, variant};
        OK(is_hide ? tw_launch_hide(&a, 0, &err) : tw_launch_add(&a, 0, &err));
    };
    auto route = [&](int) {
        twp_route_args a = {sparse.call.work.packed, m, INT32_MAX,
                            sparse.call.work.is_routed, sparse.call.work.block_routed,
                            sparse.call.counts};
        OK(tw_launch_route(&dev, &a, 0, &err));
    };
    auto hidden = [&](int i, bool is_counting, const twp_device &dev) {
        twp_hidden_args a = {TW_BF16, &maps[i], &dense.ffn->gate_map, &dense.ffn->up_map, NULL,
                             NULL, {m, NULL, NULL}, K, N, desc.activation, NULL, dense.call.work.h, N,
                             NULL, NULL, dense.call.work.packed.count, dense.call.work.l1_part,
                             is_counting ? dense.call.counts : twp_counts{}};
        OK(tw_launch_hidden(&dev, &a, 0, &err));
    };
    auto down_own = [&](const twp_device &dev) {
        twp_down_args a = {TW_BF16, &h_map, &dense.ffn->down_map, {m, NULL, NULL}, N, K, NULL, residual,
                           y,
                           dense.call.work.l1_part, NULL, twp_counts{}};
        OK(tw_launch_down(&dev, &a, 0, &err));
    };

    baseline(0);
    run(sparse, 0, y);
    OK(cudaDeviceSynchronize());
    size_t compared = (size_t)std::min(m, 4096) * K;
    double far = distance(y, y_dense, compared);
    run(dense, 0, y);
    OK(cudaDeviceSynchronize());
    double far_dense = distance(y, y_dense, compared);
    std::vector<uint32_t> active(m);
    OK(cudaMemcpy(active.data(), sparse.call.counts.nnz[0], (size_t)m * 4,
                  cudaMemcpyDeviceToHost));
    uint32_t routed;
    OK(cudaMemcpy(&routed, sparse.call.counts.dense_rows, 4, cudaMemcpyDeviceToHost));
    double mean = 0;
    for (uint32_t v : active)
        mean += v;

    std::vector<Form> forms = {
        {"cuBLASLt gate product", [&](int i) { gate_only.run(x[i], wg, NULL, g); }, {}},
        {"pack (ours)", [&](int i) { pack(i, dev); }, {}},
        {"pack (portable)", [&](int i) { pack(i, portable); }, {}},
        {"route with statistics", route, {}},
        {"cuBLASLt dense FFN", baseline, {}},
        {"cuBLASLt down product", [&](int) { down_add.run(g, wd, residual, y_dense); }, {}},
        {"dense FFN (ours, counts)", [&](int i) { run(dense, i, y); }, {}},
        {"dense FFN (ours, none)", [&](int i) { run(dense_off, i, y); }, {}},
        {"  hidden, counts", [&](int i) { hidden(i, true, dev); }, {}},
        {"  hidden, none", [&](int i) { hidden(i, false, dev); }, {}},
        {"  hidden, counts, portable", [&](int i) { hidden(i, true, portable); }, {}},
        {"  down", [&](int) { down_own(dev); }, {}},
        {"  down, portable", [&](int) { down_own(portable); }, {}},
    };
    std::vector<uint32_t> sorted = active;
    std::sort(sorted.begin(), sorted.end());
    std::vector<Layer> routing;
    desc.path = TW_FFN_TWELL;
    for (int wanted : routed_rows) {
        int limit = (int)sorted[m - 1 - std::min(wanted, m - 1)];
        routing.push_back(layer(desc, m, true, std::max(limit, 1)));
        int routes = (int)(sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), limit));
        size_t at = routing.size() - 1;
        forms.push_back({"sparse FFN, routed " + std::to_string(routes),
                         [&, at](int i) { run(routing[at], i, y); }, {}});
    }
    if (mean / m < 400) {
        forms.push_back({"sparse FFN (counts)", [&](int i) { run(sparse, i, y); }, {}});
        forms.push_back({"sparse FFN (none)", [&](int i) { run(plain, i, y); }, {}});
        forms.push_back({"  hide, counts", [&](int i) { unpack(i, 0, true, true); }, {}});
        for (int v = 0; v <= VARIANTS; v++) {
            std::string name = " variant " + std::to_string(v);
            forms.push_back({"  hide" + name, [&, v](int i) { unpack(i, v, false, true); }, {}});
            forms.push_back({"  add" + name, [&, v](int i) { unpack(i, v, false, false); }, {}});
        }
    }
    time_forms(forms, repeats);
    printf("\nM %d, mean non-zeros %.1f, rows routed %u; rel. difference to cuBLASLt: sparse %.2e, "
           "dense %.2e\n",
           m, mean / m, routed, far, far_dense);
    printf("%-28s %9s %9s %9s %8s %8s\n", "", "median ms", "least", "mad", "/gate", "dense/");
    float gate_ms = median(forms[0].ms), dense_ms = median(forms[3].ms);
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
    for (Layer &l : routing)
        layer_free(l);
    for (Layer *l : {&sparse, &plain, &dense, &dense_off})
        layer_free(*l);
    for (uint16_t *p : {x[0], x[1], x[2], residual, y, y_dense, g, u})
        cudaFree(p);
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
