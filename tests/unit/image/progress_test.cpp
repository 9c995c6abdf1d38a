// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/progress.hpp"

#include <gtest/gtest.h>

namespace batchai::image {
namespace {

TEST(Progress, SaysWhatIsDoneAndByWhom) {
    EXPECT_EQ(to_text({"x", Stage::pulling, 3 << 19, 3 << 20, {}}),
              "pulling x: 1.5 MiB of 3.0 MiB");
    EXPECT_EQ(to_text({"x", Stage::pulling, 4 << 20, 3 << 20, {}}),
              "pulling x: 3.0 MiB of 3.0 MiB");
    EXPECT_EQ(to_text({"x", Stage::packing, 512, 0, {}}), "packing x: 512 B");
    EXPECT_EQ(to_text({"x", Stage::unpacking, 0, 0, {}}), "unpacking x");
    EXPECT_EQ(to_text({"x", Stage::waiting, 0, 0, "h2 (process 7)"}),
              "waiting for x: h2 (process 7) imports it");
}

}  // namespace
}  // namespace batchai::image
