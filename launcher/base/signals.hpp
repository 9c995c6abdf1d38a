// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <csignal>
#include <initializer_list>
#include <optional>

#include "base/file.hpp"

namespace batchai::base {

// Blocks signals as long as the object exists, so that they can be handled in one place and no
// handler interrupts a system call. A signal that has arrived and was not taken with next() has its
// usual effect when the object is destroyed.
class HeldSignals {
  public:
    explicit HeldSignals(std::initializer_list<int> numbers);
    HeldSignals(const HeldSignals&) = delete;
    HeldSignals& operator=(const HeldSignals&) = delete;
    ~HeldSignals();

    // Returns a descriptor that poll(2) reports as readable when a signal has arrived.
    [[nodiscard]] int descriptor() const { return descriptor_.get(); }
    // Takes the next signal that has arrived, if there is one.
    [[nodiscard]] std::optional<int> next() const;
    // Takes the next signal. Waits for it no longer than `time`.
    [[nodiscard]] std::optional<int> next_within(std::chrono::milliseconds time) const;

  private:
    sigset_t before_{};
    FileDescriptor descriptor_;
};

}  // namespace batchai::base
