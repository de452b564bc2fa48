/* Times the cuda backend's attention on one GPU: causal, bf16, ROWS rows as
 * sequences of T, WIDTH / D heads of D. A line for each T and D: median and
 * least time, and TFLOP/s at the median of 2 T^2 D FLOP a head and sequence.
 *
 *     bench_attention_cuda [REPEATS]
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

constexpr int ROWS = 16384, WIDTH = 2048, WARM_UPS = 3;

#define OK(call)                                                               \
    do {                                                                       \
        if (auto status_ = (call)) {                                           \
            fprintf(stderr, "%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call,   \
                    (int)status_, err.text);                                   \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

tw_error err;

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
    std::vector<uint16_t> v((size_t)ROWS * WIDTH);
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
    for (int s = 0; s < ROWS / length; s++) {
        offset.push_back((s + 1) * length);
        for (int at = length - TWP_ATTENTION_ROWS; at >= 0;
             at -= TWP_ATTENTION_ROWS) {
            seq.push_back(s);
            place.push_back(at);
        }
    }
    batch.rows = ROWS;
    batch.seqs = ROWS / length;
    batch.tiles = (int32_t)seq.size();
    batch.offset = device_of(offset);
    batch.tile_seq = device_of(seq);
    batch.tile_place = device_of(place);
    return batch;
}

void time_one(const twp_device &device, const twp_attention_args &args,
              int length, int repeats)
{
    cudaEvent_t from, to;
    std::vector<float> ms((size_t)repeats);
    OK(cudaEventCreate(&from));
    OK(cudaEventCreate(&to));
    for (int i = -WARM_UPS; i < repeats; i++) {
        OK(cudaEventRecord(from));
        OK(tw_launch_attention(&device, &args, NULL, &err));
        OK(cudaEventRecord(to));
        OK(cudaEventSynchronize(to));
        OK(cudaEventElapsedTime(&ms[(size_t)std::max(i, 0)], from, to));
    }
    std::sort(ms.begin(), ms.end());
    double median = ms[ms.size() / 2];
    double flop =
        2.0 * length * length * args.head_dim * args.heads * args.batch->seqs;
    printf("%6d %5d %6d %5d %9.4f %9.4f %8.1f\n", length, args.head_dim,
           args.heads, args.batch->seqs, median, (double)ms[0],
           flop / median * 1e-9);
    OK(cudaEventDestroy(from));
    OK(cudaEventDestroy(to));
}

} // namespace

int main(int argc, char **argv)
{
    int repeats = argc > 1 ? atoi(argv[1]) : 20;
    twp_device device;
    if (repeats < 1 || argc > 2) {
        fprintf(stderr, "usage: %s [REPEATS]\n", argv[0]);
        return 2;
    }
    OK(twp_device_open(0, &device, &err));
    twp_attention_args args = {};
    args.type = TW_BF16;
    args.q = numbers();
    args.k = numbers();
    args.v = numbers();
    args.y = numbers();
    printf("%6s %5s %6s %5s %9s %9s %8s\n", "T", "size", "heads", "seqs",
           "median ms", "least ms", "TFLOP/s");
    for (int dim : {64, 128, 256})
        for (int length = 512; length <= 8192; length *= 2) {
            twp_device_batch batch = batch_of(length);
            args.batch = &batch;
            args.heads = args.kv_heads = WIDTH / dim;
            args.head_dim = dim;
            args.scale = 1 / std::sqrt((float)dim);
            time_one(device, args, length, repeats);
            OK(cudaFree((void *)batch.offset));
            OK(cudaFree((void *)batch.tile_seq));
            OK(cudaFree((void *)batch.tile_place));
        }
    return 0;
}
