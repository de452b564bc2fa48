/* Times the forms of the products' kernels (twp_pack_args.form, twp_hidden_args.form)
 * against cuBLASLt on one GPU: K 2048, bf16, random data.
 *
 *     bench_forms_cuda [M[,M...] [REPEATS [NNZ]]]
 *
 * Prints for each form the median over the rounds of its time by cuBLASLt's of the same
 * round, and first whether its results are form 0's, bit by bit. Built and run by
 * scripts/bench_forms_cuda; default 16384,65536, 40 rounds: under a minute. */
#include "tests/bench_cuda.cuh"

namespace {

constexpr int K = 2048, N_GATED = 5632, N_PLAIN = 8192;
const int portable_forms[] = {0, 64, 80, 96, 112};

twp_device dev, portable;

/* The number whose tail of the normal distribution is p. */
float tail_from(double p)
{
    double lo = 0, hi = 8;
    for (int i = 0; i < 60; i++) {
        double mid = (lo + hi) / 2;
        (0.5 * erfc(mid / sqrt(2.0)) > p ? lo : hi) = mid;
    }
    return (float)lo;
}

/* x [rows][K] whose first column is 1, repeated beyond what is drawn. */
void make_inputs(int m, uint16_t *(&x)[ROTATE], twp_map (&maps)[ROTATE])
{
    int drawn = std::min(m, 16384);
    auto rows = normals((size_t)drawn * K, 1);
    for (int i = 0; i < drawn; i++)
        rows[(size_t)i * K] = twp_bf16_of(1);
    for (int i = 0; i < ROTATE; i++) {
        x[i] = device<uint16_t>((size_t)m * K);
        for (int r = 0; r < m; r += drawn) { // each input starts elsewhere
            size_t count = (size_t)std::min(drawn, m - r) * K;
            size_t shift = (size_t)i * 128 * K % ((size_t)drawn * K);
            size_t first = std::min(count, (size_t)drawn * K - shift);
            OK(cudaMemcpy(x[i] + (size_t)r * K, rows.data() + shift, first * 2,
                          cudaMemcpyHostToDevice));
            OK(cudaMemcpy(x[i] + (size_t)r * K + first, rows.data(), (count - first) * 2,
                          cudaMemcpyHostToDevice));
        }
        OK(twp_map_encode(&maps[i], TW_BF16, x[i], m, K, K, &err));
    }
}

/* The weights of a layer, on the host; the first column makes its rows sparse. */
struct Weights {
    std::vector<uint16_t> gate, up, down;
    tw_ffn_desc desc = {};

    Weights(int n, bool is_gated, float threshold)
        : gate(normals((size_t)n * K, 1 / sqrtf(K))), up(normals((size_t)n * K, 1 / sqrtf(K))),
          down(normals((size_t)n * K, 1 / sqrtf((float)n)))
    {
        for (int i = 0; i < n; i++)
            (is_gated ? gate : up)[(size_t)i * K] = twp_bf16_of(-threshold);
        desc.d_model = K;
        desc.d_ff = n;
        OK(tw_activation_parse("relu", &desc.activation, &err));
        if (is_gated)
            desc.gate = {gate.data(), TW_BF16, n, K};
        desc.up = {up.data(), TW_BF16, n, K};
        desc.down = {down.data(), TW_BF16, K, n};
    }
};

/* ---- are the results the same? ---- */

struct Result {
    const void *memory;
    size_t bytes;
};

/* run(form) into these parts, which are cleared before: are they form 0's? */
template <size_t COUNT, typename Run, typename Clear>
void compare(const char *name, const int (&forms)[COUNT], const std::vector<Result> &parts,
             Run run, Clear clear)
{
    std::vector<std::vector<char>> first;
    for (int form : forms) {
        clear();
        run(form);
        OK(cudaDeviceSynchronize());
        bool is_same = true;
        for (size_t i = 0; i < parts.size(); i++) {
            std::vector<char> now(parts[i].bytes);
            OK(cudaMemcpy(now.data(), parts[i].memory, now.size(), cudaMemcpyDeviceToHost));
            if (form == 0)
                first.push_back(now);
            is_same = is_same && now == first[i];
        }
        if (!is_same)
            printf("%s, form %d: results differ\n", name, form);
    }
    printf("%s: %zu forms compared\n", name, COUNT);
}

/* ---- what is timed ---- */

/* Median over the rounds of a form's time by another's. */
float ratio(const Form &form, const Form &by)
{
    std::vector<float> r;
    for (size_t i = 0; i < form.ms.size(); i++)
        r.push_back(form.ms[i] / by.ms[i]);
    return median(r);
}

/* Each beside the last of cuBLASLt above it. */
void print(const std::vector<Form> &forms)
{
    printf("%-32s %9s %8s %10s\n", "", "median ms", "/cuBLASLt", "/one above");
    size_t by = 0;
    for (size_t i = 0; i < forms.size(); i++) {
        if (forms[i].name.rfind("cuBLASLt", 0) == 0)
            by = i;
        printf("%-32s %9.4f %8.3f %10.3f\n", forms[i].name.c_str(), median(forms[i].ms),
               ratio(forms[i], forms[by]), ratio(forms[i], forms[i ? i - 1 : 0]));
    }
    fflush(stdout);
}

std::string named(const char *name, int form)
{
    return std::string(name) + std::to_string(form);
}

void bench_pack(int m, int repeats, double nnz, bool is_compared)
{
    Weights weights(N_GATED, true, tail_from(nnz / N_GATED));
    uint16_t *x[ROTATE], *g = device<uint16_t>((size_t)m * N_GATED);
    twp_map maps[ROTATE];
    make_inputs(m, x, maps);
    weights.desc.path = TW_FFN_TWELL;
    Layer l = layer(weights.desc, m, false, 0);
    Product lt_gate =
        product(m, N_GATED, K, CUBLASLT_EPILOGUE_DEFAULT, 0, x[0], l.ffn->gate, g);
    twp_packed &out = l.call.work.packed;
    auto pack = [&](const twp_device &device, int i, int form) {
        twp_pack_args a = {TW_BF16, &maps[i], &l.ffn->gate_map, NULL, m, K,
                           weights.desc.activation, out, NULL, form};
        OK(tw_launch_pack(&device, &a, 0, &err));
    };
    size_t cells = (size_t)m * out.tiles * 4;
    auto clear = [&] {
        OK(cudaMemset(out.count, 0xff, cells));
        OK(cudaMemset(out.entry, 0, cells * out.slots));
    };
    std::vector<Result> parts = {{out.count, cells}, {out.entry, cells * out.slots}};
    if (is_compared) {
        compare("pack, portable", portable_forms, parts,
                [&](int form) { pack(portable, 0, form); }, clear);
    }
    std::vector<Form> forms = {
        {"cuBLASLt product", [&](int i) { lt_gate.run(x[i], l.ffn->gate, NULL, g); }, {}}};
    forms.push_back({"pack", [&](int i) { pack(dev, i, 0); }, {}});
    for (int form : portable_forms)
        forms.push_back({named("pack, portable, form ", form),
                         [&, form](int i) { pack(portable, i, form); }, {}});
    time_forms(forms, repeats);
    printf("\nM %d, N %d, K %d, %.0f non-zeros: pack\n", m, N_GATED, K, nnz);
    print(forms);
    layer_free(l);
    for (uint16_t *p : {x[0], x[1], x[2], g})
        cudaFree(p);
}

/* hidden alone with and without counts, and the whole dense layer. */
void bench_hidden(int m, int n, bool is_gated, int repeats, double nnz)
{
    Weights weights(n, is_gated, tail_from(nnz / n));
    size_t chunks = (size_t)m * n / 8;
    uint16_t *x[ROTATE], *g = device<uint16_t>(chunks * 8);
    uint16_t *u = device<uint16_t>(is_gated ? chunks * 8 : 8), *y = device<uint16_t>((size_t)m * K);
    twp_map maps[ROTATE];
    make_inputs(m, x, maps);
    weights.desc.path = TW_FFN_DENSE;
    Layer on = layer(weights.desc, m, true, 0), off = layer(weights.desc, m, false, 0);
    void *gate = is_gated ? on.ffn->gate : on.ffn->up;
    Product lt_relu = product(m, n, K, CUBLASLT_EPILOGUE_RELU, 0, x[0], gate, g);
    Product lt_up = is_gated
                        ? product(m, n, K, CUBLASLT_EPILOGUE_DEFAULT, 0, x[0], on.ffn->up, u)
                        : Product{};
    Product lt_down = product(m, K, n, CUBLASLT_EPILOGUE_DEFAULT, 0, g, on.ffn->down, y);
    auto baseline = [&](int i) {
        lt_relu.run(x[i], gate, NULL, g);
        if (!is_gated)
            return;
        lt_up.run(x[i], on.ffn->up, NULL, u);
        multiply_kernel<<<(chunks + 255) / 256, 256>>>((uint4 *)g, (uint4 *)u, chunks);
    };
    auto hidden = [&](Layer &l, int i) {
        twp_hidden_args a = {TW_BF16, &maps[i], is_gated ? &l.ffn->gate_map : NULL, &l.ffn->up_map,
                             NULL, NULL, {m, NULL, NULL}, K, n, weights.desc.activation, NULL,
                             l.call.work.h, n, NULL, NULL, l.call.work.packed.count, l.call.work.l1_part,
                             l.call.counts};
        OK(tw_launch_hidden(&dev, &a, 0, &err));
    };
    auto ffn = [&](Layer &l, int i) {
        l.call.x = x[i];
        l.call.y = y;
        OK(twp_ffn_run(l.ffn, &dev, &l.call, 0, &err));
    };
    std::vector<Form> forms = {{is_gated ? "cuBLASLt relu, up, multiply" : "cuBLASLt relu",
                                baseline, {}}};
    forms.push_back({"hidden, none", [&](int i) { hidden(off, i); }, {}});
    forms.push_back({"hidden, counts", [&](int i) { hidden(on, i); }, {}});
    forms.push_back({"cuBLASLt dense layer",
                     [&](int i) {
                         baseline(i);
                         lt_down.run(g, on.ffn->down, NULL, y);
                     },
                     {}});
    forms.push_back({"dense layer, none", [&](int i) { ffn(off, i); }, {}});
    forms.push_back({"dense layer, counts", [&](int i) { ffn(on, i); }, {}});
    time_forms(forms, repeats);
    printf("\nM %d, N %d, K %d, %.0f non-zeros: hidden, %s\n", m, n, K, nnz,
           is_gated ? "gated" : "plain");
    print(forms);
    layer_free(on);
    layer_free(off);
    for (uint16_t *p : {x[0], x[1], x[2], g, u, y})
        cudaFree(p);
}

} // namespace

int main(int argc, char **argv)
{
    auto ms = list(argc > 1 ? argv[1] : "16384,65536");
    int repeats = argc > 2 ? atoi(argv[2]) : 40;
    double nnz = argc > 3 ? atof(argv[3]) : 29;
    OK(cublasLtCreate(&lt));
    lt_workspace = device<char>(WORKSPACE);
    OK(twp_device_open(0, &dev, &err));
    portable = dev;
    OK(twp_device_take_path(&portable, TW_CUDA_PORTABLE, &err));
    for (size_t i = 0; i < ms.size(); i++) {
        bench_pack((int)ms[i], repeats, nnz, i == 0);
        bench_hidden((int)ms[i], N_GATED, true, repeats, nnz);
        bench_hidden((int)ms[i], N_PLAIN, false, repeats, nnz);
    }
    return 0;
}
