// SPDX-License-Identifier: Apache-2.0
#include "fiber.hpp"

#include <new>
#include <utility>

#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace mpi_bridge_scale {
namespace {

constexpr std::size_t guard_bytes = 4096;
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t stack_bytes = 512UL * 1024;  // its frames are several times as large
#else
constexpr std::size_t stack_bytes = 64UL * 1024;
#endif

Fiber* running = nullptr;

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
    memory_ = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    if (mprotect(memory_, guard_bytes, PROT_NONE) != 0 || getcontext(&inside_) != 0) {
        munmap(memory_, guard_bytes + stack_bytes);
        throw std::bad_alloc();
    }
    inside_.uc_stack.ss_sp = static_cast<std::byte*>(memory_) + guard_bytes;
    inside_.uc_stack.ss_size = stack_bytes;
    inside_.uc_link = nullptr;
    makecontext(&inside_, &Fiber::enter, 0);
}

Fiber::~Fiber() {
    munmap(memory_, guard_bytes + stack_bytes);
}

void Fiber::enter() {
    Fiber& self = *running;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &self.outer_stack_, &self.outer_stack_bytes_);
#endif
    self.body_();
    self.finished_ = true;
    self.switch_out(true);
}

void Fiber::resume() {
    running = this;
    switch_in();
    running = nullptr;
}

void Fiber::suspend() {
    running->switch_out(false);
}

void Fiber::switch_in() {
#ifdef __SANITIZE_ADDRESS__
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, inside_.uc_stack.ss_sp, inside_.uc_stack.ss_size);
    swapcontext(&outside_, &inside_);
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#else
    swapcontext(&outside_, &inside_);
#endif
}

void Fiber::switch_out([[maybe_unused]] bool for_good) {
#ifdef __SANITIZE_ADDRESS__
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack, outer_stack_,
                                   outer_stack_bytes_);
    swapcontext(&inside_, &outside_);
    __sanitizer_finish_switch_fiber(fake_stack, &outer_stack_, &outer_stack_bytes_);
#else
    swapcontext(&inside_, &outside_);
#endif
}

}  // namespace mpi_bridge_scale
