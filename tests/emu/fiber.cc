/* Fibers: contexts of a stack each, switched by hand (x86-64: some 5 ns) or by
 * ucontext. */
#include "emu_internal.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define EMU_ASAN 1
#define STACK (512 << 10)
#else
#define EMU_ASAN 0
#define STACK (128 << 10)
#endif

namespace emu {

#if defined(__x86_64__)

extern "C" void emu_switch(void **save, void *load);
asm(".text\n"
    ".type emu_switch, @function\n"
    "emu_switch:\n"
    "pushq %rbp\n"
    "pushq %rbx\n"
    "pushq %r12\n"
    "pushq %r13\n"
    "pushq %r14\n"
    "pushq %r15\n"
    "movq %rsp, (%rdi)\n"
    "movq %rsi, %rsp\n"
    "popq %r15\n"
    "popq %r14\n"
    "popq %r13\n"
    "popq %r12\n"
    "popq %rbx\n"
    "popq %rbp\n"
    "ret\n"
    ".size emu_switch, .-emu_switch\n");

static void begin(Context &context, uint8_t *stack, void (*entry)())
{
    void **top = reinterpret_cast<void **>(stack + STACK);
    memset(top - 8, 0, 8 * sizeof *top);
    top[-2] = reinterpret_cast<void *>(entry);
    context.sp = top - 8;
}

static void change(Context &from, Context &to)
{
    emu_switch(&from.sp, to.sp);
}

#else

static void begin(Context &context, uint8_t *stack, void (*entry)())
{
    auto *u = static_cast<ucontext_t *>(context.sp ? context.sp : malloc(sizeof(ucontext_t)));
    getcontext(u);
    u->uc_stack.ss_sp = stack;
    u->uc_stack.ss_size = STACK;
    u->uc_link = nullptr;
    makecontext(u, entry, 0);
    context.sp = u;
}

static void change(Context &from, Context &to)
{
    if (!from.sp)
        from.sp = malloc(sizeof(ucontext_t));
    swapcontext(static_cast<ucontext_t *>(from.sp), static_cast<ucontext_t *>(to.sp));
}

#endif

/* Stacks with a page between them that can't be touched. */
static uint8_t *stack_of(int number)
{
    static uint8_t *stacks[MAX_THREADS * CLUSTER_BLOCKS];
    if (!stacks[number]) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        void *memory = mmap(nullptr, STACK + page, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0)
            die("no memory for a thread's stack");
        stacks[number] = static_cast<uint8_t *>(memory) + page;
    }
    return stacks[number];
}

void prepare(Context &context, int number, void (*entry)())
{
    uint8_t *stack = stack_of(number);
#if EMU_ASAN
    ASAN_UNPOISON_MEMORY_REGION(stack, STACK); // frames that the last block left
#endif
    begin(context, stack, entry);
    context.fake = nullptr;
    context.bottom = stack;
    context.size = STACK;
}

void take_thread(Context &context)
{
    pthread_attr_t attributes;
    void *bottom;
    if (context.size || pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    pthread_attr_getstack(&attributes, &bottom, &context.size);
    pthread_attr_destroy(&attributes);
    context.bottom = bottom;
}

void jump(Context &from, Context &to, bool is_end)
{
#if EMU_ASAN
    __sanitizer_start_switch_fiber(is_end ? nullptr : &from.fake, to.bottom, to.size);
#else
    (void)is_end;
#endif
    change(from, to);
#if EMU_ASAN
    __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#endif
}

void enter()
{
#if EMU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

/* ---- host threads ---- */

struct Worker {
    pthread_t thread;
    sem_t go, done;
    void (*f)(void *);
    void *argument;
    bool is_there;
};

static void *work(void *given)
{
    Worker *worker = static_cast<Worker *>(given);
    for (;;) {
        while (sem_wait(&worker->go) != 0) {
        }
        worker->f(worker->argument);
        sem_post(&worker->done);
    }
    return nullptr;
}

void on_thread(int number, void (*f)(void *), void *argument)
{
    static Worker workers[CLUSTER_BLOCKS];
    if (number == 0)
        return f(argument);
    Worker &worker = workers[number];
    if (!worker.is_there) {
        sem_init(&worker.go, 0, 0);
        sem_init(&worker.done, 0, 0);
        if (pthread_create(&worker.thread, nullptr, work, &worker) != 0)
            die("no host thread for a block");
        worker.is_there = true;
    }
    worker.f = f;
    worker.argument = argument;
    sem_post(&worker.go);
    while (sem_wait(&worker.done) != 0) {
    }
}

} // namespace emu
