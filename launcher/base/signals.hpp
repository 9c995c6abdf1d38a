// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <csignal>
#include <initializer_list>
#include <optional>

#include "base/file.hpp"

namespace batchai::base {

// Signals that wait while this object lives, until somebody asks for them: they are handled between
// system calls, in one place, and no handler runs. What nobody has asked for has its usual effect
// when the object goes. Programs that are started meanwhile get the mask that they ask for.
class HeldSignals {
  public:
    explicit HeldSignals(std::initializer_list<int> numbers);
    HeldSignals(const HeldSignals&) = delete;
    HeldSignals& operator=(const HeldSignals&) = delete;
    ~HeldSignals();

    // Can be read when one has arrived: for poll(2).
    [[nodiscard]] int descriptor() const { return descriptor_.get(); }
    // The next that has arrived, or nothing.
    [[nodiscard]] std::optional<int> next() const;
    // The same, after waiting for it.
    [[nodiscard]] std::optional<int> next_within(std::chrono::milliseconds time) const;

  private:
    sigset_t before_{};
    FileDescriptor descriptor_;
};

}  // namespace batchai::base
