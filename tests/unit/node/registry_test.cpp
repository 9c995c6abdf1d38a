// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/keeper/registry.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>

#include "base/lock.hpp"
#include "node/node_name.hpp"
#include "node/volumes/unsaved.hpp"
#include "record/job_files.hpp"
#include "record/node_notes.hpp"
#include "tests/unit/base/scratch.hpp"

namespace {

namespace fs = std::filesystem;
using batchai::node::claim;
using batchai::node::claim_for_process;
using batchai::node::end_claims;
using batchai::node::jobs_left;
using testing::ElementsAre;
using testing::IsEmpty;

// The job's end and the clean-up after it.
batchai::base::Result<bool> release(const batchai::base::Root& root, const std::string& job) {
    static_cast<void>(end_claims(root, job));
    return batchai::node::release(root, job, {});
}

class Registry : public testing::Test {
  protected:
    void SetUp() override {
        auto opened = batchai::base::open_private_directory(scratch.path().string());
        ASSERT_TRUE(opened);
        root = std::move(*opened);
    }

    [[nodiscard]] bool exists(const std::string& name) const {
        return fs::exists(scratch.path() / name);
    }
    void write(const std::string& name, const std::string& text) const {
        fs::create_directories((scratch.path() / name).parent_path());
        std::ofstream(scratch.path() / name) << text;
    }

    Scratch scratch;
    batchai::base::Root root;
};

TEST_F(Registry, RemovesAJobsDirectoryWithAllThatIsInIt) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    write("abc/deep/er/file", "x");
    fs::permissions(scratch.path() / "abc/deep/er", fs::perms::none);
    ASSERT_TRUE(claim(root, "8", "def"));
    ASSERT_TRUE(release(root, "7"));
    EXPECT_FALSE(exists("abc"));
    EXPECT_FALSE(exists("by-job/7"));
    ASSERT_TRUE(release(root, "8"));
    EXPECT_TRUE(fs::is_empty(scratch.path())) << "something of the user stays on the node for ever";
}

TEST_F(Registry, KeepsADirectoryUntilItsLastJobEnds) {
    // Two tasks of a job array share the plan, and with it the directory.
    ASSERT_TRUE(claim(root, "7", "abc"));
    ASSERT_TRUE(claim(root, "8", "abc"));
    ASSERT_TRUE(claim(root, "8", "abc"));
    ASSERT_TRUE(release(root, "7"));
    EXPECT_TRUE(exists("abc"));
    ASSERT_TRUE(release(root, "8"));
    EXPECT_FALSE(exists("abc"));
}

TEST_F(Registry, LeavesOtherJobsAlone) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    ASSERT_TRUE(claim(root, "70", "def"));
    ASSERT_TRUE(release(root, "7"));
    EXPECT_TRUE(exists("def"));
    EXPECT_TRUE(exists("by-job/70"));
}

TEST_F(Registry, KeepsWhatTheSameJobQueuedAgainUses) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    ASSERT_TRUE(claim(root, "7", "def"));
    ASSERT_TRUE(end_claims(root, "7").value());
    ASSERT_TRUE(claim(root, "7", "abc"));
    ASSERT_TRUE(batchai::node::release(root, "7", {}));
    EXPECT_TRUE(exists("abc"));
    EXPECT_FALSE(exists("def"));
    ASSERT_TRUE(release(root, "7"));
    EXPECT_FALSE(exists("abc"));
}

TEST_F(Registry, RemovesNothingThatIsStillBeingStored) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    write("abc/.volumes/0/0/lock", "");
    const batchai::base::FileDescriptor lock(
        open((scratch.path() / "abc/.volumes/0/0/lock").c_str(), O_RDWR));
    ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
    EXPECT_FALSE(release(root, "7"));
    EXPECT_TRUE(exists("abc"));
    ASSERT_EQ(flock(lock.get(), LOCK_UN), 0);
    EXPECT_TRUE(release(root, "7"));
    EXPECT_FALSE(exists("abc"));
}

// While an instance exists, files can be made but nothing can be written into them.
class FullFileSystem {
  public:
    FullFileSystem() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit nothing{0, before_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &nothing);
    }
    FullFileSystem(const FullFileSystem&) = delete;
    FullFileSystem& operator=(const FullFileSystem&) = delete;
    ~FullFileSystem() {
        setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

  private:
    rlimit before_{};
    void (*handler_)(int);
};

// What a job has left in a volume's cache that neither the storage nor the job's directory takes.
class UnsavedData : public Registry {
  protected:
    void SetUp() override {
        Registry::SetUp();
        ASSERT_TRUE(claim(root, "7", "abc"));
        fs::create_directory(job.directory());
        write("abc/.volumes/0/0/lock", "");
        write("abc/.volumes/0/0/label",
              job.directory().string() + "\nazureFileShares \"box\"\nout\ndata\n");
        write("abc/.volumes/0/0/cache/vfs/volume{x}/data/deep/result", "precious");
        write("abc/.volumes/0/0/cache/vfsMeta/volume{x}/data/deep/result",
              R"({"Size": 8, "Dirty": true})");
        const FullFileSystem full;
        const auto released = release(root, "7");
        ASSERT_TRUE(released) << released.error().text();
        EXPECT_FALSE(*released);
    }

    [[nodiscard]] std::string text_of(const fs::path& path) const {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    [[nodiscard]] fs::path saved() const {
        return job.unsaved(batchai::node::node_name()) / "out/deep/result";
    }
    void is_from(int days_ago) const {
        fs::last_write_time(scratch.path() / "unsaved-7-1",
                            fs::file_time_type::clock::now() - std::chrono::hours(24 * days_ago));
    }

    batchai::record::JobFiles job{scratch.path() / "job"};
    const std::string kept = "unsaved-7-1/cache/vfs/volume{x}/data/deep/result";
};

TEST_F(UnsavedData, IsKeptUntilItCanBeSaved) {
    EXPECT_EQ(text_of(scratch.path() / kept), "precious");
    EXPECT_FALSE(exists("abc"));
    EXPECT_FALSE(exists("by-job"));
    for (const auto& entry : fs::recursive_directory_iterator(job.directory()))
        EXPECT_FALSE(entry.path().filename().string().starts_with("result"))
            << "a part of the file is there: " << entry.path();
    {
        const FullFileSystem full;
        batchai::node::save_kept(root, "8");
    }
    EXPECT_EQ(text_of(scratch.path() / kept), "precious");
    batchai::node::save_kept(root, "7");
    EXPECT_FALSE(fs::exists(saved())) << "tried twice after the same job";
    batchai::node::save_kept(root, "8");
    EXPECT_EQ(text_of(saved()), "precious");
    EXPECT_FALSE(exists("unsaved-7-1"));
    const auto notes = failure_notes(job);
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_EQ(notes[0].code, batchai::record::data_not_written);
    EXPECT_THAT(notes[0].text, testing::HasSubstr("1 of them are saved in "));
}

TEST_F(UnsavedData, OfADeletedJobIsKeptForTwoWeeks) {
    fs::remove_all(job.directory());
    is_from(13);
    batchai::node::save_kept(root, "8");
    EXPECT_TRUE(exists(kept));
    EXPECT_FALSE(fs::exists(job.directory()));
    is_from(15);
    batchai::node::save_kept(root, "8");
    EXPECT_TRUE(fs::is_empty(scratch.path()));
}

// Breaks when data is deleted because nobody can tell whose it is.
TEST_F(UnsavedData, WithoutALabelIsKept) {
    ASSERT_TRUE(claim(root, "9", "def"));
    write("def/.volumes/0/0/cache/vfs/volume{x}/data/result", "precious");
    write("def/.volumes/0/1/lock", "");
    ASSERT_FALSE(release(root, "9").value());
    EXPECT_TRUE(exists("unsaved-9-1/cache/vfs/volume{x}/data/result"));
    EXPECT_FALSE(exists("unsaved-9-2"));
    EXPECT_FALSE(exists("def"));
}

TEST_F(UnsavedData, OfSeveralRunsIsKeptApart) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    fs::create_directories(scratch.path() / "abc/.volumes/0");
    fs::copy(scratch.path() / "unsaved-7-1", scratch.path() / "abc/.volumes/0/0",
             fs::copy_options::recursive);
    const FullFileSystem full;
    ASSERT_FALSE(release(root, "7").value());
    EXPECT_TRUE(exists(kept));
    EXPECT_TRUE(exists("unsaved-7-2/cache/vfs/volume{x}/data/deep/result"));
}

TEST_F(Registry, RemovesWhatAnInterruptedCleanUpHasSetAside) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    write(".7.abc/file", "set aside before");
    write("abc/file", "made anew since");
    ASSERT_TRUE(release(root, "7"));
    EXPECT_FALSE(exists("abc"));
    EXPECT_FALSE(exists(".7.abc"));
}

TEST_F(Registry, TellsWhatIsLeftOfJobsThatCannotLive) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    ASSERT_TRUE(claim(root, "8", "def"));
    ASSERT_TRUE(claim(root, "9", "ghi"));
    EXPECT_THAT(jobs_left(root)->ended, IsEmpty());
    ASSERT_TRUE(end_claims(root, "8").value());
    write("by-job/7.boot", batchai::base::boot_id() + "\n");
    write("by-job/9.boot", "an earlier run of the node");
    EXPECT_THAT(jobs_left(root)->ended, ElementsAre("8"));
    EXPECT_THAT(jobs_left(root)->interrupted, ElementsAre("9"));
    // A step that is killed before it has written the id tells nothing of when the job began.
    write("by-job/7.boot", "");
    EXPECT_THAT(jobs_left(root)->interrupted, ElementsAre("9"));
    ASSERT_TRUE(release(root, "8"));
    ASSERT_TRUE(release(root, "9"));
    EXPECT_THAT(jobs_left(root)->ended, IsEmpty());
    EXPECT_THAT(jobs_left(root)->interrupted, IsEmpty());
    EXPECT_TRUE(exists("abc"));
}

TEST_F(Registry, TellsWhichJobsHaveClaimedNothingForLong) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    ASSERT_TRUE(claim(root, "8", "def"));
    ASSERT_TRUE(claim(root, "9", "ghi"));
    const auto process = claim_for_process(root, "9", "ghi");
    const auto long_ago = fs::file_time_type::clock::now() - 2 * batchai::node::beyond_doubt;
    for (const char* const job : {"7", "9"})
        fs::last_write_time(scratch.path() / "by-job" / (std::string(job) + ".boot"), long_ago);
    EXPECT_THAT(jobs_left(root)->doubtful, ElementsAre("7")) << "9 has a process here";
    EXPECT_THAT(jobs_left(root)->interrupted, IsEmpty());
    batchai::node::note_running(root, "7");
    EXPECT_THAT(jobs_left(root)->doubtful, IsEmpty());
}

TEST_F(Registry, KeepsWhatAProcessUsesUntilItEnds) {
    auto process = claim_for_process(root, "7", "abc");
    ASSERT_TRUE(process);
    EXPECT_TRUE(exists("abc"));
    ASSERT_TRUE(claim(root, "7", "def"));
    EXPECT_THAT(jobs_left(root)->ended, IsEmpty());
    process->reset(-1);
    EXPECT_THAT(jobs_left(root)->ended, ElementsAre("7"));
    ASSERT_TRUE(batchai::node::release(root, "7", {}));
    EXPECT_FALSE(exists("abc"));
    EXPECT_TRUE(exists("def")) << "the job's steps still use it";
}

TEST_F(Registry, KeepsWhatStepsStillUseWhenAProcessOfTheJobEnds) {
    {
        const auto process = claim_for_process(root, "7", "abc");
        ASSERT_TRUE(process);
        ASSERT_TRUE(claim(root, "7", "abc"));
    }
    ASSERT_TRUE(batchai::node::end_claims_of_ended_processes(root));
    ASSERT_TRUE(batchai::node::release(root, "7", {}));
    EXPECT_TRUE(exists("abc"));
    ASSERT_TRUE(release(root, "7"));
    EXPECT_FALSE(exists("abc"));
}

TEST_F(Registry, EndsTheClaimsOfALivingProcessWithItsJob) {
    const auto process = claim_for_process(root, "7", "abc");
    const auto other = claim_for_process(root, "8", "def");
    ASSERT_TRUE(process && other);
    EXPECT_TRUE(end_claims(root, "7").value());
    ASSERT_TRUE(batchai::node::release(root, "7", {}));
    EXPECT_FALSE(exists("abc"));
    EXPECT_TRUE(exists("def"));
}

// The node was restarted, the job is queued again and runs here, and has no step yet.
TEST_F(Registry, TakesNoJobForInterruptedOfWhichAProcessLives) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    write("by-job/7.boot", "an earlier run of the node");
    const auto process = claim_for_process(root, "7", "abc");
    EXPECT_THAT(jobs_left(root)->interrupted, IsEmpty());
}

// The job itself may have filled the file system.
TEST_F(Registry, CleansUpWhereNothingCanBeWritten) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    std::optional<FullFileSystem> full(std::in_place);
    EXPECT_FALSE(claim(root, "8", "def"));
    const auto ended = end_claims(root, "7");
    const auto ended_too = end_claims(root, "8");
    full.reset();
    EXPECT_TRUE(ended.value());
    EXPECT_FALSE(ended_too.value());
    ASSERT_TRUE(batchai::node::release(root, "7", {}));
    EXPECT_FALSE(exists("abc"));
    EXPECT_FALSE(exists("by-job"));
}

TEST_F(Registry, FindsNoClaimOfAJobWithoutOne) {
    EXPECT_FALSE(end_claims(root, "7").value());
    EXPECT_FALSE(end_claims(root, "../7").value());
}

TEST_F(Registry, ThatCannotBeLockedIsAnErrorAndStaysAsItIs) {
    ASSERT_TRUE(claim(root, "7", "abc"));
    // flock(2) refuses a descriptor that only stands for a path.
    const batchai::base::Root without_lock{
        batchai::base::FileDescriptor(open(scratch.path().c_str(), O_PATH | O_CLOEXEC)), root.path};
    const std::string words = "cannot be locked: Bad file descriptor";
    EXPECT_EQ(claim(without_lock, "8", "def").error().what, words);
    EXPECT_EQ(end_claims(without_lock, "7").error().what, words);
    EXPECT_EQ(jobs_left(without_lock).error().what, words);
    EXPECT_EQ(batchai::node::release(without_lock, "7", {}).error().what, words);
    EXPECT_TRUE(exists("by-job/7"));
    EXPECT_FALSE(exists("def"));
}

TEST_F(Registry, KnowsNothingOfOtherPeoplesJobs) {
    EXPECT_TRUE(release(root, "12345"));
}

TEST_F(Registry, RemovesALinkAndNotWhatItPointsTo) {
    const Scratch elsewhere;
    std::ofstream(elsewhere.path() / "file") << "x";
    ASSERT_TRUE(claim(root, "7", "abc"));
    fs::create_directory_symlink(elsewhere.path(), scratch.path() / "abc/link");
    ASSERT_TRUE(release(root, "7"));
    EXPECT_FALSE(exists("abc"));
    EXPECT_TRUE(fs::exists(elsewhere.path() / "file"));
}

TEST_F(Registry, RemovesADirectoryThatBecameALink) {
    const Scratch elsewhere;
    std::ofstream(elsewhere.path() / "file") << "x";
    ASSERT_TRUE(claim(root, "7", "abc"));
    fs::remove(scratch.path() / "abc");
    fs::create_directory_symlink(elsewhere.path(), scratch.path() / "abc");
    ASSERT_TRUE(release(root, "7"));
    EXPECT_TRUE(fs::exists(elsewhere.path() / "file"));
}

TEST_F(Registry, PassesOverNamesThatLeadOut) {
    write("keep/file", "x");
    write("by-job/7", "../..\nkeep/../keep\n/etc\n.\nby-job\n");
    write("by-job/8", "other\n");
    ASSERT_TRUE(release(root, "7"));
    EXPECT_TRUE(exists("keep/file"));
    EXPECT_TRUE(exists("by-job/8"));
}

TEST_F(Registry, RefusesNamesAndJobsThatAreNone) {
    for (const char* name : {"", "..", "a/b", "by-job", "a\nb"})
        EXPECT_FALSE(claim(root, "7", name)) << name;
    for (const char* job : {"", "x", "../7", "12345678901"})
        EXPECT_FALSE(claim(root, job, "abc")) << job;
}

}  // namespace
