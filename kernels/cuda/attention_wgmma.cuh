/* The kernel of attention_wgmma.cu: see there. */
#ifndef TW_KERNELS_CUDA_ATTENTION_WGMMA_CUH
#define TW_KERNELS_CUDA_ATTENTION_WGMMA_CUH

#include "kernels/cuda/attention_rows.cuh"

namespace attention_wgmma {

/* A warpgroup's way through items and their tiles; those from `own` on its rows
 * don't see. */
template <enum tw_dtype T, typename F> struct Walk {
    const Params &p;
    const int group;
    const uint32_t from_q;
    Ring<F> ring;
    Rows<F> r;
    float factor[2];

    __device__ Walk(const Params &params, int number, uint32_t memory)
        : p(params), group(number), from_q(memory + group * F::Q_BYTES), ring(memory)
    {
    }

    /* ---- tiles: the next pair when it's here, and back ---- */

    __device__ __forceinline__ void take() { hopper::barrier_wait(ring.full(), ring.parity); }
    __device__ __forceinline__ void take_next()
    {
        Ring<F> then = ring;
        then.next();
        hopper::barrier_wait(then.full(), then.parity);
    }
    __device__ __forceinline__ void give_back()
    {
        if (threadIdx.x % 128 == 0)
            hopper::barrier_arrive_here(ring.empty());
        ring.next();
    }
    __device__ __forceinline__ void give_queries_back()
    {
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            hopper::barrier_arrive_here(queries_done<F>(ring.memory));
    }
    /* Without a loader, one thread loads the first pairs; behind them, as it takes
     * a pair, the one that has the place of a pair that this warpgroup gave back
     * LAG - 1 pairs ago. */
    __device__ __forceinline__ void load_first(const Item<F> &item)
    {
        if (threadIdx.x == 0) {
            load_queries(p, item, ring.memory);
            Ring<F> to = ring;
            for (int pair = 0; pair < min(F::STAGES, item.pairs); pair++, to.next())
                load_pair(p, item, to, pair);
        }
        __syncwarp();
    }
    __device__ __forceinline__ void load_behind(const Item<F> &item, int pair)
    {
        const int wanted = pair - F::LAG + F::STAGES;
        if (F::HAS_LOADER || pair < F::LAG || wanted >= item.pairs)
            return;
        Ring<F> to = ring;
        const bool is_back = to.stage < F::LAG;
        to.stage += is_back ? F::STAGES - F::LAG : -F::LAG;
        to.parity ^= !is_back;
        if (threadIdx.x == 0)
            load_pair(p, item, to, wanted);
        __syncwarp();
    }
    __device__ __forceinline__ void pass_pair(const Item<F> &item, int pair)
    {
        load_behind(item, pair);
        take();
        hopper::named_sync(OWN + group, 128); // no thread is still to see it
        give_back();
    }

    /* ---- turns, one a tile from the second on ---- */

    __device__ __forceinline__ void await_turn()
    {
        if (F::TURNS)
            hopper::named_sync(TURN + group, 256);
    }
    __device__ __forceinline__ void pass_turn()
    {
        if (F::TURNS)
            hopper::named_arrive(TURN + (group + 1 < F::GROUPS ? group + 1 : 0), 256);
    }

    /* ---- products ---- */

    __device__ __forceinline__ void start_rows()
    {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            r.base[half] = NO_KEY;
            r.sum[half] = 0;
        }
#pragma unroll
        for (int i = 0; i < F::DIM / 2; i++)
            r.o[i] = 0;
        if constexpr (F::KEEP)
            keep_queries(r, from_q);
    }
    /* Is o rescaled, by factor? */
    __device__ __forceinline__ bool weigh_tile(const Item<F> &item, int tile)
    {
        const int key = item.begin + tile * F::N, row = item.start + group * GROUP_ROWS;
        if (key + F::N - 1 > row || key <= row + GROUP_ROWS - 1 - p.window)
            mask(r, p.window, row, key);
        const bool is_scaled = weigh(r, p.c, factor);
        hopper::settle(r.s);
        return is_scaled;
    }
    __device__ __forceinline__ void score_alone()
    {
        hopper::wgmma_fence();
        multiply_keys<T>(r, from_q, ring.k());
        hopper::wgmma_wait<0>();
        hopper::settle(r.s);
    }
    __device__ __forceinline__ void add_alone()
    {
        hopper::wgmma_fence();
        multiply_values<T>(r, ring.v());
        hopper::wgmma_wait<0>();
        hopper::settle(r.o);
        give_back();
    }
    __device__ __forceinline__ void clear(const Item<F> &item, int own)
    {
        clear_others<F>(ring.v(), item.length - item.begin - (own - 1) * F::N, group);
    }

    __device__ __forceinline__ void overlapped(const Item<F> &item, int own)
    {
        take();
        score_alone();
        give_back();
        weigh_tile(item, 0);
        round_weights<T>(r);
        take();
#pragma unroll 1
        for (int tile = 1; tile < own; tile++) {
            await_turn();
            hopper::wgmma_fence();
            multiply_keys<T>(r, from_q, ring.k());
            multiply_values<T>(r, ring.v());
            pass_turn();
            load_behind(item, tile);
            hopper::wgmma_wait<1>();
            hopper::settle(r.s);
            const bool is_scaled = weigh_tile(item, tile);
            take_next(); // here a branch, across which the compiler leaves the wait
            hopper::wgmma_wait<0>();
            hopper::settle(r.o);
            give_back();
            if (is_scaled)
                rescale(r, factor);
            round_weights<T>(r);
        }
        if (F::HAS_LOADER && !F::KEEP)
            give_queries_back();
        load_behind(item, own);
        clear(item, own);
        add_alone();
    }
    __device__ __forceinline__ void one_by_one(const Item<F> &item, int own)
    {
#pragma unroll 1
        for (int tile = 0; tile < own; tile++) {
            load_behind(item, tile);
            take();
            score_alone();
            if (weigh_tile(item, tile))
                rescale(r, factor);
            round_weights<T>(r);
            if (tile == own - 1)
                clear(item, own);
            add_alone();
        }
    }
    /* Turns and pairs of the tiles that it doesn't see. */
    __device__ __forceinline__ void pass_rest(const Item<F> &item, int own)
    {
        for (int tile = own; tile < item.tiles; tile++) {
            await_turn();
            pass_turn();
            pass_pair(item, tile + F::OVERLAP);
        }
    }

    /* ---- items ---- */

    __device__ __forceinline__ void do_item(const Item<F> &item)
    {
        const int row = item.start + group * GROUP_ROWS, end = item.start + item.have;
        const int own = (min(row + GROUP_ROWS, end) - item.begin + F::N - 1) / F::N;
        start_rows();
        if (F::HAS_LOADER && F::KEEP)
            give_queries_back();
        if constexpr (F::OVERLAP)
            overlapped(item, own);
        else
            one_by_one(item, own);
        pass_rest(item, own);
        if (!F::HAS_LOADER)
            hopper::named_sync(OWN + group, 128); // all have multiplied by Q, in whose place
        const int64_t stride = (int64_t)p.heads * F::DIM;
        store<T>(r, ring.memory + F::ROWS_AT + group * F::Q_BYTES,
                 p.y + (item.first + row) * stride + (int64_t)item.head * F::DIM, stride,
                 end - row);
    }
    /* Of which it has no row. */
    __device__ __forceinline__ void pass_item(const Item<F> &item)
    {
        give_queries_back();
        pass_pair(item, 0);
        pass_pair(item, 1);
        pass_rest(item, 1);
    }
    __device__ __forceinline__ void do_items()
    {
        if (group == F::GROUPS - 1)
            pass_turn();
        for (uint32_t parity = 0;; parity ^= 1) {
            hopper::barrier_wait(queries_here<F>(ring.memory), parity);
            const uint4 what = hopper::load_chunk(ring.memory + F::ITEM_AT);
            const Item<F> item(p, what);
            if (item.head < 0)
                break;
            if (group < item.groups)
                do_item(item);
            else
                pass_item(item);
        }
        if (group == 0)
            await_turn(); // the last one's
    }
};

/* groups: that give back. */
template <typename F>
__device__ __forceinline__ void init_barriers(uint32_t memory, int groups)
{
    Ring<F> ring(memory);
    hopper::barrier_init(queries_here<F>(memory), 1);
    hopper::barrier_init(queries_done<F>(memory), 4 * groups);
    for (int i = 0; i < F::STAGES; i++, ring.next()) {
        hopper::barrier_init(ring.full(), 1);
        hopper::barrier_init(ring.empty(), groups);
    }
    hopper::barrier_init_fence();
}

template <enum tw_dtype T, typename F>
__device__ __forceinline__ void run_with_loader(const Params &p, uint32_t memory, int group)
{
    if (threadIdx.x == 0)
        init_barriers<F>(memory, F::GROUPS);
    __syncthreads();
    if (group == F::GROUPS) {
        hopper::registers_down<F::LOW>();
        if (threadIdx.x % 128 == 0)
            load_items<F>(p, memory);
        __syncwarp();
    } else {
        hopper::registers_up<F::HIGH>();
        Walk<T, F>(p, group, memory).do_items();
    }
}

template <enum tw_dtype T, typename F>
__device__ __forceinline__ void run_one_item(const Params &p, uint32_t memory, int group)
{
    const Item<F> item(p, blockIdx.x);
    if (threadIdx.x == 0)
        init_barriers<F>(memory, item.groups);
    __syncthreads();
    if (group < item.groups) {
        Walk<T, F> walk(p, group, memory);
        walk.load_first(item);
        hopper::barrier_wait(queries_here<F>(memory), 0);
        walk.do_item(item);
    }
}

template <enum tw_dtype T, typename F>
__global__ void __launch_bounds__(F::THREADS, F::BLOCKS)
    attention_wgmma_kernel(const __grid_constant__ Params p)
{
    TW_DYNAMIC_SHARED(raw);
    const uint32_t memory = hopper::smem_address(raw);
    const int group = common_number(threadIdx.x / 128);
    if (threadIdx.x == F::THREADS - 128) {
        hopper::map_prefetch(&p.q);
        hopper::map_prefetch(&p.k);
        hopper::map_prefetch(&p.v);
    }
    common::wait_for_last();
    if constexpr (F::HAS_LOADER)
        run_with_loader<T, F>(p, memory, group);
    else
        run_one_item<T, F>(p, memory, group);
    common::let_next_start();
}

template <enum tw_dtype T, typename F>
enum tw_status run(const struct twp_device *device, const struct twp_attention_args *args,
                   cudaStream_t stream, struct tw_error *err)
{
    const struct twp_device_batch *batch = args->batch;
    struct twp_map q, k, v;
    const int64_t width = (int64_t)args->heads * F::DIM, kv = (int64_t)args->kv_heads * F::DIM;
    enum tw_status status =
        twp_map_encode_box(&q, args->type, args->q, batch->rows, width, width, GROUP_ROWS, err);
    if (status == TW_OK)
        status = twp_map_encode_box(&k, args->type, args->k, batch->rows, kv, kv, F::N, err);
    if (status == TW_OK)
        status = twp_map_encode_box(&v, args->type, args->v, batch->rows, kv, kv, F::N, err);
    if (status != TW_OK)
        return status;
    bool is_all = args->window <= 0 || args->window > INT32_MAX;
    const Params p = {common::map_of(&q),
                      common::map_of(&k),
                      common::map_of(&v),
                      static_cast<uint16_t *>(args->y),
                      batch->offset,
                      batch->tile_seq,
                      batch->tile_place,
                      batch->work,
                      batch->tiles,
                      args->heads,
                      args->kv_heads,
                      is_all ? INT32_MAX : (int32_t)args->window,
                      args->scale * LOG2_E};
    const int items = batch->tiles * args->heads;
    cudaFuncSetAttribute(attention_wgmma_kernel<T, F>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         F::BYTES);
    return common::launch("attention", attention_wgmma_kernel<T, F>,
                          F::HAS_LOADER ? min(items, device->multiprocessors) : items,
                          F::THREADS, F::BYTES, stream, err, p);
}

} // namespace attention_wgmma

#endif
