// Runs several blocks of a statement after a single setup.
//
// A statement's function runs the setup and then one block, and calls torchmark_next_block to get
// the number of runs of the next block. Here the function runs on a separate stack. So this call
// can leave it suspended, with the setup's variables alive, and resume it for the next block. The
// function stays on its caller's thread: a new thread would have other OpenMP threads, and not the
// caller's grad mode.
//
// torch's thread-local state (grad mode, inference mode, dispatch keys) is kept separately for
// each side: a guard among the setup's variables affects this statement only, and nothing that
// runs between its blocks.
#include <ATen/ThreadLocalState.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <cstdint>

namespace torchmark_support {

typedef double (*Run)(::int64_t, ::int64_t, void (*)(void), void (*)(void));

struct Blocks {
  Run run;
  ::int64_t warmup;
  char* memory;
  ::size_t size;
  ::ucontext_t caller;
  ::ucontext_t own;
  ::int64_t number;  // runs of the next block; negative: the function should return
  double seconds;    // of the last block; negative: an exception was thrown
  double cpu_start;
  double cpu_seconds;
  bool has_returned;
};

static double thread_time() {
  struct ::timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The blocks whose function is running on this thread; null if it was called for a single block.
static thread_local Blocks* running = nullptr;

static void enter(Blocks& blocks, ::int64_t number) {
  blocks.number = number;
  running = &blocks;
  const at::ThreadLocalState state;
  ::swapcontext(&blocks.caller, &blocks.own);
  at::ThreadLocalState::setThreadLocalState(state);
  running = nullptr;
}

static void begin() {
  Blocks& blocks = *running;
  blocks.seconds = blocks.run(0, blocks.warmup, nullptr, nullptr);
  blocks.has_returned = true;
}

static ::size_t stack_bytes(::size_t page) {
  const ::size_t usual = 8u << 20;
  struct ::rlimit limit;
  const bool is_limited =
      ::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const ::size_t wanted = is_limited ? static_cast<::size_t>(limit.rlim_cur) : usual;
  return (wanted + page - 1) / page * page;
}

}  // namespace torchmark_support

// Returns the runs of the next block; negative if the function should return. The function passes
// no parameter or variable, and the compiler cannot see this code. So the loop is almost the same
// code as for a single block, which the counts depend on.
extern "C" ::int64_t torchmark_next_block(double seconds) {
  using namespace torchmark_support;
  if (running == nullptr) return -1;
  Blocks& blocks = *running;
  blocks.cpu_seconds = thread_time() - blocks.cpu_start;
  blocks.seconds = seconds;
  const at::ThreadLocalState state;
  ::swapcontext(&blocks.own, &blocks.caller);
  at::ThreadLocalState::setThreadLocalState(state);
  blocks.cpu_start = thread_time();
  return blocks.number;
}

// Runs the setup and the warm-up; returns null if there is no memory for the stack.
extern "C" void* torchmark_open_blocks(torchmark_support::Run run, ::int64_t warmup) {
  using namespace torchmark_support;
  const ::size_t page = static_cast<::size_t>(::sysconf(_SC_PAGESIZE));
  const ::size_t size = stack_bytes(page) + 2 * page;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::mprotect(memory, page, PROT_NONE);  // a stack overflow faults here, as on any stack
  Blocks* const blocks = new Blocks();
  blocks->run = run;
  blocks->warmup = warmup;
  blocks->memory = static_cast<char*>(memory);
  blocks->size = size;
  ::getcontext(&blocks->own);
  // The stack begins at the same offset in its page as the caller's stack pointer has now. So
  // whatever moves the caller's stack (the kernel or torchmark) moves this one too.
  const ::size_t place = reinterpret_cast<::uintptr_t>(__builtin_frame_address(0)) % page;
  blocks->own.uc_stack.ss_sp = memory;
  blocks->own.uc_stack.ss_size = size - page + place;
  blocks->own.uc_link = &blocks->caller;
  ::makecontext(&blocks->own, begin, 0);
  enter(*blocks, 0);
  return blocks;
}

// Returns the seconds of the block; negative if the setup, this or an earlier block has thrown.
extern "C" double torchmark_run_block(void* opened, ::int64_t number, double* cpu_seconds) {
  using namespace torchmark_support;
  Blocks& blocks = *static_cast<Blocks*>(opened);
  if (!blocks.has_returned) enter(blocks, number);
  *cpu_seconds = blocks.cpu_seconds;
  return blocks.seconds;
}

// Destroys the setup's variables.
extern "C" void torchmark_close_blocks(void* opened) {
  using namespace torchmark_support;
  Blocks* const blocks = static_cast<Blocks*>(opened);
  if (!blocks->has_returned) enter(*blocks, -1);
  ::munmap(blocks->memory, blocks->size);
  delete blocks;
}
