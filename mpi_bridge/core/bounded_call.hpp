// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/deadline.hpp"

namespace mpi_bridge {

// Runs `work` on a quiet thread and returns true when it has ended, or false when the deadline has
// passed. This is for calls into other libraries that may never return. After false the thread goes
// on by itself, so `work` must own or share everything that it refers to, and it must not throw.
[[nodiscard]] bool run_within(Deadline deadline, std::function<void()> work);

// The same for a call with a result; returns nullopt when the deadline has passed.
template <typename Result>
[[nodiscard]] std::optional<Result> call_within(Deadline deadline, std::function<Result()> call) {
    const auto result = std::make_shared<std::optional<Result>>();
    const bool ended =
        run_within(deadline, [result, call = std::move(call)] { result->emplace(call()); });
    if (!ended) return std::nullopt;
    return std::move(*result);
}

}  // namespace mpi_bridge
