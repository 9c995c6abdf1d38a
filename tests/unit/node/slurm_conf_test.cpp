// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/slurm_conf.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/temporary_directory.hpp"

namespace batchai::node {
namespace {

namespace fs = std::filesystem;

TEST(SlurmConf, HasTheLastValueOfAKeyInAnyCase) {
    EXPECT_EQ(slurm_conf_value("a=1\nPlugStackConfig = /p # c\nA=2\n", "plugstackconfig"), "/p");
    EXPECT_EQ(slurm_conf_value("a=1\nPlugStackConfig = /p\nA=2\n", "a"), "2");
    EXPECT_EQ(slurm_conf_value("a=1\n", "b"), std::nullopt);
}

TEST(SlurmConf, HasTheSpoolDirectoryOfTheNode) {
    EXPECT_EQ(spool_directory("SlurmdSpoolDir=/var/a\n", "n1", "h1"), "/var/a");
    EXPECT_EQ(spool_directory("# SlurmdSpoolDir=/no\n slurmdSPOOLdir = /b/%n.%h # c\n", "n1", "h1"),
              "/b/n1.h1");
    EXPECT_EQ(spool_directory("", "n1", "h1"), "/var/spool/slurmd");
}

TEST(SlurmConf, TellsWhetherAHostMayHaveSeveralSlurmds) {
    EXPECT_TRUE(may_have_several_slurmds("SlurmdSpoolDir=/var/spool/slurmd.%n\n"));
    EXPECT_FALSE(may_have_several_slurmds("SlurmdSpoolDir=/var/spool/slurmd.%h\n"));
    EXPECT_FALSE(may_have_several_slurmds("SlurmdPidFile=/run/slurmd.%n.pid\n"));
}

TEST(SlurmConf, IsFetchedIfItIsInTheCacheOfSlurmd) {
    const auto scratch = base::TemporaryDirectory::make(fs::temp_directory_path(), "slurm-conf-");
    ASSERT_TRUE(scratch);
    const fs::path root = scratch->path();
    fs::create_directories(root / "spool/conf-cache");
    fs::create_directory(root / "etc");
    fs::create_directory_symlink(root / "spool/conf-cache", root / "conf");
    for (const char* directory : {"spool/conf-cache", "etc"})
        std::ofstream(root / directory / "slurm.conf") << "ClusterName=c\n";
    EXPECT_TRUE(is_fetched(root / "conf/slurm.conf"));
    EXPECT_TRUE(is_fetched(root / "spool/conf-cache/slurm.conf"));
    EXPECT_FALSE(is_fetched(root / "etc/slurm.conf"));
    EXPECT_FALSE(is_fetched(""));
}

}  // namespace
}  // namespace batchai::node
