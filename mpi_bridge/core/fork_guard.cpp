// SPDX-License-Identifier: Apache-2.0
#include "core/fork_guard.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

namespace mpi_bridge {
namespace {

// One bit per descriptor, up to the kernel's own default limit (fs.nr_open). The kernel gives out
// the lowest free number, so larger ones do not occur in practice; they are not tracked.
constexpr unsigned word_bits = 64;
constexpr unsigned most_descriptors = 1U << 20;
constinit std::array<std::atomic<std::uint64_t>, most_descriptors / word_bits> descriptors{};
constinit std::atomic<unsigned> words_in_use{0};

// Held while a descriptor is closed or the list of mappings changes, and during a fork: the child
// must not find a mark on a number that belongs to another file already.
constinit std::mutex mutex;

bool is_tracked(int descriptor) {
    return descriptor >= 0 && static_cast<unsigned>(descriptor) < most_descriptors;
}

std::atomic<std::uint64_t>& word_of(int descriptor) {
    return descriptors[static_cast<unsigned>(descriptor) / word_bits];
}

std::uint64_t bit_of(int descriptor) {
    return std::uint64_t{1} << (static_cast<unsigned>(descriptor) % word_bits);
}

}  // namespace

// The functions that pthread_atfork() calls, and the list of mappings that they work on.
class ForkHandlers {
  public:
    static void prepare() { mutex.lock(); }
    static void in_parent() { mutex.unlock(); }
    static void in_child() {
        fork_guard::generation.fetch_add(1, std::memory_order_relaxed);
        // This comes first because the files of the mappings are among the descriptors to be
        // closed.
        make_mappings_private();
        close_descriptors();
        mutex.unlock();
    }

    static void add(PrivateInChildren& mapping) {
        const std::lock_guard lock(mutex);
        mapping.next_ = first_;
        if (first_ != nullptr) first_->previous_ = &mapping;
        first_ = &mapping;
    }

    static void remove(PrivateInChildren& mapping) {
        const std::lock_guard lock(mutex);
        // The list was emptied in the child, so an inherited mapping is no longer on it.
        if (mapping.generation_ != fork_generation()) return;
        if (mapping.previous_ != nullptr) mapping.previous_->next_ = mapping.next_;
        if (mapping.next_ != nullptr) mapping.next_->previous_ = mapping.previous_;
        if (first_ == &mapping) first_ = mapping.next_;
    }

  private:
    static void make_mappings_private() {
        for (const auto* mapping = first_; mapping != nullptr; mapping = mapping->next_) {
            void* const made = ::mmap(mapping->memory_, mapping->bytes_, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, mapping->file_, 0);
            if (made != MAP_FAILED) continue;
            static_cast<void>(::mmap(mapping->memory_, mapping->bytes_, PROT_READ,
                                     MAP_SHARED | MAP_FIXED, mapping->file_, 0));
        }
        first_ = nullptr;
    }

    static void close_descriptors() {
        for (unsigned word = 0; word < words_in_use.load(std::memory_order_relaxed); ++word) {
            std::uint64_t marked = descriptors[word].exchange(0, std::memory_order_relaxed);
            for (; marked != 0; marked &= marked - 1) {
                const auto bit = static_cast<unsigned>(__builtin_ctzll(marked));
                ::close(static_cast<int>(word * word_bits + bit));
            }
        }
    }

    static inline constinit PrivateInChildren* first_ = nullptr;
};

Done guard_forks() {
    static const int failed =
        ::pthread_atfork(ForkHandlers::prepare, ForkHandlers::in_parent, ForkHandlers::in_child);
    if (failed == 0) return {};
    return fail(MPIB_ERROR_INTERNAL, "no memory for the handlers of fork()");
}

void close_in_children(int descriptor) noexcept {
    if (!is_tracked(descriptor)) return;
    word_of(descriptor).fetch_or(bit_of(descriptor), std::memory_order_relaxed);
    const unsigned words = static_cast<unsigned>(descriptor) / word_bits + 1;
    unsigned seen = words_in_use.load(std::memory_order_relaxed);
    while (seen < words && !words_in_use.compare_exchange_weak(seen, words)) {
    }
}

void close_unless_inherited(int descriptor) noexcept {
    if (!is_tracked(descriptor)) {
        if (descriptor >= 0) ::close(descriptor);
        return;
    }
    const std::lock_guard lock(mutex);
    const std::uint64_t bit = bit_of(descriptor);
    const bool own = (word_of(descriptor).fetch_and(~bit, std::memory_order_relaxed) & bit) != 0;
    if (own) ::close(descriptor);
}

PrivateInChildren::PrivateInChildren(void* memory, std::size_t bytes, int file)
    : memory_(memory), bytes_(bytes), file_(file) {
    ForkHandlers::add(*this);
}

PrivateInChildren::~PrivateInChildren() {
    ForkHandlers::remove(*this);
}

}  // namespace mpi_bridge
