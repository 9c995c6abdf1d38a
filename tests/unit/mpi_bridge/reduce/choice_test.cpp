// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <gmock/gmock.h>

#include "core/settings.hpp"
#include "tables.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::choose_kernels;
using mpi_bridge::reduction_instruction_set;
using mpi_bridge::why_no_reduction;
using testing::HasSubstr;

TEST(Kernels, AreTheFastestUnlessChosen) {
    const std::string fastest = reduction_instruction_set();
    for (const auto& set : mpi_bridge::instruction_sets()) {
        if (!set.runs_here()) continue;
        ASSERT_TRUE(choose_kernels(set.name));
        EXPECT_STREQ(reduction_instruction_set(), set.name);
        EXPECT_EQ(mpi_bridge::find_reduction(MPIB_FLOAT32, MPIB_SUM),
                  look_up(set.table(), MPIB_FLOAT32, MPIB_SUM));
    }
    ASSERT_TRUE(choose_kernels(""));
    EXPECT_EQ(reduction_instruction_set(), fastest);
}

TEST(Kernels, AreNotChosenByAnUnknownName) {
    const std::string before = reduction_instruction_set();
    for (const char* name : {"sse9", "AVX2", " ", "avx2 "}) {
        const auto done = choose_kernels(name);
        ASSERT_FALSE(done) << name;
        EXPECT_EQ(done.error().status, MPIB_ERROR_INVALID_ARGUMENT);
        EXPECT_THAT(done.error().text, HasSubstr("MPI_BRIDGE_KERNELS"));
        EXPECT_THAT(done.error().text, HasSubstr("portable"));
    }
    EXPECT_EQ(reduction_instruction_set(), before);
}

TEST(Kernels, AreNotChosenWhereTheProcessorLacksThem) {
    for (const auto& set : mpi_bridge::instruction_sets()) {
        if (set.runs_here()) continue;
        const auto done = choose_kernels(set.name);
        ASSERT_FALSE(done) << set.name;
        EXPECT_THAT(done.error().text, HasSubstr(set.needs));
    }
}

TEST(Kernels, AreNamedByTheEnvironment) {
    ASSERT_EQ(setenv("MPI_BRIDGE_KERNELS", "portable", 1), 0);
    EXPECT_EQ(mpi_bridge::settings_from_environment()->kernels, "portable");
    ASSERT_EQ(unsetenv("MPI_BRIDGE_KERNELS"), 0);
    EXPECT_EQ(mpi_bridge::settings_from_environment()->kernels, "");
}

TEST(Reduction, IsThereForEveryPairThatHasAMeaning) {
    for (const auto datatype : every_datatype) {
        for (const auto op : every_op) {
            const bool is_float = datatype >= MPIB_FLOAT16 && datatype <= MPIB_FLOAT64;
            const bool is_bitwise = op == MPIB_AND || op == MPIB_OR;
            const bool is_order = op == MPIB_MIN || op == MPIB_MAX;
            const bool has_meaning =
                datatype == MPIB_BOOL ? is_bitwise || is_order : !(is_float && is_bitwise);
            EXPECT_EQ(mpi_bridge::find_reduction(datatype, op) != nullptr, has_meaning)
                << datatype << ", " << op;
            EXPECT_EQ(why_no_reduction(datatype, op).empty(), has_meaning);
        }
    }
}

TEST(Reduction, SaysWhyThereIsNone) {
    EXPECT_EQ(why_no_reduction(MPIB_FLOAT16, MPIB_AND),
              "MPIB_AND is for integers and MPIB_BOOL, not for MPIB_FLOAT16");
    EXPECT_THAT(why_no_reduction(MPIB_BOOL, MPIB_SUM), HasSubstr("use MPIB_AND or MPIB_OR"));
    for (const int unknown : {-1, 10, 4711}) {
        const auto datatype = static_cast<mpib_datatype>(unknown);
        EXPECT_EQ(mpi_bridge::find_reduction(datatype, MPIB_SUM), nullptr);
        EXPECT_EQ(why_no_reduction(datatype, MPIB_SUM),
                  "datatype " + std::to_string(unknown) + " is not one of mpib_datatype");
    }
    const auto op = static_cast<mpib_op>(7);
    EXPECT_EQ(mpi_bridge::find_reduction(MPIB_INT8, op), nullptr);
    EXPECT_EQ(why_no_reduction(MPIB_INT8, op), "operation 7 is not one of mpib_op");
}

TEST(Datatype, HasTheSizeOfItsElements) {
    constexpr std::size_t sizes[] = {1, 1, 2, 4, 8, 2, 2, 4, 8, 1};
    for (const auto datatype : every_datatype)
        EXPECT_EQ(mpi_bridge::datatype_bytes(datatype), sizes[datatype]);
    EXPECT_EQ(mpi_bridge::datatype_bytes(static_cast<mpib_datatype>(10)), 0U);
}

}  // namespace
