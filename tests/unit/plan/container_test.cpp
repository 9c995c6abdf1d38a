// SPDX-License-Identifier: GPL-2.0-or-later
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planned.hpp"

namespace batchai::plan {
namespace {

using testing::HasSubstr;
using testing::Not;

// Of a file in which containerSettings stand on a line of their own.
Made with_container(std::string_view settings, const site::Site& site = {}) {
    return planned(small_job(fmt::format(",\n\"containerSettings\": {{{}}}", settings)), site);
}

Made with_registry(std::string_view registry, const site::Site& site = {}) {
    return with_container(fmt::format("\"imageSourceRegistry\": {{{}}}", registry), site);
}

TEST(Container, AWrongImageIsAFaultAtItsPlaceInTheFile) {
    const auto made = with_registry(R"("image": "nvcr.io#nvidia/x:1")");
    ASSERT_FALSE(made.plan);
    const auto& fault = made.diagnostics.back();
    EXPECT_EQ(fault.code, "E114");
    EXPECT_THAT(fault.message, HasSubstr("enroot"));
    EXPECT_EQ(fault.hint, "write \"nvcr.io/nvidia/x:1\"");
    EXPECT_EQ(fault.position.line, 3);
    EXPECT_GT(fault.position.column, 40);
}

TEST(Container, AServerThatContradictsTheImageIsItsOwnFault) {
    const auto made = with_registry(R"("serverUrl": "quay.io", "image": "nvcr.io/x")");
    EXPECT_THAT(faults(made), HasSubstr("E114 \"serverUrl\" names the registry quay.io"));
    EXPECT_THAT(faults(with_registry(R"("serverUrl": "quay.io", "image": "x")")),
                Not(HasSubstr("E114")));
}

TEST(Container, ARegistryWithoutEncryptionNeedsTheAdminsWord) {
    constexpr std::string_view settings = R"("serverUrl": "http://reg:5000", "image": "x")";
    EXPECT_THAT(faults(with_registry(settings)),
                HasSubstr("E114 reg:5000 would be contacted without"));
    site::Site site;
    site.insecure_registries = {"reg:5000"};
    EXPECT_THAT(faults(with_registry(settings, site)), Not(HasSubstr("E114")));
}

TEST(Container, APasswordInAKeyVaultIsNotSupported) {
    const auto made = with_registry(R"("image": "x", "credentials": {"username": "me",
        "passwordSecretReference": {"sourceVault": {"id": "v"}, "secretUrl": "https://v/s"}})");
    EXPECT_THAT(faults(made), HasSubstr("E112 the registry's password is in a key vault"));
}

TEST(Container, SizesOfSharedMemoryAreDockers) {
    const auto bytes = [](std::string_view size) {
        const auto made = with_container(
            fmt::format(R"("imageSourceRegistry": {{"image": "x"}}, "shmSize": "{}")", size));
        return made.plan ? made.plan->container->shm_bytes : -1;
    };
    EXPECT_EQ(bytes("512"), 512);
    EXPECT_EQ(bytes("512b"), 512);
    EXPECT_EQ(bytes("64k"), 64 << 10);
    EXPECT_EQ(bytes("64MB"), 64 << 20);
    EXPECT_EQ(bytes("16g"), std::int64_t{16} << 30);
    EXPECT_EQ(bytes("999999999999999gb"), std::int64_t{1} << 62);
    EXPECT_EQ(with_registry(R"("image": "x")").plan->container->shm_bytes, 0);
}

// "NAME=value|…" of the job's own variables, planned with `login` around it, in a container whose
// image sets `image`.
Made with_variables(std::string_view variables, const std::vector<Variable>& image,
                    const std::map<std::string, std::string>& login, bool in_container = true) {
    Inputs inputs = test_inputs();
    inputs.login_environment = login;
    inputs.ignore_container = !in_container;
    inputs.image.emplace();
    inputs.image->environment = image;
    return planned(small_job(fmt::format(
                       R"(, "containerSettings": {{"imageSourceRegistry": {{"image": "x"}}}},
                       "environmentVariables": [{}])",
                       variables)),
                   {}, inputs);
}

TEST(Container, VariablesAreExpandedByTheImagesAndNotByTheHostsOfTheSubmission) {
    constexpr std::string_view variables = R"({"name": "PATH", "value": "/mine:$PATH"},
        {"name": "TOOLS", "value": "$CUDA_HOME/bin $LD_LIBRARY_PATH $PROJECT $HOME"})";
    const std::map<std::string, std::string> login{{"PATH", "/host/bin"},
                                                   {"CUDA_HOME", "/host/cuda"},
                                                   {"LD_LIBRARY_PATH", "/host/lib"},
                                                   {"PROJECT", "p1"}};
    const std::vector<Variable> image{
        {"PATH", "/image/bin"}, {"CUDA_HOME", "/image/cuda"}, {"HOME", "/root"}};
    const auto inside = with_variables(variables, image, login);
    ASSERT_TRUE(inside.plan) << faults(inside);
    EXPECT_EQ(value_of(*inside.plan, "PATH"), "/mine:/image/bin");
    EXPECT_EQ(value_of(*inside.plan, "TOOLS"), "/image/cuda/bin  p1 /home/ada");
    EXPECT_THAT(faults(inside), HasSubstr("$LD_LIBRARY_PATH is not known"));
    const auto outside = with_variables(variables, image, login, false);
    EXPECT_EQ(value_of(*outside.plan, "PATH"), "/mine:/host/bin");
    EXPECT_EQ(value_of(*outside.plan, "TOOLS"), "/host/cuda/bin /host/lib p1 /home/ada");
}

TEST(Container, AnImageWithoutAPathHasTheUsualOne) {
    const auto made =
        with_variables(R"({"name": "PATH", "value": "/mine:$PATH"})", {}, {{"PATH", "/host/bin"}});
    EXPECT_EQ(value_of(*made.plan, "PATH"),
              "/mine:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
}

TEST(Container, AnImageDoesNotChangeWhatTheJobsOwnDirectoriesAre) {
    const auto made = with_variables(R"({"name": "WHERE", "value": "$AZ_BATCHAI_JOB_TEMP"})",
                                     {{"AZ_BATCHAI_JOB_TEMP", "/etc"}}, {});
    EXPECT_EQ(value_of(*made.plan, "WHERE"), made.plan->directories.job_temp);
}

TEST(Container, NamesAreNotMissedBeforeTheRegistryWasAsked) {
    const auto made =
        planned(small_job(R"(, "containerSettings": {"imageSourceRegistry": {"image": "x"}},
                      "environmentVariables": [{"name": "A", "value": "$OF_THE_IMAGE"}])"));
    EXPECT_EQ(faults(made), "");
}

TEST(Container, WhatTheRegistrySaidIsInThePlan) {
    Inputs inputs = test_inputs();
    image::FrozenImage resolved;
    resolved.digest = "sha256:00";
    resolved.root = "/images/00.squashfs";
    resolved.environment = {{"A", "b"}};
    resolved.entrypoint = {"/entry"};
    inputs.image = resolved;
    const auto job = small_job(R"(, "containerSettings": {"imageSourceRegistry": {"image": "x"}})");
    auto made = planned(job, {}, inputs);
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->container->image, "x");
    EXPECT_EQ(made.plan->container->root, "/images/00.squashfs");
    EXPECT_EQ(made.plan->container->environment, resolved.environment);
    EXPECT_TRUE(made.plan->container->entrypoint.empty());
    site::Site site;
    site.image_entrypoint = true;
    EXPECT_EQ(planned(job, site, inputs).plan->container->entrypoint, resolved.entrypoint);
}

TEST(Container, ShowsWhatTheSiteBindsForEveryone) {
    site::Site site;
    site.container_binds = {{"/scratch/%u", "/scratch", false, true},
                            {"/sw", "/opt/sw", true, false}};
    const auto made = with_registry(R"("image": "x")", site);
    EXPECT_EQ(made.plan->container->binds,
              (std::vector<HostBind>{{"/scratch/ada", "/scratch", false, true},
                                     {"/sw", "/opt/sw", true, false}}));
}

TEST(Container, HasTheTaskPrologThatSlurmRunsInIt) {
    Inputs inputs = test_inputs();
    inputs.task_prolog = "/etc/slurm/prolog.sh";
    site::Site site;
    site.container_binds = {{"/sw", "/opt/sw", true, false}};
    const auto job = small_job(R"(, "containerSettings": {"imageSourceRegistry": {"image": "x"}})");
    EXPECT_EQ(planned(job, site, inputs).plan->container->binds,
              (std::vector<HostBind>{{"/etc/slurm/prolog.sh", "/etc/slurm/prolog.sh", true, true},
                                     {"/sw", "/opt/sw", true, false}}));
}

}  // namespace
}  // namespace batchai::plan
