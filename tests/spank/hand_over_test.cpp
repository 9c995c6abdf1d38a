// SPDX-License-Identifier: GPL-2.0-or-later
// When a submission needs a plan of its own, and what the plugin tells Slurm of itself.
#include <gtest/gtest.h>

#include "spank/submit_side.hpp"
#include "tests/spank/hooks.hpp"

namespace {

using fake::Ended;
using fake::Plugin;

TEST(NeedsHandOver, NotForARelativeNameThatCameWithTheEnvironment) {
    // In another directory than the submission's, "job.json" means nothing.
    const batchai::spank::Options options{"job.json", 1, false, {}, {}};
    const batchai::spank::Inherited inherited{
        "/p/plan.json", "/home/a/job.json", "job.json", {}, false};
    EXPECT_FALSE(batchai::spank::needs_hand_over(options, inherited, "job.json"));
}

TEST(NeedsHandOver, ForTheSameRelativeNameOnTheCommandLineOfAnotherDirectory) {
    const batchai::spank::Options options{"job.json", 2, false, {}, {}};
    const batchai::spank::Inherited inherited{
        "/p/plan.json", "/home/a/job.json", "job.json", {}, false};
    EXPECT_TRUE(batchai::spank::needs_hand_over(options, inherited, "/home/b/job.json"));
}

TEST(NeedsHandOver, ForAStepOnTheHostOfAJobInAContainer) {
    const batchai::spank::Options options{"job.json", 1, true, {}, {}};
    batchai::spank::Inherited inherited{"/p/plan.json", "/home/a/job.json", "job.json", {}, false};
    EXPECT_TRUE(batchai::spank::needs_hand_over(options, inherited, "/home/a/job.json"));
    inherited.ignore_container = true;
    EXPECT_FALSE(batchai::spank::needs_hand_over(options, inherited, "/home/a/job.json"));
}

TEST(NeedsHandOver, ForAnotherImageThanThePlansOwn) {
    const batchai::spank::Inherited inherited{"/p/plan.json", "/home/a/job.json", "job.json", "x:1",
                                              false};
    EXPECT_TRUE(batchai::spank::needs_hand_over({"job.json", 1, false, "x:2", {}}, inherited,
                                                "/home/a/job.json"));
    EXPECT_FALSE(batchai::spank::needs_hand_over({"job.json", 1, false, "x:1", {}}, inherited,
                                                 "/home/a/job.json"));
}

TEST(Metadata, MatchesTheHeadersOfSlurm) {
    const Ended ended = fake::in_process([] {
        const Plugin plugin;
        const auto* const version = static_cast<unsigned int*>(plugin.symbol("plugin_version"));
        if (version == nullptr || *version != SLURM_VERSION_NUMBER) return 1;
        if (plugin.symbol("plugin_name") == nullptr) return 2;
        if (plugin.symbol("plugin_type") == nullptr) return 3;
        // Slurm would call these two if they were there.
        if (plugin.symbol("init") != nullptr || plugin.symbol("fini") != nullptr) return 4;
        return 0;
    });
    EXPECT_EQ(ended.exit_code, 0);
}

TEST(Options, AreRegisteredWhereverSlurmReadsThem) {
    for (const auto context : {S_CTX_LOCAL, S_CTX_ALLOCATOR, S_CTX_REMOTE}) {
        const Ended ended = fake::in_process([&] {
            fake::slurm().context = context;
            Plugin plugin({"surprise=1", "timeout=never", "timeout=5"});
            if (plugin.call("slurm_spank_init") != 0) return 1;
            for (const auto& [name, option] : fake::slurm().registered) {
                if (option.usage == nullptr || option.cb == nullptr) return 2;
            }
            return static_cast<int>(10 + fake::slurm().registered.size());
        });
        EXPECT_EQ(ended.exit_code, 13) << ended.errors;
    }
}

TEST(PlugstackArguments, ThatAreUnknownAreLoggedAndPassedOver) {
    const Ended ended = fake::in_process([] {
        fake::slurm().context = S_CTX_ALLOCATOR;
        Plugin plugin({"surprise=1", "timeout=0", "launcher=relative"});
        plugin.call("slurm_spank_init");
        return plugin.call("slurm_spank_init_post_opt") == 0
                   ? static_cast<int>(fake::slurm().log.size())
                   : 99;
    });
    EXPECT_EQ(ended.exit_code, 3) << ended.errors;
}

}  // namespace
