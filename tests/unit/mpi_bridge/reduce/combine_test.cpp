// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "../reference.hpp"
#include "reduce/reduction.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Reduction;

// Around the width of a vector and the length of a block, and several blocks.
constexpr std::size_t lengths[] = {0, 1, 7, 8, 9, 63, 64, 65, 511, 1023, 1025, 9000};
constexpr std::size_t most_sources = 13;

// Memory that starts at an odd address, so that nothing in it is aligned.
class Misaligned {
  public:
    explicit Misaligned(std::size_t bytes) : memory_(bytes + 1, 0xA5) {}
    [[nodiscard]] unsigned char* data() { return memory_.data() + 1; }

  private:
    std::vector<unsigned char> memory_;
};

struct Inputs {
    std::vector<Misaligned> memory;
    std::vector<const void*> sources;
};

template <typename T>
Inputs misaligned_inputs(std::size_t count, std::size_t sources) {
    Inputs inputs;
    for (std::size_t s = 0; s < sources; ++s) {
        const auto values = random_values<T>(count, s);
        inputs.memory.emplace_back(count * sizeof(T));
        if (count != 0) {
            std::memcpy(inputs.memory.back().data(), values.data(), count * sizeof(T));
        }
    }
    for (auto& memory : inputs.memory)
        inputs.sources.push_back(memory.data());
    return inputs;
}

using Bytes = std::vector<unsigned char>;

Bytes load_add_store(const Reduction& reduction, const Inputs& inputs, std::size_t count) {
    Bytes accumulators(count * reduction.accumulator_bytes);
    Bytes result(count * reduction.element_bytes);
    reduction.load(accumulators.data(), inputs.sources[0], count);
    for (std::size_t s = 1; s < inputs.sources.size(); ++s) {
        reduction.add(accumulators.data(), inputs.sources[s], count);
    }
    reduction.store(result.data(), accumulators.data(), count,
                    static_cast<int>(inputs.sources.size()));
    return result;
}

Bytes partial_and_store(const Reduction& reduction, const Inputs& inputs, std::size_t count) {
    Misaligned accumulators(count * reduction.accumulator_bytes);
    Bytes result(count * reduction.element_bytes);
    reduction.combine_partial(accumulators.data(), inputs.sources.data(), inputs.sources.size(),
                              count);
    reduction.store(result.data(), accumulators.data(), count,
                    static_cast<int>(inputs.sources.size()));
    return result;
}

Bytes combined(const Reduction& reduction, const Inputs& inputs, std::size_t count) {
    const std::size_t bytes = count * reduction.element_bytes;
    Misaligned result(bytes);
    reduction.combine(result.data(), inputs.sources.data(), inputs.sources.size(), count,
                      static_cast<int>(inputs.sources.size()));
    return {result.data(), result.data() + bytes};
}

TEST(Combine, GivesTheBitsOfLoadAddStore) {
    for (const auto datatype : all_datatypes) {
        for (const auto op : all_ops) {
            const Reduction& best = *mpi_bridge::find_reduction(datatype, op);
            const Reduction& portable = *mpi_bridge::find_portable_reduction(datatype, op);
            for (const std::size_t count : lengths) {
                for (std::size_t sources = 1; sources <= most_sources; ++sources) {
                    SCOPED_TRACE(testing::Message()
                                 << "datatype " << datatype << ", operation " << op << ", "
                                 << sources << " sources of " << count);
                    const Inputs inputs = with_type(datatype, [&](auto type) {
                        return misaligned_inputs<decltype(type)>(count, sources);
                    });
                    const Bytes expected = load_add_store(portable, inputs, count);
                    ASSERT_EQ(load_add_store(best, inputs, count), expected);
                    ASSERT_EQ(combined(best, inputs, count), expected);
                    ASSERT_EQ(combined(portable, inputs, count), expected);
                    ASSERT_EQ(partial_and_store(best, inputs, count), expected);
                    ASSERT_EQ(partial_and_store(portable, inputs, count), expected);
                }
            }
        }
    }
}

TEST(Combine, MayWriteOverAnyOneOfItsSources) {
    constexpr std::size_t count = 2500;
    for (const auto datatype : all_datatypes) {
        for (const auto op : {MPIB_SUM, MPIB_AVERAGE}) {
            const Reduction& reduction = *mpi_bridge::find_reduction(datatype, op);
            for (const std::size_t sources : {2UL, 3UL, 4UL, 7UL}) {
                for (std::size_t target = 0; target < sources; ++target) {
                    Inputs inputs = with_type(datatype, [&](auto type) {
                        return misaligned_inputs<decltype(type)>(count, sources);
                    });
                    const Bytes expected = combined(reduction, inputs, count);
                    unsigned char* out = inputs.memory[target].data();
                    reduction.combine(out, inputs.sources.data(), sources, count,
                                      static_cast<int>(sources));
                    ASSERT_EQ(Bytes(out, out + expected.size()), expected)
                        << "datatype " << datatype << ", operation " << op << ", source " << target
                        << " of " << sources;
                }
            }
        }
    }
}

}  // namespace
