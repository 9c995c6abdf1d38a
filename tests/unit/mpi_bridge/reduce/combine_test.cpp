// SPDX-License-Identifier: Apache-2.0
#include "tables.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Reduction;

constexpr std::size_t most_sources = 13;

struct Inputs {
    std::vector<Misaligned> memory;
    std::vector<const void*> sources;
};

// Every pattern of bits is likely, NaN and subnormal numbers too, and special ones are frequent.
Bytes wild_pool() {
    std::mt19937_64 random(11);
    Bytes pool(1U << 18);
    for (auto& byte : pool) {
        const std::uint64_t bits = random();
        byte = static_cast<unsigned char>(bits);
        if ((bits >> 8) % 4 == 0) byte = (bits >> 16) % 2 == 0 ? 0x00 : 0xff;
        if ((bits >> 8) % 16 == 1) byte = (bits >> 16) % 2 == 0 ? 0x7f : 0x80;
    }
    return pool;
}

Bytes wild_bytes(std::size_t bytes, std::size_t seed) {
    static const Bytes pool = wild_pool();
    const auto start =
        pool.begin() + static_cast<std::ptrdiff_t>((seed * 7919) % (pool.size() - bytes));
    return {start, start + static_cast<std::ptrdiff_t>(bytes)};
}

Inputs wild_inputs(std::size_t bytes, std::size_t sources) {
    Inputs inputs;
    for (std::size_t s = 0; s < sources; ++s)
        inputs.memory.emplace_back(wild_bytes(bytes, 1000 * sources + s));
    for (auto& memory : inputs.memory)
        inputs.sources.push_back(memory.data());
    return inputs;
}

Bytes load_add_store(const Reduction& reduction, const Inputs& inputs, std::size_t count) {
    Misaligned accumulators(count * reduction.accumulator_bytes);
    Misaligned result(count * reduction.element_bytes);
    reduction.load(accumulators.data(), inputs.sources[0], count);
    for (std::size_t s = 1; s < inputs.sources.size(); ++s)
        reduction.add(accumulators.data(), inputs.sources[s], count);
    reduction.store(result.data(), accumulators.data(), count,
                    static_cast<int>(inputs.sources.size()));
    return result.content();
}

Bytes partial_and_store(const Reduction& reduction, const Inputs& inputs, std::size_t count) {
    Misaligned accumulators(count * reduction.accumulator_bytes);
    Misaligned result(count * reduction.element_bytes);
    reduction.combine_partial(accumulators.data(), inputs.sources.data(), inputs.sources.size(),
                              count);
    reduction.store(result.data(), accumulators.data(), count,
                    static_cast<int>(inputs.sources.size()));
    return result.content();
}

// The first source, and all others merged to it.
Bytes merged_and_stored(const Reduction& reduction, const Inputs& inputs, std::size_t count) {
    Misaligned first(count * reduction.accumulator_bytes);
    Misaligned second(count * reduction.accumulator_bytes);
    Misaligned result(count * reduction.element_bytes);
    reduction.load(first.data(), inputs.sources[0], count);
    for (std::size_t s = 1; s < inputs.sources.size(); ++s) {
        reduction.load(second.data(), inputs.sources[s], count);
        reduction.merge(first.data(), first.data(), second.data(), count);
    }
    reduction.store(result.data(), first.data(), count, static_cast<int>(inputs.sources.size()));
    return result.content();
}

Bytes combined(const Reduction& reduction, const Inputs& inputs, std::size_t count) {
    Misaligned result(count * reduction.element_bytes);
    reduction.combine(result.data(), inputs.sources.data(), inputs.sources.size(), count,
                      static_cast<int>(inputs.sources.size()));
    return result.content();
}

void expect_the_portable_bits(const Reduction& reduction, mpib_datatype datatype, mpib_op op,
                              std::size_t count, std::size_t sources) {
    SCOPED_TRACE(testing::Message() << sources << " sources of " << count);
    const Inputs inputs = wild_inputs(count * reduction.element_bytes, sources);
    const auto& portable = *mpi_bridge::find_portable_reduction(datatype, op);
    const Bytes expected = load_add_store(portable, inputs, count);
    ASSERT_EQ(load_add_store(reduction, inputs, count), expected);
    ASSERT_EQ(combined(reduction, inputs, count), expected);
    ASSERT_EQ(partial_and_store(reduction, inputs, count), expected);
    ASSERT_EQ(merged_and_stored(reduction, inputs, count), expected);
}

TEST(Combine, GivesTheBitsOfLoadAddStoreOnEveryInstructionSet) {
    for_every_reduction([](const Reduction& reduction, mpib_datatype datatype, mpib_op op) {
        for (std::size_t count = 0; count <= 300; ++count)
            expect_the_portable_bits(reduction, datatype, op, count, 1 + count % 5);
        // Around the length of a block, and several blocks.
        for (const std::size_t count : {511UL, 512UL, 1023UL, 1025UL, 9001UL}) {
            for (std::size_t sources = 1; sources <= most_sources; sources += count > 5000 ? 6 : 1)
                expect_the_portable_bits(reduction, datatype, op, count, sources);
        }
    });
}

TEST(Combine, MayWriteOverAnyOneOfItsSources) {
    constexpr std::size_t count = 1500;
    for_every_reduction([](const Reduction& reduction, mpib_datatype, mpib_op op) {
        if (op > MPIB_AVERAGE && op != MPIB_AND) return;
        for (const std::size_t sources : {1UL, 2UL, 3UL, 4UL, 7UL}) {
            for (std::size_t target = 0; target < sources; ++target) {
                Inputs inputs = wild_inputs(count * reduction.element_bytes, sources);
                const Bytes expected = combined(reduction, inputs, count);
                reduction.combine(inputs.memory[target].data(), inputs.sources.data(), sources,
                                  count, static_cast<int>(sources));
                ASSERT_EQ(inputs.memory[target].content(), expected)
                    << "source " << target << " of " << sources;
            }
        }
    });
}

TEST(Combine, GivesAPairOfTargetsTheSameBitsInPlaceAndNot) {
    for_every_reduction([](const Reduction& reduction, mpib_datatype, mpib_op) {
        for (const std::size_t count : {0UL, 1UL, 15UL, 31UL, 32UL, 33UL, 64UL, 301UL, 1500UL}) {
            const std::size_t bytes = count * reduction.element_bytes;
            Inputs inputs = wild_inputs(bytes, 2);
            const Bytes expected = combined(reduction, inputs, count);
            Misaligned one(bytes);
            Misaligned other(bytes);
            void* const apart[] = {one.data(), other.data()};
            reduction.combine_pair(apart, inputs.sources.data(), count, 2);
            ASSERT_EQ(one.content(), expected) << count;
            ASSERT_EQ(other.content(), expected) << count;
            void* const in_place[] = {inputs.memory[0].data(), inputs.memory[1].data()};
            reduction.combine_pair(in_place, inputs.sources.data(), count, 2);
            ASSERT_EQ(inputs.memory[0].content(), expected) << count;
            ASSERT_EQ(inputs.memory[1].content(), expected) << count;
        }
    });
}

}  // namespace
