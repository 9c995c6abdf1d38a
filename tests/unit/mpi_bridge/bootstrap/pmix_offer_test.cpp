// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/pmix_offer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "environment.hpp"

namespace {

using mpi_bridge::likely_reasons;
using mpi_bridge::pmix_offer;
using mpi_bridge::pmix_versions;
using mpi_bridge::settings_for_relocation;
using mpi_bridge::settings_for_surroundings;
using mpi_bridge_test::environment;

// As Slurm 22.05 with OpenPMIx 4.2.2 sets it.
std::map<std::string, std::string> slurm() {
    const std::string uri = "pmix-server.18;tcp4://127.0.0.1:49671";
    return {{"PMIX_VERSION", "4.2.2rc2"},
            {"PMIX_SERVER_URI41", uri},
            {"PMIX_SERVER_URI4", uri},
            {"PMIX_SERVER_URI2", uri},
            {"PMIX_SECURITY_MODE", "munge,native"},
            {"PMIX_GDS_MODULE", "ds21,ds12,hash"},
            {"PMIX_SERVER_TMPDIR", "/spool"},
            {"PMIX_DSTORE_21_BASE_PATH", "/spool/ds21"},
            {"SLURM_JOB_UID", std::to_string(geteuid())}};
}

std::string reasons(std::map<std::string, std::string> variables, const std::string& client) {
    const auto around = environment(std::move(variables));
    return likely_reasons(around, client, pmix_offer(around));
}

TEST(PmixOffer, NamesBothVersions) {
    EXPECT_EQ(pmix_versions("5.0.7", pmix_offer(environment(slurm()))),
              "PMIx client library 5.0.7, server 4.2.2rc2 (offers PMIX_SERVER_URI41/4/2)");
    EXPECT_EQ(pmix_versions("5.0.7", pmix_offer(environment({}))),
              "PMIx client library 5.0.7, server unknown");
}

TEST(PmixOffer, FindsTheAddressOfTheNewestGeneration) {
    auto variables = slurm();
    variables["PMIX_SERVER_URI41"] = "pmix-server.18;tcp4://127.0.0.1:1";
    EXPECT_EQ(pmix_offer(environment(variables)).address, "tcp4://127.0.0.1:1");
}

TEST(PmixOffer, BlamesVersionsOnlyIfTheirMajorNumbersDiffer) {
    EXPECT_NE(reasons(slurm(), "5.0.7").find("the versions differ"), std::string::npos);
    EXPECT_EQ(reasons(slurm(), "4.1.0").find("the versions differ"), std::string::npos);
}

TEST(PmixOffer, SaysWhereTheServerWasToBe) {
    EXPECT_NE(reasons(slurm(), "4.2.2").find("tcp4://127.0.0.1:49671"), std::string::npos);
    EXPECT_NE(reasons({{"PMIX_RANK", "0"}}, "4.2.2").find("names no server"), std::string::npos);
    EXPECT_NE(reasons({{"PMIX_SERVER_URI4", "garbage"}}, "4.2.2").find("hold no address"),
              std::string::npos);
}

TEST(PmixOffer, NoticesAUserThatTheServerWillNotAccept) {
    auto variables = slurm();
    EXPECT_EQ(reasons(variables, "4.2.2").find("user id"), std::string::npos);
    variables["SLURM_JOB_UID"] = std::to_string(geteuid() + 1);
    EXPECT_NE(reasons(variables, "4.2.2").find("user id"), std::string::npos);
}

TEST(PmixOffer, SaysThatAServerWantsMungeOnly) {
    auto variables = slurm();
    EXPECT_EQ(reasons(variables, "4.2.2").find("MUNGE"), std::string::npos);
    variables["PMIX_SECURITY_MODE"] = "munge";
    EXPECT_NE(reasons(variables, "4.2.2").find("MUNGE"), std::string::npos);
}

TEST(PmixSurroundings, HaveValuesSentWhereTheServersFilesAreHidden) {
    const auto hidden = [](const std::string& directory) { return directory != "/spool/ds21"; };
    const auto settings = settings_for_surroundings(environment(slurm()), hidden);
    ASSERT_EQ(settings.size(), 1U);
    EXPECT_EQ(settings[0].name, "PMIX_MCA_gds");
    EXPECT_EQ(settings[0].value, "hash");
}

TEST(PmixSurroundings, LeaveAsIsWhatWorksAndWhatTheUserChose) {
    const auto all = [](const std::string&) { return true; };
    const auto none = [](const std::string&) { return false; };
    EXPECT_TRUE(settings_for_surroundings(environment(slurm()), all).empty());
    auto chosen = slurm();
    chosen["PMIX_MCA_gds"] = "ds12";
    EXPECT_TRUE(settings_for_surroundings(environment(chosen), none).empty());
    auto hash_only = slurm();
    hash_only["PMIX_GDS_MODULE"] = "hash";
    EXPECT_TRUE(settings_for_surroundings(environment(hash_only), none).empty());
}

TEST(PmixRelocation, IsToldToALibraryThatBringsItsInstallation) {
    const auto there = [](const std::string& directory) {
        return directory == "/injected/pmix_install";
    };
    const auto settings =
        settings_for_relocation(environment(slurm()), "/injected/libpmix.so.2", there);
    ASSERT_EQ(settings.size(), 1U);
    EXPECT_EQ(settings[0].name, "PMIX_INSTALL_PREFIX");
    EXPECT_EQ(settings[0].value, "/injected/pmix_install");
}

TEST(PmixRelocation, IsNotToldToAnyOtherNorAgainstTheUsersWord) {
    const auto nowhere = [](const std::string&) { return false; };
    const auto everywhere = [](const std::string&) { return true; };
    EXPECT_TRUE(
        settings_for_relocation(environment(slurm()), "/usr/lib/libpmix.so.2", nowhere).empty());
    EXPECT_TRUE(settings_for_relocation(environment(slurm()), "", everywhere).empty());
    auto chosen = slurm();
    chosen["PMIX_INSTALL_PREFIX"] = "/mine";
    EXPECT_TRUE(
        settings_for_relocation(environment(chosen), "/injected/libpmix.so.2", everywhere).empty());
}

}  // namespace
