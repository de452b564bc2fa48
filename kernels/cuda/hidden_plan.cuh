/* How a tile of hidden.cu lies in shared memory, and where its bits stand. */
#ifndef TW_KERNELS_CUDA_HIDDEN_PLAN_CUH
#define TW_KERNELS_CUDA_HIDDEN_PLAN_CUH

#include "kernels/cuda/hidden_params.cuh"
#include "kernels/cuda/planes.cuh"

namespace hidden {

using namespace product;

/* What a kernel's multiplying threads do beyond h. OFF: nothing. FAST (bf16): the
 * pattern, and whether `hidden` is it, by the rounded h, which is 0 exactly where
 * the fp32 h is. ANY: every definition, an applied one, fp16. */
enum Mode { OFF, FAST, ANY };

/* relu, relu2 and fatrelu as such, or what `act` names. */
enum Family { RELU = TW_ACT_RELU, RELU2 = TW_ACT_RELU2, FATRELU = TW_ACT_FATRELU, SMOOTH, EVERY };

/* Registers of a spare and of a multiplying thread: a plain tile is 64 registers that
 * the next product's steps carry, a gated one half of that. */
template <bool GATED> struct Registers {
    static constexpr int LOW = GATED ? 72 : 56, HIGH = GATED ? 216 : 224;
    static_assert(128 * LOW + 256 * HIGH <= 65536, "register file");
};
constexpr int COUNTED = MORE; // a multiplying warpgroup's planes are read
constexpr uint32_t FULL_WARP = 0xffffffffu;

template <bool GATED> struct Shape {
    static constexpr int COLS = GATED ? TILE_N / 2 : TILE_N;
    static constexpr int PARTS = COLS / planes::COLUMNS;
    static constexpr int UP = GATED ? 64 : 0; // of a gate value's up value, or itself
    static constexpr int VALUES = COLS / 2;   // of h in a thread
};

/* Shared memory: 128 columns of the tile at a time, which mostly leaves room for a fourth
 * stage, that takes up what the loads are late by while h goes out. */
template <Mode MODE> struct Plan {
    static constexpr int PLANES = MODE == ANY ? 1 + TWP_DEFS : MODE == FAST ? 1 : 0;
    static constexpr int H_BYTES = planes::COLUMNS / BOX * BOX_BYTES; // of 64 rows
    static constexpr int HALF_BYTES = H_BYTES + PLANES * planes::BYTES;
    static constexpr int BARRIERS = 2 * MAX_STAGES * 8;
    static constexpr int BESIDE = 2 * HALF_BYTES + BARRIERS + HELPERS / 32 * 4;
    static constexpr int FIT = (227 * 1024 - HANDOVER_BYTES - BESIDE) / STAGE_BYTES;
    static constexpr int STAGES = FIT < MAX_STAGES ? FIT : MAX_STAGES;
    static constexpr int BYTES = STAGES * STAGE_BYTES + BESIDE;
    static_assert(STAGES >= 3, "shared memory");
    static_assert(HALF_BYTES % ALIGN == 0, "swizzled boxes");
};

/* A row's 16 bytes of a plane that the multiplying threads write. */
template <Mode MODE>
__device__ __forceinline__ uint32_t plane_row(uint32_t half, int plane, int row)
{
    return half + Plan<MODE>::H_BYTES + plane * planes::BYTES + row * planes::ROW_BYTES;
}

/* Of the one that is read off h: it takes the place of the row's first columns; 8 rows
 * in a row lie in all banks. */
template <Mode MODE> __device__ __forceinline__ uint32_t copied_row(uint32_t staged, int row)
{
    return staged + row / HALF_ROWS * Plan<MODE>::HALF_BYTES + row % HALF_ROWS * (2 * BOX) +
           row % 8 * planes::ROW_BYTES;
}

} // namespace hidden

#endif
