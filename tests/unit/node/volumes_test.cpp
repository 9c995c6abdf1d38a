// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/node_name.hpp"
#include "node/rootfs/mounts.hpp"
#include "node/volumes/flush.hpp"
#include "node/volumes/rclone.hpp"
#include "node/volumes/steward.hpp"
#include "record/node_notes.hpp"
#include "tests/unit/base/scratch.hpp"
#include "tests/unit/rclone.hpp"

namespace {

namespace fs = std::filesystem;
using namespace batchai::node;
using namespace batchai::record;
using batchai::plan::Mount;
using batchai::plan::RemoteVolume;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

Mount blob_mount() {
    Mount mount;
    mount.kind = "azureBlobFileSystems";
    mount.read_only = true;
    mount.remote = RemoteVolume{"azureblob",
                                "box/data",
                                {{"account", "acct"}, {"endpoint", "http://10.0.0.9:10000/acct"}},
                                "key",
                                "mountVolumes/azureBlobFileSystems/0",
                                {},
                                0640,
                                0750};
    return mount;
}

void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
}

TEST(Rclone, IsToldOfAzuresBlobsByVariablesOnly) {
    const auto environment = remote_environment(*blob_mount().remote, "hush==");
    for (const char* entry :
         {"RCLONE_CONFIG_VOLUME_TYPE=azureblob", "RCLONE_CONFIG_VOLUME_ACCOUNT=acct",
          "RCLONE_CONFIG_VOLUME_ENDPOINT=http://10.0.0.9:10000/acct",
          "RCLONE_CONFIG_VOLUME_KEY=hush=="})
        EXPECT_THAT(environment, Contains(entry));
    const auto arguments = serve_arguments(blob_mount(), "/cache");
    EXPECT_THAT(arguments, Not(Contains(HasSubstr("hush"))));
    EXPECT_THAT(arguments, Contains("volume:box/data"));
    EXPECT_THAT(arguments, Contains("--file-perms=0640"));
    EXPECT_THAT(arguments, Contains("--dir-perms=0750"));
    EXPECT_THAT(arguments, Contains("--read-only"));
    EXPECT_THAT(arguments, Contains("--cache-dir=/cache"));
}

TEST(Rclone, TakesCredentialsFromPrivateFilesOnly) {
    const Scratch scratch;
    RemoteVolume remote = *blob_mount().remote;
    remote.secret_name.clear();
    remote.credentials_file = (scratch.path() / "key").string();
    write(remote.credentials_file, "hush==\n");
    fs::permissions(remote.credentials_file, fs::perms(0600));
    const auto environment = rclone_environment(remote, scratch.path().string());
    ASSERT_TRUE(environment) << environment.error().text();
    EXPECT_THAT(*environment, Contains("RCLONE_CONFIG_VOLUME_KEY=hush=="));
    fs::permissions(remote.credentials_file, fs::perms(0640));
    const auto refused = rclone_environment(remote, scratch.path().string());
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text(), HasSubstr("nobody else can read"));
    EXPECT_THAT(refused.error().text(), Not(HasSubstr("hush")));
}

TEST(Rclone, EncodesPasswords) {
    if (batchai::test::release_lacks_rclone()) GTEST_SKIP() << "this release has no rclone";
    const Scratch scratch;
    RemoteVolume remote{"smb", "share", {}, "pass", "mountVolumes/azureFileShares/0", {}, 0, 0};
    const auto secrets = scratch.path() / "secrets.json";
    write(secrets, R"({"mountVolumes/azureFileShares/0": "hush"})");
    fs::permissions(secrets, fs::perms(0600));
    const auto environment = rclone_environment(remote, scratch.path().string());
    ASSERT_TRUE(environment) << environment.error().text();
    EXPECT_THAT(*environment, Contains(testing::StartsWith("RCLONE_CONFIG_VOLUME_PASS=")));
    EXPECT_THAT(*environment, Not(Contains("RCLONE_CONFIG_VOLUME_PASS=hush")));
}

// A checkpoint that replaces an earlier one often has its size.
TEST(Rclone, CopiesWhatLooksLikeWhatIsThere) {
    if (batchai::test::release_lacks_rclone()) GTEST_SKIP() << "this release has no rclone";
    const Scratch scratch;
    const fs::path here = scratch.path() / "here/model";
    const fs::path there = scratch.path() / "there/model";
    write(here, "new");
    write(there, "old");
    fs::last_write_time(there, fs::last_write_time(here));
    RemoteVolume remote;
    remote.backend = "local";
    remote.path = there.parent_path().string();
    const auto copied =
        copy_to_volume(remote_environment(remote, {}), remote, here.parent_path().string(), {},
                       {"model"}, std::chrono::seconds(60));
    ASSERT_TRUE(copied) << copied.error().text();
    std::string text;
    std::ifstream(there) >> text;
    EXPECT_EQ(text, "new");
}

TEST(Rclone, IsUnderstoodWhenItComplains) {
    EXPECT_EQ(complaint_of(""), "");
    EXPECT_EQ(complaint_of("2026/11/21 14:49:44 Fatal error: failed to mount\n"),
              "Fatal error: failed to mount");
    EXPECT_EQ(complaint_of(R"({"level":"notice","msg":"first"})"
                           "\n"
                           R"({"level":"error","msg":"401 Unauthorized","object":"a/b"})"
                           "\n"
                           R"({"level":"info","msg":"last"})"
                           "\n"),
              "a/b: 401 Unauthorized");
    EXPECT_EQ(complaint_of("{\"level\":\"error\",\"msg\":\"a\\u009bb\\nc\"}\n"), "a\uFFFDb c");
    EXPECT_THAT(advice_on("response error: The attempted logon is invalid"), HasSubstr("key"));
    EXPECT_THAT(advice_on("dial tcp: connect: connection refused"), HasSubstr("does not answer"));
    EXPECT_THAT(advice_on("Failed to start: rclone is not installed"), HasSubstr("package rclone"));
}

TEST(Cache, KnowsWhatIsNotWritten) {
    const Scratch scratch;
    const auto cache = scratch.path();
    const auto add = [&](const std::string& top, const std::string& name, const std::string& note) {
        write(cache / "vfs" / top / "share/a" / name, "x");
        write(cache / "vfsMeta" / top / "share/a" / name, note);
    };
    add("volume{x1}", "written", R"({"Size": 1, "Dirty": false, "Rs": [{"Pos": 0, "Size": 1}]})");
    add("volume{x1}", "b/dirty", R"({"Size": 1, "Dirty": true, "Rs": [{"Pos": 0, "Size": 1}]})");
    add("volume{x2}", "part", R"({"Size": 9, "Dirty": true, "Rs": [{"Pos": 8, "Size": 1}]})");
    add("volume", "half-a-note", R"({"Size": 1, "Di)");
    write(cache / "vfsMeta/volume{x1}/share/a/deleted", R"({"Size": 1, "Dirty": true})");
    const auto [files, complete] = unwritten_files(cache.string(), "share/a");
    EXPECT_TRUE(complete);
    ASSERT_EQ(files.size(), 3U);
    EXPECT_EQ(files[0].path, "half-a-note");
    EXPECT_EQ(files[1].path, "b/dirty");
    EXPECT_TRUE(files[1].whole);
    EXPECT_EQ(files[1].top(), (cache / "vfs/volume{x1}/share/a").string());
    EXPECT_EQ(files[2].path, "part");
    EXPECT_FALSE(files[2].whole);
    for (const auto* same : {"/share/a", "share//a/", "/share/b/../a"}) {
        const auto there = unwritten_files(cache.string(), same).files;
        EXPECT_EQ(there, files) << same;
    }
    const auto none = unwritten_files((cache / "none").string(), "share");
    EXPECT_TRUE(none.files.empty() && none.complete);
}

// Breaks when the files of a remote that leads to another one, as "alias" does, are overlooked:
// they would be deleted with the cache.
TEST(Cache, KnowsWhatIsNotWrittenOfARemoteBehindTheVolume) {
    const Scratch scratch;
    const auto cache = scratch.path();
    write(cache / "vfs/local/export/share/a/file", "x");
    write(cache / "vfsMeta/local/export/share/a/file", R"({"Size": 1, "Dirty": true})");
    const auto files = unwritten_files(cache.string(), "share").files;
    ASSERT_EQ(files.size(), 1U);
    EXPECT_EQ(files[0].path, "export/share/a/file");
    EXPECT_FALSE(files[0].placed);
    EXPECT_TRUE(fs::exists(files[0].local));
}

// Breaks when a cache that cannot be read counts as empty.
TEST(Cache, SaysThatItCannotBeRead) {
    const Scratch scratch;
    write(scratch.path() / "vfsMeta", "not a directory");
    EXPECT_FALSE(unwritten_files(scratch.path().string(), "share").complete);
}

TEST(Cache, HasASlotForEachSandbox) {
    const Scratch scratch;
    ASSERT_EQ(mkdir((scratch.path() / "job").c_str(), 0700), 0);
    const auto root = batchai::base::open_private_directory((scratch.path() / "job").string());
    ASSERT_TRUE(root);
    const auto first = CacheSlot::take(*root, 2);
    {
        const auto second = CacheSlot::take(*root, 2);
        ASSERT_TRUE(first && second);
        EXPECT_EQ(first->path(), root->path + "/.volumes/2/0");
        EXPECT_EQ(second->path(), root->path + "/.volumes/2/1");
    }
    const auto third = CacheSlot::take(*root, 2);
    ASSERT_TRUE(third);
    EXPECT_EQ(third->path(), root->path + "/.volumes/2/1") << "that of a dead sandbox";
}

TEST(Apart, GivesUpOnWhatDoesNotAnswer) {
    Apart quick([] { return ENOENT; });
    Apart hanging([] {
        pause();
        return 0;
    });
    const auto soon = Clock::now() + std::chrono::milliseconds(300);
    EXPECT_EQ(quick.result_by(soon + std::chrono::seconds(10)), ENOENT);
    EXPECT_EQ(hanging.result_by(soon), std::nullopt);
}

TEST(MountSource, StaysBelowWhatTheSiteNames) {
    const Scratch scratch;
    const auto top = scratch.path() / "server";
    fs::create_directories(top / "set/deep");
    fs::create_directories(scratch.path() / "server-two");
    fs::create_directory_symlink("set", top / "inside");
    fs::create_directory_symlink("../server-two", top / "beside");
    fs::create_directory_symlink("/etc", top / "outside");
    const auto opens = [&](const std::string& below) {
        Mount mount;
        mount.source_root = top.string();
        mount.source = top.string() + below;
        return open_mount_source(mount).has_value();
    };
    EXPECT_TRUE(opens(""));
    EXPECT_TRUE(opens("/set/deep"));
    EXPECT_TRUE(opens("/inside/deep"));
    for (const char* below : {"/beside", "/outside", "/set/../../server-two", "-two", "/none"})
        EXPECT_FALSE(opens(below)) << below;
}

TEST(FailureNotes, AreReadBackAndForgotten) {
    const Scratch scratch;
    const JobFiles job(scratch.path());
    write_failure_note(job, {.code = "AZFMountError", .text = "cannot\nhint: \"x\"", .node = "n1"});
    write_failure_note(job, {.code = "MountError", .text = "other", .node = "n2"});
    write(scratch.path() / "node/n3.failure.json", "{");
    const auto notes = failure_notes(job);
    ASSERT_EQ(notes.size(), 2U);
    EXPECT_TRUE(notes[0].time && notes[1].time);
    EXPECT_THAT(notes, Contains(FailureNote{
                           .code = "AZFMountError",
                           .text = "cannot\nhint: \"x\"",
                           .node = "n1",
                           .time = notes[0].node == "n1" ? notes[0].time : notes[1].time}));
    EXPECT_TRUE(has_failure_note(job, "n2"));
    forget_failure_notes(job);
    EXPECT_TRUE(failure_notes(job).empty());
}

// Renaming needs no room where nothing can be written any more.
TEST(StorageNotes, BecomeFailuresWithoutBeingWritten) {
    const Scratch scratch;
    const JobFiles job(scratch.path());
    StorageNote note{.node = "n1", .slurm_job_id = "7", .until = {}, .path = {}};
    write_storage_note(job, note);
    fail_storage_note(job, note);
    EXPECT_TRUE(storage_notes(job, "7").empty());
    const auto notes = failure_notes(job);
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_EQ(notes[0].code, data_not_written);
    EXPECT_EQ(notes[0].node, "n1");
    EXPECT_THAT(notes[0].text, HasSubstr("kept on the node"));
}

// A steward with one volume, whose rclone is a script that only waits. It makes a mount namespace
// of its own, for which a user needs more than a unit test has.
class StewardTest : public testing::Test {
  protected:
    void SetUp() override {
        if (geteuid() != 0) GTEST_SKIP() << "needs root";
        fs::create_directory(scratch.path() / "bin");
        write(scratch.path() / "bin/rclone", "#!/bin/sh\nexec sleep 600\n");
        fs::permissions(scratch.path() / "bin/rclone", fs::perms(0755));
        setenv("PATH", ((scratch.path() / "bin").string() + ":/usr/bin:/bin").c_str(), 1);
        mount_ = blob_mount();
        mount_.name = "box";
        mount_.target = "out";
        mount_.read_only = false;
        mount_.flush_seconds = 3;
        ASSERT_EQ(mkdir((scratch.path() / "temp").c_str(), 0700), 0);
    }

    // In a process of its own, which writes a file to the volume and then does `end`.
    void with_steward(const std::function<void(Steward&)>& end) {
        const pid_t starter = fork();
        if (starter == 0) {
            auto root = batchai::base::open_private_directory((scratch.path() / "temp").string());
            auto slot = CacheSlot::take(*root, 0);
            std::vector<RemoteMount> mounts;
            mounts.push_back({&mount_,
                              {},
                              std::move(*slot),
                              batchai::base::FileDescriptor(open("/dev/null", O_RDWR))});
            auto steward = Steward::start(mounts, job.directory().string(), "7");
            if (!steward) _exit(1);
            steward->serve();
            const fs::path cache = mounts.front().slot.cache();
            write(cache / "vfs/volume/box/data/result", "precious");
            write(cache / "vfsMeta/volume/box/data/result", R"({"Size": 8, "Dirty": true})");
            end(*steward);
            _exit(0);
        }
        int status = 0;
        ASSERT_EQ(waitpid(starter, &status, 0), starter);
        ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    }

    // An rclone that serves a mount by `serve` and notes what it is to copy.
    void play_rclone(const std::string& serve) const {
        write(scratch.path() / "bin/rclone", "#!/bin/sh\nif [ \"$1\" != copy ]; then " + serve +
                                                 "; fi\ncat >> " +
                                                 (scratch.path() / "list").string() + "\n");
    }

    [[nodiscard]] std::string copied() const {
        std::ifstream list(scratch.path() / "list");
        return {std::istreambuf_iterator<char>(list), {}};
    }

    // Returns when the time to store it is over: this rclone leaves its notes.
    void store_one_file(int flush_seconds, const std::string& remote = "volume") {
        mount_.flush_seconds = flush_seconds;
        with_steward([&](Steward& steward) {
            const fs::path cache = scratch.path() / "temp/.volumes/0/0/cache";
            write(cache / "vfs" / remote / "box/data/whole", "precious");
            write(cache / "vfsMeta" / remote / "box/data/whole",
                  R"({"Size": 8, "Dirty": true, "Rs": [{"Pos": 0, "Size": 8}]})");
            static_cast<void>(steward.finish(std::chrono::seconds(60)));
        });
        ASSERT_TRUE(ends_within(std::chrono::seconds(60)));
    }

    [[nodiscard]] bool ends_within(std::chrono::seconds time) const {
        const auto end = Clock::now() + time;
        while (Clock::now() < end) {
            if (storage_notes(job, "7").empty()) return true;
            usleep(20000);
        }
        return false;
    }

    Scratch scratch;
    JobFiles job{scratch.path() / "job"};
    Mount mount_;
};

TEST_F(StewardTest, StoresAlsoWhenItsStarterIsKilled) {
    with_steward([](Steward&) { raise(SIGKILL); });
    const auto begin = Clock::now();
    while (Clock::now() < begin + std::chrono::seconds(30) &&
           (storage_notes(job, "7").empty() || !storage_notes(job, "7").front().until))
        usleep(20000);
    ASSERT_FALSE(storage_notes(job, "7").empty());
    EXPECT_TRUE(storage_notes(job, "7").front().until) << "it does not say how long it goes on";
    ASSERT_TRUE(ends_within(std::chrono::seconds(20)));
    ASSERT_EQ(failure_notes(job).size(), 1U);
    EXPECT_EQ(failure_notes(job).front().code, data_not_written);
    EXPECT_TRUE(fs::exists(job.unsaved(node_name()) / "out/result"));
}

TEST_F(StewardTest, LosesNoFileWhoseNameIsNoLineOfAList) {
    play_rclone("echo '{\"level\": \"error\", \"msg\": \"Failed to copy\"}' >&2; exec sleep 600");
    mount_.flush_seconds = 7;
    with_steward([&](Steward& steward) {
        const fs::path cache = scratch.path() / "temp/.volumes/0/0/cache";
        for (const char* name : {"two\nlines", "whole"}) {
            write(cache / "vfs/volume/box/data" / name, "precious");
            write(cache / "vfsMeta/volume/box/data" / name,
                  R"({"Size": 8, "Dirty": true, "Rs": [{"Pos": 0, "Size": 8}]})");
        }
        static_cast<void>(steward.finish(std::chrono::seconds(20)));
    });
    ASSERT_TRUE(ends_within(std::chrono::seconds(20)));
    EXPECT_EQ(copied(), "whole\n");
    EXPECT_FALSE(fs::exists(job.unsaved(node_name()) / "out/whole"));
    EXPECT_TRUE(fs::exists(job.unsaved(node_name()) / "out/two\nlines"));
}

// What is copied twice takes twice as long.
TEST_F(StewardTest, CopiesNothingWhileRcloneIsOnlySlow) {
    play_rclone("echo '{\"level\": \"warning\", \"msg\": \"slow\"}' >&2; exec sleep 600");
    store_one_file(7);
    EXPECT_EQ(copied(), "");
    EXPECT_TRUE(fs::exists(job.unsaved(node_name()) / "out/whole"));
}

TEST_F(StewardTest, CopiesWhatAnEarlierRcloneHasLeft) {
    play_rclone("exec sleep 600");
    store_one_file(11, "volume{a1b2c}");
    EXPECT_EQ(copied(), "whole\n");
    EXPECT_FALSE(fs::exists(job.unsaved(node_name()) / "out/whole"));
}

TEST_F(StewardTest, CopiesWhatAnRcloneLeavesThatHasEnded) {
    play_rclone("exit 0");
    store_one_file(11);
    EXPECT_EQ(copied(), "whole\n");
    EXPECT_FALSE(fs::exists(job.unsaved(node_name()) / "out/whole"));
}

TEST_F(StewardTest, GoesOnAloneWhenItsStarterMustGo) {
    with_steward([](Steward& steward) {
        if (steward.finish(std::chrono::seconds(1))) _exit(2);
    });
    ASSERT_TRUE(ends_within(std::chrono::seconds(20)));
    EXPECT_TRUE(fs::exists(job.unsaved(node_name()) / "out/result"));
}

TEST_F(StewardTest, IsSoonOverWhenNothingIsToBeStored) {
    with_steward([&](Steward& steward) {
        std::error_code error;
        for (const auto& entry : fs::recursive_directory_iterator(scratch.path() / "temp", error)) {
            if (entry.path().filename() == "result") fs::remove(entry.path(), error);
        }
        if (!steward.finish(std::chrono::seconds(8))) _exit(2);
    });
    EXPECT_TRUE(storage_notes(job, "7").empty());
    EXPECT_TRUE(failure_notes(job).empty());
}

}  // namespace
