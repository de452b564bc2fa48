/* Times the cuda backend's attention on one GPU: causal, bf16, ROWS rows as
 * sequences of T, WIDTH / D heads of D. A line for each T, D and form of the
 * kernel, measured by turns: median and least time, TFLOP/s at the median of
 * 2 T^2 D FLOP a head and sequence, and how far its values are from the
 * portable kernel's. "taken" is what the backend runs.
 *
 *     bench_attention_cuda [REPEATS [ROWS]]
 *
 * scripts/bench_attention_cuda builds and runs it. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/launch_model.h"

namespace
{

constexpr int WIDTH = 2048, WARM_UPS = 3, COMPARED = 1 << 22;

#define OK(call)                                                               \
    do {                                                                       \
        if (auto status_ = (call)) {                                           \
            fprintf(stderr, "%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call,   \
                    (int)status_, err.text);                                   \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

tw_error err;
int rows = 65536;

using launcher = tw_status (*)(const twp_device *, const twp_attention_args *,
                               cudaStream_t, tw_error *);

tw_status run_portable(const twp_device *device, const twp_attention_args *args,
                       cudaStream_t stream, tw_error *error)
{
    twp_device portable = *device;
    portable.path = TW_CUDA_PORTABLE;
    return tw_launch_attention(&portable, args, stream, error);
}

/* Each head size's first is the measure of the others' values. */
const struct form {
    int head_dim;
    const char *name;
    launcher run;
} forms[] = {
    {64, "portable", run_portable},  {64, "taken", tw_launch_attention},
    {96, "portable", run_portable},  {96, "taken", tw_launch_attention},
    {128, "portable", run_portable}, {128, "taken", tw_launch_attention},
    {256, "portable", run_portable},
};
constexpr int FORMS = sizeof forms / sizeof forms[0];

template <typename T> T *device_of(const std::vector<T> &host)
{
    T *p;
    OK(cudaMalloc(&p, host.size() * sizeof(T)));
    OK(cudaMemcpy(p, host.data(), host.size() * sizeof(T),
                  cudaMemcpyHostToDevice));
    return p;
}

/* Uniform in (-2, 2), as bf16: a float's upper half. */
uint16_t *numbers()
{
    static uint32_t state = 1;
    std::vector<uint16_t> v((size_t)rows * WIDTH);
    for (auto &e : v) {
        state = state * 1664525 + 1013904223;
        float x = (float)(int32_t)state * 0x1p-30f;
        uint32_t bits;
        static_assert(sizeof bits == sizeof x, "a float has 32 bits");
        std::copy_n((const char *)&x, sizeof x, (char *)&bits);
        e = (uint16_t)(bits >> 16);
    }
    return device_of(v);
}

twp_device_batch batch_of(int length)
{
    twp_device_batch batch = {};
    std::vector<int32_t> offset(1, 0), seq, place;
    for (int s = 0; s < rows / length; s++) {
        offset.push_back((s + 1) * length);
        for (int at = (length - 1) / TWP_ATTENTION_ROWS * TWP_ATTENTION_ROWS;
             at >= 0; at -= TWP_ATTENTION_ROWS) {
            seq.push_back(s);
            place.push_back(at);
        }
    }
    batch.rows = rows;
    batch.seqs = rows / length;
    batch.tiles = (int32_t)seq.size();
    batch.offset = device_of(offset);
    batch.tile_seq = device_of(seq);
    batch.tile_place = device_of(place);
    batch.work = device_of(std::vector<int32_t>(2, 0));
    return batch;
}

void free_batch(const twp_device_batch &batch)
{
    OK(cudaFree((void *)batch.offset));
    OK(cudaFree((void *)batch.tile_seq));
    OK(cudaFree((void *)batch.tile_place));
    OK(cudaFree(batch.work));
}

std::vector<uint16_t> values(const twp_attention_args &args)
{
    size_t count = (size_t)rows * args.heads * args.head_dim;
    std::vector<uint16_t> v(std::min((size_t)COMPARED, count));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(v.data(), args.y, v.size() * 2, cudaMemcpyDeviceToHost));
    return v;
}

float widened(uint16_t v)
{
    uint32_t bits = (uint32_t)v << 16;
    float x;
    std::copy_n((const char *)&bits, sizeof x, (char *)&x);
    return x;
}

/* The greatest |a - b|; NaN if there is one. */
double distance(const std::vector<uint16_t> &a, const std::vector<uint16_t> &b)
{
    double most = 0;
    for (size_t i = 0; i < a.size(); i++) {
        double far = std::fabs((double)widened(a[i]) - (double)widened(b[i]));
        if (!(far <= most))
            most = far;
    }
    return most;
}

struct timed {
    const form *what;
    twp_attention_args args;
    std::vector<float> ms;
    double far;
};

void print(timed &t, int length)
{
    std::sort(t.ms.begin(), t.ms.end());
    double median = t.ms[t.ms.size() / 2];
    double flop = 2.0 * length * length * t.args.head_dim * t.args.heads *
                  t.args.batch->seqs;
    printf("%6d %5d %6d %5d %9.4f %9.4f %8.1f %9.2g  %s\n", length,
           t.args.head_dim, t.args.heads, t.args.batch->seqs, median,
           (double)t.ms[0], flop / median * 1e-9, t.far, t.what->name);
}

/* All forms of a head size, by turns. */
void time_forms(const twp_device &device, std::vector<timed> &all, int length,
                int repeats)
{
    cudaEvent_t from, to;
    OK(cudaEventCreate(&from));
    OK(cudaEventCreate(&to));
    for (int i = -WARM_UPS; i < repeats; i++)
        for (auto &t : all) {
            float ms;
            OK(cudaEventRecord(from));
            OK(t.what->run(&device, &t.args, NULL, &err));
            OK(cudaEventRecord(to));
            OK(cudaEventSynchronize(to));
            OK(cudaEventElapsedTime(&ms, from, to));
            if (i >= 0)
                t.ms.push_back(ms);
        }
    for (auto &t : all)
        print(t, length);
    OK(cudaEventDestroy(from));
    OK(cudaEventDestroy(to));
}

void time_size(const twp_device &device, twp_attention_args args, int length,
               int repeats)
{
    const twp_device_batch batch = batch_of(length);
    args.batch = &batch;
    std::vector<timed> all;
    std::vector<uint16_t> first;
    for (int i = 0; i < FORMS; i++) {
        const form *f = &forms[i];
        if (f->head_dim != args.head_dim ||
            (device.path != TW_CUDA_HOPPER && f->run != run_portable))
            continue;
        OK(cudaMemset(args.y, 0xff, (size_t)rows * WIDTH * 2));
        OK(f->run(&device, &args, NULL, &err));
        auto own = values(args);
        if (all.empty())
            first = own;
        all.push_back({f, args, {}, distance(first, own)});
    }
    time_forms(device, all, length, repeats);
    free_batch(batch);
}

} // namespace

int main(int argc, char **argv)
{
    int repeats = argc > 1 ? atoi(argv[1]) : 20;
    rows = argc > 2 ? atoi(argv[2]) : rows;
    twp_device device;
    if (repeats < 1 || rows < 1 || argc > 3) {
        fprintf(stderr, "usage: %s [REPEATS [ROWS]]\n", argv[0]);
        return 2;
    }
    OK(twp_device_open(0, &device, &err));
    twp_attention_args args = {};
    args.type = TW_BF16;
    args.q = numbers();
    args.k = numbers();
    args.v = numbers();
    args.y = numbers();
    printf("%6s %5s %6s %5s %9s %9s %8s %9s  %s\n", "T", "size", "heads",
           "seqs", "median ms", "least ms", "TFLOP/s", "distance", "form");
    for (int dim : {64, 96, 128, 256})
        for (int length = 512; length <= std::min(rows, 8192); length *= 2) {
            args.heads = args.kv_heads = WIDTH / dim;
            args.head_dim = dim;
            args.scale = 1 / std::sqrt((float)dim);
            time_size(device, args, length, repeats);
        }
    return 0;
}
