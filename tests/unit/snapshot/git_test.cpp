// SPDX-License-Identifier: GPL-2.0-or-later
// What git says of work trees made here, and that nothing which their configuration names is run.
#include "snapshot/git.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process.hpp"
#include "base/temporary_directory.hpp"

namespace batchai::snapshot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class WorkTree : public testing::Test {
  protected:
    WorkTree() {
        if (std::system("git --version > /dev/null 2>&1") != 0) return;
        sh("git init -q -b main repo && cd repo && git config user.name a && git config user.email "
           "a@b && printf 'one\\ntwo\\n' > text && git add . && git commit -qm first");
    }
    void SetUp() override {
        if (!fs::exists(path("repo/.git"))) GTEST_SKIP() << "there is no git";
    }

    // The output of a shell whose directory is the scratch directory.
    std::string sh(const std::string& script) const {
        const auto done = base::run({"sh", "-c", "cd \"$1\" && " + script, "sh", path("")});
        EXPECT_TRUE(done && done->exit_code == 0)
            << script << (done ? done->standard_error : done.error().text());
        return done ? done->standard_output : std::string();
    }
    [[nodiscard]] std::string path(const std::string& name) const { return scratch_.file(name); }
    [[nodiscard]] Repository repository(const std::string& name = "repo") const {
        auto found = repository_of(path(name), {});
        EXPECT_TRUE(found) << found.error().text();
        EXPECT_TRUE(found && *found);
        return found && *found ? std::move(**found) : Repository();
    }
    // The patch leads from the commit to what is in the work tree.
    void expect_patch_is_right(const std::string& name = "repo") const {
        const Repository found = repository(name);
        ASSERT_TRUE(found.patch);
        EXPECT_EQ(*found.patch, sh("cd " + name + " && git diff --binary HEAD -- ."));
        EXPECT_FALSE(found.patch->empty());
    }

    base::TemporaryDirectory scratch_ =
        base::TemporaryDirectory::make(fs::temp_directory_path(), "git-test-").value();
};

TEST_F(WorkTree, HasItsCommitBranchPatchAndFiles) {
    sh("cd repo && echo three >> text && echo '*.log' > .gitignore && touch a.log new");
    const Repository found = repository();
    EXPECT_EQ(found.commit + "\n", sh("git -C repo rev-parse HEAD"));
    EXPECT_EQ(found.branch, "main");
    EXPECT_TRUE(found.untracked);
    expect_patch_is_right();
    EXPECT_THAT(files_of(path("repo")).value(), ElementsAre(".gitignore", "new", "text"));
}

// Breaks when a program that the configuration names is run, whatever it is called and wherever the
// configuration has it from.
TEST_F(WorkTree, RunsNoDriverOfTheRepository) {
    sh("printf '#!/bin/sh\\ntouch %s/ran\\ncat\\n' \"$PWD\" > evil && chmod 755 evil && cd repo && "
       "printf '[filter \"in=cluded\"]\\n\\tclean = %s\\n' \"$PWD/../evil\" > .git/more && "
       "git config include.path more && git config filter.x.clean ../evil && "
       "git config filter.x.smudge ../evil && git config filter.y.process \"$PWD/../evil\" && "
       "git config diff.x.textconv ../evil && git config diff.x.command ../evil && "
       "git config diff.external ../evil && git config core.fsmonitor ../evil && "
       "git config core.sshCommand ../evil && git config alias.diff '!../evil' && "
       "git config core.pager ../evil && git config core.hooksPath \"$PWD/..\" && "
       "git config extensions.worktreeConfig true && git config core.repositoryformatversion 1 && "
       "printf '[filter \"z\"]\\n\\tclean = ../evil\\n' > .git/config.worktree && "
       "touch a b c d && printf 'a filter=x diff=x\\nb filter=y\\nc filter=in=cluded\\nd "
       "filter=z\\n'"
       " > .gitattributes && git -c core.fsmonitor=false -c core.hooksPath=/dev/null add -f . ; "
       "rm -f ../ran; for name in a b c d text; do echo changed > $name; done; test ! -e ../ran");
    const Repository found = repository();
    ASSERT_TRUE(found.patch);
    for (const char* name : {"a", "b", "c", "d", "text"})
        EXPECT_THAT(*found.patch, HasSubstr(std::string("+++ b/") + name));
    EXPECT_TRUE(files_of(path("repo")));
    EXPECT_FALSE(fs::exists(path("ran")));
}

TEST_F(WorkTree, IsComparedByTheRepositorysOwnSettings) {
    sh("cd repo && git config core.autocrlf true && git config core.fileMode false && "
       "echo 'text eol=crlf' > .git/info/attributes && echo hidden > .git/info/exclude && "
       "printf 'one\\r\\nthree\\r\\n' > text && chmod 755 text && touch hidden");
    expect_patch_is_right();
    EXPECT_FALSE(repository().untracked);
}

TEST_F(WorkTree, MayHaveItsIndexAndObjectsElsewhere) {
    sh("git -C repo worktree add -q -b other ../linked && cd linked && "
       "git update-index --split-index && echo three >> text");
    expect_patch_is_right("linked");
    EXPECT_EQ(repository("linked").branch, "other");
    sh("git clone -q --shared repo borrowed && echo four >> borrowed/text");
    expect_patch_is_right("borrowed");
    sh("mkdir repo/deep && cd repo/deep && echo five > text && git add text && echo six > text");
    expect_patch_is_right("repo/deep");
    EXPECT_THAT(files_of(path("repo/deep")).value(), ElementsAre("text"));
}

TEST_F(WorkTree, MayNameItsObjectsBySha256) {
    sh("git init -q --object-format=sha256 long && cd long && touch text && git add . && "
       "git -c user.name=a -c user.email=a@b commit -qm first && echo x > text");
    expect_patch_is_right("long");
    EXPECT_EQ(repository("long").commit.size(), 64U);
}

TEST_F(WorkTree, MayHaveSubmodules) {
    sh("cd repo && git -c protocol.file.allow=always submodule --quiet add ../repo sub && "
       "git commit -qm sub && cd sub && echo three >> text && git -c user.name=a -c "
       "user.email=a@b commit -qam more");
    expect_patch_is_right();
    EXPECT_THAT(files_of(path("repo")).value(), ElementsAre(".gitmodules", "sub", "text"));
    EXPECT_THAT(files_of(path("repo/sub")).value(), ElementsAre("text"));
}

TEST_F(WorkTree, IsNoneWithoutGitAndWhereGitIgnoresIt) {
    fs::create_directory(path("plain"));
    EXPECT_FALSE(repository_of(path("plain"), {}).value());
    sh("cd repo && echo ignored > .gitignore && mkdir ignored");
    EXPECT_FALSE(repository_of(path("repo/ignored"), {}).value());
}

}  // namespace
}  // namespace batchai::snapshot
