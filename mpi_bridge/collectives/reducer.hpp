// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>

#include "reduce/reduction.hpp"

namespace mpi_bridge {

// How an algorithm reduces: a Reduction, and the form of the values that it takes and gives.
//   elements      the caller's type; results are finished (rounded, divided), the usual case
//   accumulators  partial results of an earlier reduction, and again partial results: one level of
//                 a hierarchical collective, whose last level finishes. Unaligned memory of the
//                 caller is not a concern, because accumulators are always in the library's memory.
// Algorithms are the same for both: they load values, add values to accumulators, merge
// accumulators, and store accumulators as values.
class Reducer {
  public:
    enum class Form { elements, accumulators };

    // Implicit, because most callers only have a Reduction.
    Reducer(const Reduction& reduction, Form form = Form::elements)
        : reduction_(&reduction), form_(form) {}

    [[nodiscard]] std::size_t value_bytes() const {
        return partial() ? reduction_->accumulator_bytes : reduction_->element_bytes;
    }
    [[nodiscard]] std::size_t accumulator_bytes() const { return reduction_->accumulator_bytes; }

    // Whether values can be sent as accumulators without being loaded. If both have the same
    // length, they are the same type (see reduction.hpp). One-byte values are always loaded,
    // because any byte other than 0 is a true value, but its accumulator must be 1.
    [[nodiscard]] bool values_are_accumulators() const {
        return partial() || (value_bytes() == accumulator_bytes() && value_bytes() > 1);
    }

    void load(std::byte* accumulators, const std::byte* values, std::size_t count) const {
        if (!partial()) {
            reduction_->load(accumulators, values, count);
        } else if (count != 0) {
            std::memcpy(accumulators, values, count * accumulator_bytes());
        }
    }

    // accumulators = accumulators op values
    void add(std::byte* accumulators, const std::byte* values, std::size_t count) const {
        if (partial()) {
            reduction_->merge(accumulators, accumulators, values, count);
        } else {
            reduction_->add(accumulators, values, count);
        }
    }

    // result = first op second; `first` and `second` may be `result`.
    void merge(std::byte* result, const std::byte* first, const std::byte* second,
               std::size_t count) const {
        reduction_->merge(result, first, second, count);
    }

    void store(std::byte* values, const std::byte* accumulators, std::size_t count,
               int ranks) const {
        if (!partial()) {
            reduction_->store(values, accumulators, count, ranks);
        } else if (count != 0) {
            std::memcpy(values, accumulators, count * accumulator_bytes());
        }
    }

    // results = accumulators op values, stored; `results` may be `values`. The contents of the
    // accumulators are lost. This is one pass, or passes over blocks that stay in the first-level
    // cache.
    void add_and_store(std::byte* results, std::byte* accumulators, const std::byte* values,
                       std::size_t count, int ranks) const {
        if (partial()) {
            reduction_->merge(results, accumulators, values, count);
            return;
        }
        if (values_are_accumulators()) {
            const void* const sources[] = {accumulators, values};
            reduction_->combine(results, sources, 2, count, ranks);
            return;
        }
        constexpr std::size_t block = 1024;
        for (std::size_t at = 0; at < count; at += block) {
            const std::size_t part = count - at < block ? count - at : block;
            std::byte* sums = accumulators + at * accumulator_bytes();
            add(sums, values + at * value_bytes(), part);
            store(results + at * value_bytes(), sums, part, ranks);
        }
    }

  private:
    [[nodiscard]] bool partial() const { return form_ == Form::accumulators; }

    const Reduction* reduction_;
    Form form_;
};

// Reduces accumulators of `reduction` to accumulators, without finishing them. The reduction must
// outlive the Reducer, as those of find_reduction() do.
[[nodiscard]] inline Reducer accumulators_of(const Reduction& reduction) {
    return {reduction, Reducer::Form::accumulators};
}

}  // namespace mpi_bridge
