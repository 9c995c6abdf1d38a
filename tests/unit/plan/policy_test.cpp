// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "planned.hpp"

namespace batchai::plan {

namespace {

site::Site site_with_policy() {
    site::Site site;
    site.vm_sizes["NC6"] = {};
    site.policy.limits = {.nodes = 4, .minutes = 60};
    site.policy.users["bob"] = {.nodes = 8, .minutes = {}};
    site.policy.images = {"docker.io/library/*", "/images/*"};
    site.policy.accounts = {"physics"};
    site.policy.vm_sizes["NC6"] = {.limits = {.nodes = 2, .minutes = {}},
                                   .accounts = {"chemistry"}};
    return site;
}

Inputs as(std::string user, std::string vm_size = {}) {
    Inputs inputs = test_inputs();
    inputs.user_name = std::move(user);
    if (!vm_size.empty())
        inputs.cluster = ClusterView{.name = "c", .vm_size = std::move(vm_size), .node_limit = {}};
    return inputs;
}

std::string container(std::string_view image) {
    return fmt::format(R"(, "containerSettings": {{"imageSourceRegistry": {{"image": "{}"}}}})",
                       image);
}

}  // namespace

TEST(Policy, RefusesTooManyNodesForTheUserAndTheVmSize) {
    const auto site = site_with_policy();
    const auto nodes = [&](std::string_view count, const Inputs& inputs) {
        return faults(planned(small_job({}, count), site, inputs));
    };
    EXPECT_EQ(nodes("4", as("ada")), "");
    EXPECT_EQ(nodes("5", as("ada")),
              "E117 the job asks for 5 nodes; this site lets ada use at most 4 in a job");
    EXPECT_EQ(nodes("8", as("bob")), "");
    EXPECT_EQ(nodes("3", as("bob", "nc6")),
              "E117 the job asks for 3 nodes of NC6; this site lets bob use at most 2 in a job");
}

TEST(Policy, RefusesATimeLimitAtItsPlace) {
    const auto made =
        planned(small_job(R"(, "constraints": {"maxWallClockTime": "PT61M"})"), site_with_policy());
    EXPECT_EQ(faults(made), "E117 the job asks for 61 minutes; this site lets ada use at most 60");
    EXPECT_GT(made.diagnostics.front().position.column, 1U);
}

TEST(Policy, RefusesOtherAccounts) {
    const auto account = [](std::string_view name, std::string_view vm_size = {}) {
        return faults(planned(small_job(fmt::format(R"(, "slurm": {{"account": "{}"}})", name)),
                              site_with_policy(), as("ada", std::string(vm_size))));
    };
    EXPECT_EQ(account("physics"), "");
    EXPECT_EQ(account("sports"),
              "E117 the account \"sports\" is not one of those that this site requires for jobs");
    EXPECT_EQ(account("physics", "NC6"),
              "E117 the account \"physics\" is not one of those that this site requires for jobs "
              "of NC6");
}

TEST(Policy, RefusesOtherImagesByTheirFullNames) {
    const auto image = [](std::string_view name) {
        return faults(planned(small_job(container(name)), site_with_policy()));
    };
    EXPECT_EQ(image("debian:12"), "");
    EXPECT_EQ(image("/images/a.sqsh"), "");
    EXPECT_EQ(image("evil/debian"),
              "E117 this site does not allow the image docker.io/evil/debian:latest");
    EXPECT_EQ(image("evil.example/docker.io/library/x:1"),
              "E117 this site does not allow the image evil.example/docker.io/library/x:1");
}

TEST(Policy, DeclaresTheVmSizeAndTheImage) {
    site::Site site;
    site.vm_sizes["NC6"] = {};
    EXPECT_EQ(planned(small_job(container("debian")), site, as("ada", "nc6")).plan->declaration,
              "vm_size=NC6 image=docker.io/library/debian:latest");
    EXPECT_EQ(planned(small_job(), site, as("ada", "other")).plan->declaration,
              "vm_size=OTHER image=");
}

}  // namespace batchai::plan
