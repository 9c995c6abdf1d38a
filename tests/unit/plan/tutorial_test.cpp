// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdlib>

#include <gtest/gtest.h>

#include "base/file.hpp"
#include "job/schema/storage_account.hpp"
#include "plan/plan_file.hpp"
#include "planned.hpp"

namespace batchai::plan {

// The tutorial's job.json on its cluster: the whole plan, byte by byte, and so each AZ_BATCHAI_
// variable. To see a wanted change, run the test with BATCHAI_WRITE_GOLDEN=1 and read the diff.
TEST(Tutorial, PlansExactlyThis) {
    const std::string data = BATCHAI_PLAN_DATA;
    const auto text = base::read_file(data + "/tutorial.json");
    ASSERT_TRUE(text) << text.error().text();
    auto parsed = job::parse(*text);
    ASSERT_TRUE(parsed.spec) << job::render_all(parsed.diagnostics, "tutorial.json", *text);
    ASSERT_TRUE(job::apply_storage_account(*parsed.spec,
                                           job::StorageAccount{"mystorageaccount", std::nullopt},
                                           parsed.positions)
                    .empty());

    Inputs inputs = test_inputs();
    inputs.identity = {"00000000-0000-0000-0000-000000000000",
                       "batchai.horovod",
                       "batchaidev",
                       "cifar",
                       "cifar_distributed",
                       "nc6cluster",
                       "f0e1d2c3-b4a5-4697-8877-665544332211"};
    inputs.cluster = ClusterView{"nc6cluster", "Standard_NC6", 4};
    inputs.ignore_container = true;
    site::Site site;
    site.vm_sizes["STANDARD_NC6"] = {"gpu", "", "gpu:1", 6, 1, {}};
    site.environment = {{"OMP_NUM_THREADS", "6"}};

    const auto made = make(*parsed.spec, parsed.positions, site, inputs);
    ASSERT_TRUE(made.plan) << job::render_all(made.diagnostics, "tutorial.json", *text);
    EXPECT_TRUE(made.diagnostics.empty());
    const std::string golden = data + "/tutorial.plan.json";
    if (std::getenv("BATCHAI_WRITE_GOLDEN") != nullptr) {
        ASSERT_TRUE(base::write_atomically(golden, to_json(*made.plan)));
    }
    const auto wanted = base::read_file(golden);
    ASSERT_TRUE(wanted) << wanted.error().text();
    EXPECT_EQ(to_json(*made.plan), *wanted);
}

}  // namespace batchai::plan
