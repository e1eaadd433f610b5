// Blocks of a statement that share one setup.
//
// A statement's function runs the setup, then a block, and asks torchmark_next_block how many runs
// the next one has. Here it runs on a stack of its own, so that this call can leave it as it
// stands, with the setup's variables alive, and come back to it when the next block is wanted. It
// stays on its caller's thread: one of its own would have other threads of OpenMP, and not the
// grad mode that the caller has set.
//
// What torch keeps by thread (grad mode, inference mode, dispatch keys) is each side's own: a guard
// among the setup's variables holds for this statement, and for nobody between its blocks.
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
  ::int64_t number;  // runs of the next block; below 0 the function is to return
  double seconds;    // of the last block; below 0 an exception was thrown
  double cpu_start;
  double cpu_seconds;
  bool has_returned;
};

static double thread_time() {
  struct ::timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Whose function runs on this thread just now; null for one that was called for one block.
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

// Runs of the next block; below 0 the function is to return. Neither a parameter of the function
// nor a variable has a part in this, and the compiler cannot see what happens here, so that the
// loop is hardly other code than it would be for one block: counts depend on it.
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

// Runs the setup and the warm-up; null if there is no memory for the stack.
extern "C" void* torchmark_open_blocks(torchmark_support::Run run, ::int64_t warmup) {
  using namespace torchmark_support;
  const ::size_t page = static_cast<::size_t>(::sysconf(_SC_PAGESIZE));
  const ::size_t size = stack_bytes(page) + 2 * page;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::mprotect(memory, page, PROT_NONE);  // an overflow ends here, as on any stack
  Blocks* const blocks = new Blocks();
  blocks->run = run;
  blocks->warmup = warmup;
  blocks->memory = static_cast<char*>(memory);
  blocks->size = size;
  ::getcontext(&blocks->own);
  // The stack begins at the same place in its page as the caller's has come to: what moves that
  // one, the kernel or torchmark itself, moves this one too.
  const ::size_t place = reinterpret_cast<::uintptr_t>(__builtin_frame_address(0)) % page;
  blocks->own.uc_stack.ss_sp = memory;
  blocks->own.uc_stack.ss_size = size - page + place;
  blocks->own.uc_link = &blocks->caller;
  ::makecontext(&blocks->own, begin, 0);
  enter(*blocks, 0);
  return blocks;
}

// Seconds of the block; below 0 if the setup, this block or one before it has thrown.
extern "C" double torchmark_run_block(void* opened, ::int64_t number, double* cpu_seconds) {
  using namespace torchmark_support;
  Blocks& blocks = *static_cast<Blocks*>(opened);
  if (!blocks.has_returned) enter(blocks, number);
  *cpu_seconds = blocks.cpu_seconds;
  return blocks.seconds;
}

// The setup's variables are destroyed here.
extern "C" void torchmark_close_blocks(void* opened) {
  using namespace torchmark_support;
  Blocks* const blocks = static_cast<Blocks*>(opened);
  if (!blocks->has_returned) enter(*blocks, -1);
  ::munmap(blocks->memory, blocks->size);
  delete blocks;
}
