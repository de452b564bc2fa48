/* How a tile of hidden.cu lies in shared memory, and where its bits stand. */
#ifndef TW_KERNELS_CUDA_HIDDEN_PLAN_CUH
#define TW_KERNELS_CUDA_HIDDEN_PLAN_CUH

#include "kernels/cuda/hidden_params.cuh"
#include "kernels/cuda/planes.cuh"

namespace hidden {

using namespace product;

/* What a kernel's multiplying threads do beyond h. OFF: nothing. FAST (bf16): the
 * pattern, if gated; all else is read off the stored h, which is 0 exactly where
 * the fp32 h is. ANY: every definition, an applied one, fp16. */
enum Mode { OFF, FAST, ANY };

/* relu, relu2 and fatrelu as such, or what `act` names. */
enum Family { RELU = TW_ACT_RELU, RELU2 = TW_ACT_RELU2, FATRELU = TW_ACT_FATRELU, SMOOTH, EVERY };

/* Registers of a spare and of a multiplying thread: counting takes the spare ones more
 * than packing. */
template <Mode MODE> struct Registers {
    static constexpr int LOW = MODE == OFF ? 88 : 120, HIGH = MODE == OFF ? 208 : 192;
    static_assert(128 * LOW + 256 * HIGH <= 65536, "register file");
};
constexpr int COUNTING = 5;         // the barrier of the spare warps
constexpr uint32_t FULL_WARP = 0xffffffffu;

template <bool GATED> struct Shape {
    static constexpr int COLS = GATED ? TILE_N / 2 : TILE_N;
    static constexpr int PARTS = COLS / planes::COLUMNS;
    static constexpr int UP = GATED ? 64 : 0; // of a gate value's up value, or itself
    static constexpr int VALUES = COLS / 2;   // of h in a thread
    static constexpr int ROW_BYTES = COLS * 2;
};

/* Shared memory. A gated tile of h is half as wide, which leaves room for a fourth
 * stage, that lets one warpgroup multiply through the other's epilogue. */
template <bool GATED, Mode MODE> struct Plan {
    static constexpr int STAGES = GATED && MODE != ANY ? 4 : 3;
    static constexpr int PLANES = MODE == ANY ? (GATED ? 5 : 4) : MODE == FAST && GATED ? 1 : 0;
    static constexpr int H_BYTES = HALF_ROWS * Shape<GATED>::ROW_BYTES; // of a half tile
    static constexpr int HALF_BYTES = H_BYTES + PLANES * Shape<GATED>::PARTS * planes::BYTES;
    static constexpr int BARRIERS = 2 * MAX_STAGES * 8;
    static constexpr int BYTES =
        STAGES * STAGE_BYTES + 2 * HALF_BYTES + BARRIERS + HELPERS / 32 * 4;
    static_assert(BYTES <= 227 * 1024, "shared memory");
    static_assert(HALF_BYTES % 512 == 0, "staged rows");
};

/* A row's 16 bytes of a plane that the multiplying threads write. */
template <bool GATED, Mode MODE>
__device__ __forceinline__ uint32_t plane_row(uint32_t half, int plane, int part, int row)
{
    return half + Plan<GATED, MODE>::H_BYTES +
           (plane * Shape<GATED>::PARTS + part) * planes::BYTES + row * planes::ROW_BYTES;
}

/* Of the one that is read off h: it takes the place of the row's h, which is
 * written out by then; 8 rows in a row lie in all banks. */
template <bool GATED>
__device__ __forceinline__ uint32_t copied_row(uint32_t half, int part, int row)
{
    return half + row * Shape<GATED>::ROW_BYTES +
           (row % 8 * Shape<GATED>::PARTS + part) * planes::ROW_BYTES;
}

/* The top bits of a pair's halves that aren't zero: their lower 15 bits plus 0x7fff
 * carry there. A pair without signs needs one instruction less. */
__device__ __forceinline__ uint32_t nonzero_tops(uint32_t pair, bool is_signed = true)
{
    return ((is_signed ? pair & 0x7fff7fffu : pair) + 0x7fff7fffu) & 0x80008000u;
}

} // namespace hidden

#endif
