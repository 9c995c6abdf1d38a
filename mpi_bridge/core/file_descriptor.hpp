// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "core/fork_guard.hpp"

namespace mpi_bridge {

// Owns a file descriptor that is closed in forked children; see core/fork_guard.hpp.
class FileDescriptor {
  public:
    FileDescriptor() = default;
    explicit FileDescriptor(int number) : number_(number) { close_in_children(number); }
    FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    FileDescriptor& operator=(FileDescriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    FileDescriptor(const FileDescriptor&) = delete;
    FileDescriptor& operator=(const FileDescriptor&) = delete;
    ~FileDescriptor() {
        if (number_ >= 0) close_unless_inherited(number_);
    }

    [[nodiscard]] int number() const { return number_; }
    [[nodiscard]] explicit operator bool() const { return number_ >= 0; }

  private:
    int number_ = -1;
};

}  // namespace mpi_bridge
