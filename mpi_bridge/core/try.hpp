// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>

#include <tl/expected.hpp>

namespace mpi_bridge {

// Returns the value of an outcome that has one. Only TRY uses it.
template <typename T, typename E>
T take_value(tl::expected<T, E>&& outcome) {
    if constexpr (!std::is_void_v<T>) return std::move(*outcome);
}

}  // namespace mpi_bridge

// `const int device = TRY(device_of(memory));` takes the value, or makes the calling function
// return the failure. A statement expression of GCC and clang, for functions that return a
// tl::expected.
#define TRY(...)                                                                     \
    __extension__({                                                                  \
        auto try_outcome_ = (__VA_ARGS__);                                           \
        if (!try_outcome_) return ::tl::unexpected(std::move(try_outcome_).error()); \
        ::mpi_bridge::take_value(std::move(try_outcome_));                           \
    })
