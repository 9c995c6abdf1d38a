// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/sbatch_words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/slurm_options.hpp"

namespace batchai::plan {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

// Returns "--name=value" of each option, or the error.
Words read(const Words& words) {
    const auto options = read_sbatch_words(words);
    if (!options) return {options.error().text()};
    Words out;
    for (const SlurmOption& option : *options) {
        EXPECT_EQ(option.origin, Origin::sbatch_words);
        out.push_back(argument_of(option));
    }
    return out;
}

}  // namespace

TEST(SbatchWords, AreReadAsSbatchReadsThem) {
    EXPECT_THAT(read({"--partition=gpu", "--mem", "4G", "--hold"}),
                ElementsAre("--partition=gpu", "--mem=4G", "--hold"));
    EXPECT_THAT(
        read({"-p", "gpu", "-Cfast", "-k", "-Hx", "n1"}),
        ElementsAre("--partition=gpu", "--constraint=fast", "--no-kill", "--hold", "--exclude=n1"));
    EXPECT_THAT(read({"--exclusive=user", "--nice", "-t", "5"}),
                ElementsAre("--exclusive=user", "--nice", "--time=5"));
    // An option takes the next word whatever it is.
    EXPECT_THAT(read({"--comment", "--nodes=3"}), ElementsAre("--comment=--nodes=3"));
    EXPECT_THAT(read({"--part=gpu", "--switch", "2"}),
                ElementsAre("--partition=gpu", "--switches=2"));
    EXPECT_THAT(read({"--mem=1", "--hold", "--mem=2"}), ElementsAre("--hold", "--mem=2"));
    EXPECT_THAT(read({}), ElementsAre());
}

TEST(SbatchWords, OfLaterReleasesOfSlurmAreReadAsTheseReadThem) {
    EXPECT_THAT(read({"--tres-per-task", "gres/gpu:1", "--segment", "4", "--stepmgr"}),
                ElementsAre("--tres-per-task=gres/gpu:1", "--segment=4", "--stepmgr"));
    EXPECT_THAT(read({"--requeue=expedite", "--oom-kill-step", "--spread-segments"}),
                ElementsAre("--requeue=expedite", "--oom-kill-step", "--spread-segments"));
    EXPECT_THAT(read({"--requeue"}), ElementsAre("--requeue"));
    EXPECT_THAT(read({"--mem-update", "10@60", "--resources", "x"}),
                ElementsAre("--mem-update=10@60", "--resources=x"));
}

TEST(SbatchWords, OfAPluginArePassedOn) {
    EXPECT_THAT(read({"--of-a-plugin=4", "--another"}),
                ElementsAre("--of-a-plugin=4", "--another"));
    // Nobody knows whether this option takes the word that follows.
    EXPECT_THAT(read({"--of-a-plugin", "4"}), ElementsAre(HasSubstr("\"4\" is not an option")));
}

TEST(SbatchWords, ThatBelongToThePlanAreRefusedInEachForm) {
    for (const Words& words : {Words{"--nodes=3"},
                               Words{"--nodes", "3"},
                               Words{"-N3"},
                               Words{"-N", "3"},
                               Words{"-HN3"},
                               Words{"-OsN", "3"},
                               Words{"-n8"},
                               Words{"--ntasks=1"},
                               Words{"--ntasks-per-n=1"},
                               Words{"--tasks-per-node=8"},
                               Words{"--ta=8"},
                               Words{"--ntasks-per-tres=1"},
                               Words{"-ox"},
                               Words{"--outp=x"},
                               Words{"-ex"},
                               Words{"--er=x"},
                               Words{"-D/"},
                               Words{"--chd=/"},
                               Words{"-Jx"},
                               Words{"--job-n=x"},
                               Words{"--export=NONE"},
                               Words{"--export-f=x"},
                               Words{"--wrap=x"},
                               Words{"--wr", "x"},
                               Words{"-W"},
                               Words{"--wait"},
                               Words{"--open=truncate"},
                               Words{"-ix"},
                               Words{"--pars"},
                               Words{"--test"},
                               Words{"-h"},
                               Words{"-V"},
                               Words{"--job-json=x"},
                               Words{"--job-j=x"},
                               Words{"--ignore-c"},
                               Words{"-Mx"},
                               Words{"--cluster=x"},
                               Words{"--uid=0"},
                               Words{"--container=x"},
                               Words{"--container-id=x"},
                               Words{"--container-type", "x"},
                               Words{"--external"},
                               Words{"--get-user-env"},
                               Words{"--quiet"},
                               Words{"-Q"},
                               Words{"-HQ"},
                               Words{"--qui"},
                               Words{"-c8"},
                               Words{"--cpus-per-task=8"},
                               Words{"--cpus-per-gpu=8"},
                               Words{"-mblock"},
                               Words{"--mem=1", "--nodes=2"}}) {
        const auto read = read_sbatch_words(words);
        ASSERT_FALSE(read) << words.front();
        EXPECT_THAT(read.error().what, HasSubstr("cannot be given to a job of this program"))
            << words.front();
        EXPECT_FALSE(read.error().hint.empty());
        EXPECT_EQ(read.error().exit_code, base::ExitCode::usage);
    }
    EXPECT_EQ(read_sbatch_words({"-N3"}).error().text(),
              "options after --: \"-N3\" (--nodes) cannot be given to a job of this program\n"
              "hint: \"nodeCount\" sets it");
}

// sbatch would take the first word that is not an option for the name of the script.
TEST(SbatchWords, ThatAreNoOptionsAreRefused) {
    for (const Words& words :
         {Words{"script.sh"}, Words{"--hold", "script.sh"}, Words{"--"}, Words{"-"}, Words{""},
          Words{"---nodes=3"}, Words{"--=x"}, Words{"--a b=c"}}) {
        const auto read = read_sbatch_words(words);
        ASSERT_FALSE(read) << words.front();
        EXPECT_THAT(read.error().what, HasSubstr("is not an option"));
    }
}

TEST(SbatchWords, WithoutTheirValueOrWithOneTooManyAreRefused) {
    for (const auto& [words, said] :
         {std::pair{Words{"--mem"}, "--mem has no value"},
          std::pair{Words{"-p"}, "--partition has no value"},
          std::pair{Words{"--mem", ""}, "--mem has no value"},
          std::pair{Words{"--mem="}, "--mem has an empty value"},
          std::pair{Words{"--new="}, "--new has an empty value"},
          std::pair{Words{"--hold=1"}, "--hold takes no value"},
          std::pair{Words{"-Z"}, "sbatch has no option -Z"},
          std::pair{Words{"--gpu=1"}, "--gpu is ambiguous"},
          std::pair{Words{"--nod=3"}, "--nod is ambiguous"},
          std::pair{Words{"--comment=a\nb"}, "the value of --comment has a control character"},
          std::pair{Words{"--comment=\xFF"}, "the value of --comment has a control character"}}) {
        const auto read = read_sbatch_words(words);
        ASSERT_FALSE(read) << words.front();
        EXPECT_THAT(read.error().what, HasSubstr(said));
    }
}

}  // namespace batchai::plan
