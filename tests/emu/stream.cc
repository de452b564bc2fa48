/* Streams are lists of work that happens when the host waits for it, no earlier
 * (with TW_EMU_ORDER sometimes at once): what was not waited for is missing. The
 * default stream runs at once, behind the streams that aren't non-blocking. */
#include "runtime_internal.h"

#include <deque>
#include <set>

struct CUgraph_st {
    std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
    std::vector<std::function<void()>> work;
};
struct CUstream_st {
    bool is_blocking;
    CUgraph_st *captured;
    uint64_t put, done; /* numbers of work */
    std::deque<std::function<void()>> work;
};
struct CUevent_st {
    cudaStream_t stream; /* recorded there, before its work number `after` ends */
    uint64_t after, when;
    bool is_recorded;
};

namespace emu {

static std::set<cudaStream_t> &streams()
{
    static std::set<cudaStream_t> all;
    return all;
}

static void step(cudaStream_t stream)
{
    std::function<void()> work = std::move(stream->work.front());
    stream->work.pop_front();
    work();
    stream->done++;
}

static void finish_until(cudaStream_t stream, uint64_t number)
{
    while (stream->done < number && !stream->work.empty())
        step(stream);
}

void finish(cudaStream_t stream)
{
    Lock lock;
    if (stream)
        return finish_until(stream, stream->put);
    for (cudaStream_t other : streams())
        if (other->is_blocking)
            finish_until(other, other->put);
}

void finish_all()
{
    Lock lock;
    for (cudaStream_t stream : streams())
        finish_until(stream, stream->put);
}

/* Some stream's work happens early. */
static void stir()
{
    if (is_ordered() || any(2))
        return;
    uint32_t number = any((uint32_t)streams().size() + 1);
    for (cudaStream_t stream : streams())
        if (number-- == 0 && !stream->work.empty())
            return step(stream);
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work)
{
    Lock lock;
    if (!stream) {
        finish(nullptr);
        work();
        return cudaSuccess;
    }
    if (stream->captured) {
        stream->captured->work.push_back(std::move(work));
        return cudaSuccess;
    }
    stream->work.push_back(std::move(work));
    stream->put++;
    stir();
    return cudaSuccess;
}

} // namespace emu

using namespace emu;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    Lock lock;
    *stream = new CUstream_st{};
    (*stream)->is_blocking = !(flags & cudaStreamNonBlocking);
    streams().insert(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    Lock lock;
    if (!stream)
        return failed(cudaErrorInvalidResourceHandle);
    finish(stream);
    streams().erase(stream);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    finish(stream);
    return cudaSuccess;
}

/* Asking helps it on, so that a loop of questions ends. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    Lock lock;
    if (stream && !stream->work.empty())
        step(stream);
    return stream && !stream->work.empty() ? cudaErrorNotReady : cudaSuccess;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    *event = new CUevent_st{};
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    Lock lock;
    if (event && event->is_recorded && event->stream && streams().count(event->stream))
        finish_until(event->stream, event->after);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    Lock lock;
    if (!event)
        return failed(cudaErrorInvalidResourceHandle);
    if (stream && stream->captured)
        return failed(cudaErrorStreamCaptureUnsupported);
    event->is_recorded = true;
    event->stream = stream;
    event->after = stream ? stream->put + 1 : 0;
    return enqueue(stream, [event]() { event->when = nanoseconds(); });
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    Lock lock;
    if (!event->is_recorded || !event->stream || event->stream->done >= event->after)
        return cudaSuccess;
    step(event->stream);
    return event->stream->done >= event->after ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    Lock lock;
    if (event->is_recorded && event->stream)
        finish_until(event->stream, event->after);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    Lock lock;
    if (!from->is_recorded || !to->is_recorded)
        return failed(cudaErrorInvalidResourceHandle);
    if (cudaEventQuery(from) != cudaSuccess || cudaEventQuery(to) != cudaSuccess)
        return cudaErrorNotReady;
    *ms = (float)((double)to->when - (double)from->when) / 1e6f;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    Lock lock;
    if (!event->is_recorded || !event->stream)
        return cudaSuccess;
    cudaStream_t other = event->stream;
    uint64_t after = event->after;
    return enqueue(stream, [other, after]() {
        if (streams().count(other))
            finish_until(other, after);
    });
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode)
{
    Lock lock;
    if (!stream || stream->captured)
        return failed(cudaErrorStreamCaptureUnsupported);
    stream->captured = new CUgraph_st;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    Lock lock;
    *graph = stream->captured;
    stream->captured = nullptr;
    return *graph ? cudaSuccess : failed(cudaErrorStreamCaptureUnsupported);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    *exec = new CUgraphExec_st{graph->work};
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < exec->work.size() && error == cudaSuccess; i++)
        error = enqueue(stream, exec->work[i]);
    return error;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

} // extern "C"
