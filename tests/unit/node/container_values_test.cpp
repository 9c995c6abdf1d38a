// SPDX-License-Identifier: GPL-2.0-or-later
// What of a container is a value: id maps, accounts, what of the node it shows, its environment.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/namespace/identity.hpp"
#include "node/rootfs/container.hpp"
#include "node/rootfs/mounts.hpp"

namespace batchai::node {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(SubordinateIds, AreFoundByNameOrNumber) {
    const std::string text = "bob:100000:65536\nalice:165536:65536\n1003:300000:65536\n";
    EXPECT_EQ(find_subordinate_ids(text, "alice", 1001), (SubordinateIds{165536, 65534}));
    EXPECT_EQ(find_subordinate_ids(text, "carol", 1003), (SubordinateIds{300000, 65534}));
    EXPECT_EQ(find_subordinate_ids(text, "dora", 1004), std::nullopt);
}

TEST(SubordinateIds, AreNotUsedWhenMalformedOrTooFew) {
    for (const char* text : {"alice:1:10\n", "alice:x:65536\n", "alice:1\n", "alice:1:-1\n", "",
                             ":1:65536\n", "alicex:1:65536\n"})
        EXPECT_EQ(find_subordinate_ids(text, "alice", 1001), std::nullopt) << text;
}

TEST(IdMap, MakesTheUserRootOutsideAndItselfForRanks) {
    EXPECT_EQ(to_text(outer_map(20001, {})), "0 20001 1\n");
    EXPECT_EQ(to_text(rank_map(20001, {})), "20001 0 1\n");
    const SubordinateIds others{100000, 65534};
    EXPECT_EQ(to_text(outer_map(20001, others)), "0 20001 1\n1 100000 65534\n");
}

TEST(IdMap, OfRanksHasEachInsideIdOnceAndStaysWithinTheOuterOne) {
    const SubordinateIds others{100000, 65534};
    for (const std::uint32_t id : {0U, 1U, 2U, 20001U, 65534U, 65535U, 70000U}) {
        IdMap map = rank_map(id, others);
        std::sort(map.begin(), map.end(),
                  [](const auto& left, const auto& right) { return left.inside < right.inside; });
        std::uint32_t outside = 0;
        for (std::size_t i = 0; i < map.size(); ++i) {
            outside += map[i].count;
            EXPECT_LE(map[i].outside + map[i].count, 65535U) << id;
            if (i > 0) {
                EXPECT_GE(map[i].inside, map[i - 1].inside + map[i - 1].count) << id;
            }
        }
        EXPECT_EQ(outside, 65535U) << "an id of the outer namespace is lost for " << id;
        EXPECT_THAT(map, Contains(testing::Truly([&](const IdExtent& extent) {
                        return extent.inside == id && extent.outside == 0;
                    })));
    }
}

Account alice() {
    return {20001, 20001, "alice", "users", "/home/alice"};
}

TEST(Accounts, GetTheUserAndKeepTheImagesOwn) {
    EXPECT_EQ(passwd_with("root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:/bin/false\n", alice()),
              "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:/bin/false\n"
              "alice:x:20001:20001:alice:/home/alice:/bin/sh\n");
    EXPECT_EQ(group_with("root:x:0:\n", alice()), "root:x:0:\nusers:x:20001:\n");
}

TEST(Accounts, OfTheImageGiveWayToTheUser) {
    const std::string text =
        passwd_with("alice:x:5:5::/:/bin/sh\nuser:x:20001:1::/:/bin/sh", alice());
    EXPECT_EQ(text,
              "root:x:0:0:root:/root:/bin/sh\nalice:x:20001:20001:alice:/home/alice:/bin/sh\n");
    EXPECT_EQ(passwd_with(text, alice()), text) << "a second time changes something";
}

plan::Plan plan() {
    plan::Plan made;
    made.directories.node_root = "/tmp/batchai-20001";
    made.directories.job_directory = "/home/alice/.batchai/job";
    made.directories.stdouterr_host = "/shared/logs";
    return made;
}

std::vector<std::string> targets(const std::vector<Bind>& binds) {
    std::vector<std::string> names;
    names.reserve(binds.size());
    for (const Bind& bind : binds)
        names.push_back(bind.target);
    return names;
}

TEST(Binds, ShowEachPlaceOnceAndOuterOnesFirst) {
    EXPECT_THAT(
        targets(plan_binds(plan(), {"/home/alice", "/var/spool/slurmd", "/scratch/project/"})),
        ElementsAre("/tmp", "/home/alice", "/shared/logs", "/scratch/project",
                    "/var/spool/slurmd"));
}

TEST(Binds, NeverHideTheImagesProgramsBehindAUsersDirectory) {
    for (const char* directory : {"/", "/usr", "/usr/share/x", "/etc/slurm", "/opt/software", "//",
                                  "/proc/1", "relative", "/scratch/../etc"})
        EXPECT_THAT(
            targets(plan_binds(plan(), {"/usr", "/var/spool/slurmd", directory})),
            ElementsAre("/tmp", "/shared/logs", "/var/spool/slurmd", "/home/alice/.batchai/job"))
            << directory;
}

TEST(Binds, OfTheSiteGoWhereTheSiteWantsAndHideNothingThatTheJobNeeds) {
    plan::Plan with_site = plan();
    with_site.container.emplace().binds = {{"/software", "/opt/software", true, true},
                                           {"/shared", "/shared", true, false},
                                           {"/home/alice/.batchai", "/home/alice/.batchai"}};
    const std::vector<Bind> binds = plan_binds(with_site, {"/home/alice", "/var/spool/slurmd", {}});
    // The logs, which are to be written, are shown once more over the directory that is not.
    EXPECT_THAT(targets(binds), ElementsAre("/tmp", "/shared", "/home/alice", "/shared/logs",
                                            "/opt/software", "/var/spool/slurmd"));
    EXPECT_TRUE(binds[1].read_only);
    EXPECT_THAT(binds[1].hint, HasSubstr("container_binds of site.lua"));
    EXPECT_FALSE(binds[3].read_only);
    EXPECT_EQ(binds[4].source, "/software");
    EXPECT_TRUE(binds[4].read_only && binds[4].optional);
}

TEST(Binds, OfAJoiningStepAreWhatNoOtherStepHas) {
    const auto further = [](const char* directory) {
        const auto bind = further_bind(plan(), {"/home/alice", "/var/spool/slurmd", directory});
        return bind ? bind->target : std::string("none");
    };
    EXPECT_EQ(further("/scratch/project/"), "/scratch/project");
    for (const char* directory :
         {"", "/", "/home/alice", "/home/alice/below", "/tmp/x", "/shared/logs", "/usr/share/x"})
        EXPECT_EQ(further(directory), "none") << directory;
}

TEST(ContainerEnvironment, PutsTheJobOverTheDevicesOverTheImage) {
    plan::Container container;
    container.environment = {
        {"PATH", "/image/bin"}, {"A", "image"}, {"B", "image"}, {"HOME", "/root"}};
    const TaskEnvironment made =
        container_environment(container, {{"B", "device"}, {"C", "device"}}, {{"C", "job"}});
    EXPECT_THAT(made.set,
                ElementsAre(plan::Variable{"PMIX_MCA_gds", "hash"},
                            plan::Variable{"PMIX_MCA_psec", "native"},
                            plan::Variable{"PATH", "/image/bin"}, plan::Variable{"A", "image"},
                            plan::Variable{"B", "image"}, plan::Variable{"B", "device"},
                            plan::Variable{"C", "device"}, plan::Variable{"C", "job"}));
}

TEST(ContainerEnvironment, TakesTheHostsLibraryPathsUnlessTheJobSetsThem) {
    const TaskEnvironment made = container_environment({}, {}, {{"PYTHONPATH", "/shared/mine"}});
    EXPECT_THAT(made.unset, Contains("LD_LIBRARY_PATH"));
    EXPECT_THAT(made.unset, Not(Contains("PYTHONPATH")));
    EXPECT_THAT(made.set, Contains(testing::Field(&plan::Variable::name, "PATH")));
}

}  // namespace
}  // namespace batchai::node
