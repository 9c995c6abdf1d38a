// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "run/context.hpp"

namespace batchai::run {

TEST(HostFile, HasALineANode) {
    EXPECT_EQ(host_file({"10.0.0.4", "10.0.0.5"}, 2),
              "10.0.0.4 slots=2 max_slots=2\n10.0.0.5 slots=2 max_slots=2\n");
}

}  // namespace batchai::run
