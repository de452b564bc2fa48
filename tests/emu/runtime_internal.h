/* What the stand-in of the runtime shares. */
#ifndef TESTS_EMU_RUNTIME_INTERNAL_H
#define TESTS_EMU_RUNTIME_INTERNAL_H

#include <functional>

#include "emu_internal.h"

namespace emu
{

/* The error, kept as the last one. */
cudaError_t failed(cudaError_t error);
/* Puts work into the stream, or into the graph that it's captured into. */
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
/* All that was put into any stream happens. */
void finish_all();
/* All that was put into it until now happens; NULL: what the default stream
 * waits for. */
void finish(cudaStream_t stream);
/* Bytes that one block may have, at most. */
size_t most_shared();
/* Was it made by cudaMallocHost? */
bool is_pinned(const void *memory);

} // namespace emu

#endif
