/* The multiplying warpgroups of hidden.cu: a tile's sums become h, and bits, in shared
 * memory. */
#ifndef TW_KERNELS_CUDA_HIDDEN_HALF_CUH
#define TW_KERNELS_CUDA_HIDDEN_HALF_CUH

#include "kernels/cuda/hidden_stage.cuh"

namespace hidden {

/* A warpgroup's half of a tile, from its sums to shared memory, a part at a time. ANY:
 * at once, for its planes need the values. */
template <Family F, bool GATED, enum tw_dtype T, Mode MODE> struct Half {
    using S = Shape<GATED>;
    static constexpr bool IS_CUT = F == RELU || F == RELU2 || F == FATRELU;
    static constexpr bool IS_PAIR = !GATED && (F == RELU || F == FATRELU); // h is act(gate)
    static constexpr bool IS_LATER = MODE != ANY;
    /* Goes: chunks, a part's counts, then some in which it leaves shared memory. */
    static constexpr int AT_ONCE = 4, GOES = planes::COLUMNS / 8 / AT_ONCE, PAUSE = 8;
    static constexpr int ALL = GOES + 1 + PAUSE;
    uint32_t pair[S::COLS / 4]; // of h
    uint32_t pattern[2];        // of a part
    uint32_t nonzeros;          // how many values of h aren't 0, in each half
    float l1[2][IS_PAIR ? 1 : S::PARTS]; // one part's at a time, or all
    Later<ALL * S::PARTS - PAUSE> later;
    uint32_t staged, differs;
    int half, place, tile;
    bool is_first = true;

    __device__ Half(uint32_t memory, uint32_t flags, int of)
        : staged(memory + of * Plan<MODE>::HALF_BYTES), differs(flags + 4 * of), half(of)
    {
    }
    /* The last part is out of shared memory. */
    __device__ __forceinline__ void wait()
    {
        if (!is_first)
            meet(TAKEN + half);
    }
    /* So is its pattern. */
    __device__ __forceinline__ void wait_pattern(const Params &p)
    {
        if (MODE == FAST && !is_first && p.counts.is_on)
            meet(COUNTED + half);
    }
    /* Nothing is left of a tile that the other warpgroup has alone. */
    __device__ __forceinline__ void skip(const Params &p)
    {
        wait();
        wait_pattern(p);
    }
    __device__ __forceinline__ void add_l1(int j, int i, float low, float high)
    {
        l1[i][IS_PAIR ? 0 : j / 16] += fabsf(low) + fabsf(high);
    }
    __device__ __forceinline__ void take(float (&d)[128], const Params &p, int first, int number,
                                         int rows)
    {
        place = first;
        tile = number;
        pattern[0] = pattern[1] = nonzeros = 0;
        if (!IS_PAIR)
#pragma unroll
            for (int i = 0; i < 2 * S::PARTS; i++)
                l1[i % 2][i / 2] = 0;
        finish_products<GATED>(d, p, tile);
        if (F == SMOOTH)
            act::activate<T, S::VALUES, true>(d, p.act, p.threshold);
        if (F == EVERY)
            act::activate<T, S::VALUES, false>(d, p.act, p.threshold);
        later.open();
#pragma unroll
        for (int part = 0; part < S::PARTS; part++) {
            if (!IS_LATER) {
                wait();
                make_any<GATED>(d, p, staged, place, tile, part, rows);
            }
#pragma unroll
            for (int j = 16 * part; j < 16 * (part + 1); j++)
#pragma unroll
                for (int i = 0; i < 2; i++) // chunk j, rows 8 i on
                    pair[2 * j + i] = make(d, p, j, i);
            if (!IS_LATER)
                leave_part(p, part, rows);
        }
    }
    __device__ __forceinline__ uint32_t make(const float (&d)[128], const Params &p, int j, int i)
    {
        int v = 4 * j + 2 * i;
        float low = d[v], high = d[v + 1];
        uint32_t cut = 0; // act(gate), rounded
        if (IS_CUT) {
            cut = common::cut_pair<F, T>(low, high, p.threshold);
            low = common::packed_value<F>(common::low_half<T>(cut));
            high = common::packed_value<F>(common::high_half<T>(cut));
        }
        if (IS_PAIR)
            return cut;
        if (MODE == FAST && GATED && (!IS_CUT || F == RELU2))
            cut = hopper::round_pair<T>(low, high);
        if (MODE == FAST && GATED)
            pattern[i] = 2 * pattern[i] + hopper::nonzero_halves(cut);
        if (F == EVERY) {
            low = d[S::UP + v]; // h is made
            high = d[S::UP + v + 1];
        } else if (GATED) {
            low = hopper::mul_ftz(low, d[S::UP + v]);
            high = hopper::mul_ftz(high, d[S::UP + v + 1]);
        }
        add_l1(j, i, low, high);
        return hopper::round_pair<T>(low, high);
    }
    /* A pair of h, of chunk j. */
    __device__ __forceinline__ void count(int j, int i, uint32_t h)
    {
        if (F == RELU2 && !GATED) // or the compiler looks at all h at once, which spills
            h &= 0x7fff7fffu;
        uint32_t ones = hopper::nonzero_halves(h);
        if (GATED)
            nonzeros += ones;
        else
            pattern[i] = 2 * pattern[i] + ones;
        if (IS_PAIR)
            add_l1(j, i, common::low_half<T>(h), common::high_half<T>(h));
    }
    /* Chunks number `go` of a part. */
    __device__ __forceinline__ void leave(int part, int go)
    {
        if (IS_LATER && go == 0)
            wait();
        if (IS_PAIR && go == 0)
            l1[0][0] = l1[1][0] = 0;
        if (!GATED && go == 0)
            pattern[0] = pattern[1] = 0;
        uint32_t base = boxed_base(staged);
#pragma unroll
        for (int at = go * AT_ONCE; at < (go + 1) * AT_ONCE; at += 2) {
            int j = 16 * part + at;
            hopper::store_blocks(boxed_pair(base, at), pair[2 * j], pair[2 * j + 1],
                                 pair[2 * j + 2], pair[2 * j + 3]);
#pragma unroll
            for (int i = 0; i < (MODE == FAST ? 4 : 0); i++)
                count(j, i % 2, pair[2 * j + i]);
        }
    }
    __device__ __forceinline__ void store_pattern(const Params &p)
    {
        int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
        wait_pattern(p);
        for (int i = 0; i < 2; i++)
            hopper::store_word(plane_row<MODE>(staged, 0, row + 8 * i) + lane % 4 * 4,
                               word_of_flags(pattern[i]));
        uint32_t n = __popc(pattern[0]) + __popc(pattern[1]);
        if (GATED && n != (nonzeros & 0xffff) + (nonzeros >> 16))
            hopper::store_word(differs, 1);
    }
    __device__ __forceinline__ void publish(const Params &p, int part, int rows)
    {
        if (MODE != OFF && p.counts.is_on) {
            int number = tile * S::PARTS + part, sum = IS_PAIR ? 0 : part;
            if (MODE == FAST)
                store_pattern(p);
            if (publish_l1<T>(l1[0][sum], l1[1][sum], p, place, number, rows))
                find_bad<T>(p, staged, place, number, rows);
        }
        is_first = false;
        hopper::proxy_fence();
        __syncwarp();
        arrive(STAGED + half);
    }
    __device__ __forceinline__ void leave_part(const Params &p, int part, int rows)
    {
#pragma unroll
        for (int go = 0; go < GOES; go++)
            leave(part, go);
        publish(p, part, rows);
        later.next = ALL * S::PARTS - PAUSE;
    }
    __device__ __forceinline__ void go(const Params &p, int number, int rows)
    {
        int part = number / ALL, within = number % ALL;
        if (within < GOES)
            leave(part, within);
        else if (within == GOES)
            publish(p, part, rows);
    }
    __device__ __forceinline__ void step(const Params &p, int rows)
    {
        later.step([&](int number) { go(p, number, rows); });
    }
    __device__ __forceinline__ void finish(const Params &p, int rows)
    {
        later.finish([&](int number) { go(p, number, rows); });
    }
};

} // namespace hidden

#endif
