// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace bench {

// Page-aligned ordinary memory, kept until the end: what a program that knows nothing of the
// library's own allocator passes to it.
class PrivateMemory {
  public:
    float* allocate(std::size_t count) {
        constexpr std::size_t page = 4096;
        const std::size_t bytes = (count * sizeof(float) + page - 1) / page * page;
        blocks_.emplace_back(static_cast<float*>(std::aligned_alloc(page, bytes)), &std::free);
        if (!blocks_.back()) throw std::bad_alloc();
        return blocks_.back().get();
    }

  private:
    std::vector<std::unique_ptr<float, decltype(&std::free)>> blocks_;
};

}  // namespace bench
