// SPDX-License-Identifier: GPL-2.0-or-later
// The submitting side, in the contexts of srun (local) and of sbatch and salloc (allocator).
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "spank/submit_side.hpp"
#include "tests/spank/hooks.hpp"

namespace {

using fake::Ended;
using fake::Plugin;

const std::string digest(64, 'a');
const std::string good_lines = "BATCHAI_PLAN=/shared/plan.json\nBATCHAI_PLAN_DIGEST=" + digest +
                               "\nBATCHAI_DECLARATION=vm_size=NC6 image=\n";

class Submitting : public testing::TestWithParam<spank_context_t> {
  protected:
    // A launcher that notes its arguments, one a line, and prints `lines`.
    std::string launcher(const std::string& lines, int exit_code = 0) {
        scratch.file("lines", lines);
        return "launcher=" +
               scratch
                   .file("launcher",
                         "#!/bin/sh\nfor word; do echo \"$word\"; done >> " +
                             (scratch.path() / "arguments").string() + "\ncat " +
                             (scratch.path() / "lines").string() + "\necho said >&2\nexit " +
                             std::to_string(exit_code) + "\n",
                         true)
                   .string();
    }

    // The command's process: options from the environment first, then the command line.
    Ended submit(const std::string& plugstack, const std::vector<std::string>& files) {
        return fake::in_process([&] {
            if (ignores_children) signal(SIGCHLD, SIG_IGN);
            fake::slurm().context = GetParam();
            Plugin plugin({plugstack});
            plugin.call("slurm_spank_init");
            for (const std::string& file : files) {
                if (plugin.give("job-json", file.c_str()) != 0) return 80;
            }
            if (plugin.call("slurm_spank_init_post_opt") < 0) return 1;
            const char* const plan = getenv("BATCHAI_PLAN");
            const char* const proof = getenv("BATCHAI_PLAN_DIGEST");
            if (plan != nullptr && fake::slurm().control["BATCHAI_DECLARATION"].empty() &&
                std::string(plan) == "/shared/plan.json")
                return 81;
            std::printf("%s %s\n", plan == nullptr ? "-" : plan, proof == nullptr ? "-" : proof);
            return 0;
        });
    }

    fake::Scratch scratch;
    bool ignores_children = false;  // as a parent of the command may have it
};

TEST_P(Submitting, HandsTheFileOverAndMarksTheJob) {
    const std::string file = scratch.file("job.json", "{}").string();
    const Ended ended = submit(launcher(good_lines), {file});
    EXPECT_EQ(ended.exit_code, 0);
    EXPECT_EQ(ended.output, "/shared/plan.json " + digest + "\n");
    EXPECT_EQ(scratch.read("arguments"), "hand-over\n--job-json\n" + file + "\n");
    EXPECT_NE(ended.errors.find("said"), std::string::npos) << "stderr is the user's";
}

TEST_P(Submitting, WithoutTheOptionDoesNothing) {
    const Ended ended = submit(launcher(good_lines), {});
    EXPECT_EQ(ended.exit_code, 0);
    EXPECT_EQ(ended.output, "- -\n");
    EXPECT_FALSE(exists(scratch.path() / "arguments"));
}

TEST_P(Submitting, FailsWhenTheFileIsNotAccepted) {
    const Ended ended = submit(launcher(good_lines, 3), {"job.json"});
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_NE(ended.errors.find("nothing is submitted"), std::string::npos);
}

// Breaks when the launcher's refusal is lost, because the kernel forgets how children end.
TEST_P(Submitting, HearsOfTheLauncherWhereTheEndsOfChildrenAreIgnored) {
    ignores_children = true;
    EXPECT_EQ(submit(launcher(good_lines), {"job.json"}).exit_code, 0);
    const Ended ended = submit(launcher(good_lines, 3), {"job.json"});
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_NE(ended.errors.find("nothing is submitted"), std::string::npos);
}

TEST_P(Submitting, FailsWhenTheLauncherIsMissing) {
    const Ended ended = submit("launcher=/nonexistent/batchai", {"job.json"});
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_NE(ended.errors.find("/nonexistent/batchai"), std::string::npos);
}

TEST_P(Submitting, FailsWhenTheLauncherAnswersSomethingElse) {
    for (const std::string& lines :
         {std::string(), std::string("BATCHAI_PLAN=/a\n"), good_lines + "more\n",
          "BATCHAI_PLAN=relative\nBATCHAI_PLAN_DIGEST=" + digest + "\nBATCHAI_DECLARATION=a\n",
          std::string("BATCHAI_PLAN=/a\nBATCHAI_PLAN_DIGEST=abc\nBATCHAI_DECLARATION=a\n"),
          "BATCHAI_PLAN=/" + std::string(5000, 'x') + "\nBATCHAI_PLAN_DIGEST=" + digest +
              "\nBATCHAI_DECLARATION=a\n",
          "BATCHAI_PLAN=/a\nBATCHAI_PLAN_DIGEST=" + digest +
              "\nBATCHAI_DECLARATION=" + std::string(9000, 'x') + "\n",
          good_lines + "BATCHAI_SECRET_VARIABLE=a b\n", good_lines + "BATCHAI_SECRET_VARIABLE=\n",
          std::string(1U << 20U, 'x')}) {
        EXPECT_EQ(submit(launcher(lines), {"job.json"}).exit_code, 1) << lines.substr(0, 80);
    }
}

TEST_P(Submitting, KeepsThePlanOfTheSameFileInStepsOfItsJob) {
    const std::string file = scratch.file("job.json", "{}").string();
    const Ended ended = fake::in_process([&] {
        setenv("SLURM_JOB_ID", "7", 1);
        setenv("BATCHAI_PLAN", "/old/plan.json", 1);
        setenv("BATCHAI_PLAN_DIGEST", "old", 1);
        setenv("BATCHAI_JOB_JSON", file.c_str(), 1);
        const Ended inner = submit(launcher(good_lines), {file});
        std::printf("%s", inner.output.c_str());
        return inner.exit_code;
    });
    // What sbatch and salloc submit from within the job is another one.
    EXPECT_EQ(ended.output, GetParam() == S_CTX_LOCAL ? "/old/plan.json old\n"
                                                      : "/shared/plan.json " + digest + "\n");
}

TEST_P(Submitting, MakesANewPlanForAJobThatIsSubmittedFromOutside) {
    const std::string file = scratch.file("job.json", "{}").string();
    const Ended ended = fake::in_process([&] {
        unsetenv("SLURM_JOB_ID");
        setenv("BATCHAI_PLAN", "/old/plan.json", 1);
        setenv("BATCHAI_JOB_JSON", file.c_str(), 1);
        const Ended inner = submit(launcher(good_lines), {file});
        std::printf("%s", inner.output.c_str());
        return inner.exit_code;
    });
    EXPECT_EQ(ended.output, "/shared/plan.json " + digest + "\n");
}

// The environment of a rank of a job, in which somebody calls sbatch, salloc or srun.
void enter_rank_of_job(const char* job) {
    setenv("SLURM_JOB_ID", job, 1);
    setenv("SLURM_ARRAY_TASK_ID", "5", 1);
    setenv("SLURM_RESTART_COUNT", "2", 1);
    setenv("BATCHAI_PLAN", "/old/plan.json", 1);
    setenv("BATCHAI_PLAN_DIGEST", "old", 1);
    setenv("BATCHAI_SLURM_JOB", "7 2 5", 1);
    setenv("BATCHAI_JOB_JSON", "/old/job.json", 1);
    setenv("SLURM_SPANK__SLURM_SPANK_OPTION_batchai_job_json", "/old/job.json", 1);
    setenv("_SLURM_SPANK_OPTION_batchai_ignore_container", "", 1);
    setenv("SLURM_SPANK_BATCHAI_DECLARATION", "vm_size= image=", 1);
    setenv("BATCHAI_RANK_VARIABLES", "RANK=3,WORLD_SIZE=8", 1);
    setenv("RANK", "3", 1);
    setenv("WORLD_SIZE", "16", 1);
    setenv("AZ_BATCHAI_NUM_GPUS", "0", 1);
    setenv("MPI_BRIDGE_FAILURE_RECORD", "/old/failure", 1);
    setenv("BATCHAI_HOME", "/home/a/records", 1);
}

// Whoever runs the tests may have set some, such as BATCHAI_CACHE.
void forget_variables_of_the_tester() {
    std::vector<std::string> names;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        if (text.starts_with("BATCHAI_") || text.starts_with("MPI_BRIDGE_"))
            names.emplace_back(text.substr(0, text.find('=')));
    }
    for (const std::string& name : names)
        unsetenv(name.c_str());
}

std::string variables_after(spank_context_t context, const char* job, const std::string& launcher,
                            const std::string& file) {
    return fake::in_process([&] {
               forget_variables_of_the_tester();
               enter_rank_of_job(job);
               if (*job == '\0') unsetenv("SLURM_JOB_ID");
               fake::slurm().context = context;
               fake::slurm().control["BATCHAI_DECLARATION"] = "vm_size= image=";
               Plugin plugin({launcher});
               plugin.call("slurm_spank_init");
               if (!file.empty() && plugin.give("job-json", file.c_str()) != 0) return 80;
               if (plugin.call("slurm_spank_init_post_opt") < 0) return 1;
               for (char** entry = environ; *entry != nullptr; ++entry) {
                   const std::string_view text(*entry);
                   for (const char* name :
                        {"BATCHAI_", "AZ_", "RANK", "WORLD", "MPI_BRIDGE", "SLURM_ARRAY",
                         "SLURM_RESTART", "SLURM_SPANK_", "_SLURM_SPANK"})
                       if (text.starts_with(name)) std::printf("%s ", *entry);
               }
               for (const auto& [name, value] : fake::slurm().control)
                   std::printf("control:%s ", name.c_str());
               return 0;
           })
        .output;
}

// The map of variables has no order of its own.
std::vector<std::string> sorted(const std::string& words) {
    std::istringstream text(words);
    std::vector<std::string> out{std::istream_iterator<std::string>(text), {}};
    std::sort(out.begin(), out.end());
    return out;
}

TEST(InnerSubmission, OfAPlainJobTakesNothingOverFromTheJobAround) {
    EXPECT_EQ(sorted(variables_after(S_CTX_ALLOCATOR, "7", "launcher=/nonexistent", "")),
              (std::vector<std::string>{"BATCHAI_HOME=/home/a/records", "WORLD_SIZE=16"}));
}

TEST_P(Submitting, OfAnotherJobFileHasNothingOfTheJobAround) {
    if (GetParam() == S_CTX_LOCAL) GTEST_SKIP() << "srun makes a step there";
    const std::string file = scratch.file("job.json", "{}").string();
    EXPECT_EQ(
        sorted(variables_after(GetParam(), "7", launcher(good_lines), file)),
        (std::vector<std::string>{"BATCHAI_HOME=/home/a/records", "BATCHAI_JOB_JSON=" + file,
                                  "BATCHAI_PLAN=/shared/plan.json", "BATCHAI_PLAN_DIGEST=" + digest,
                                  "WORLD_SIZE=16", "control:BATCHAI_DECLARATION"}));
}

TEST(InnerSubmission, WithAJobFileHasNoOptionsOfTheStepsOfTheJobAround) {
    fake::Scratch scratch;
    const std::string lines = scratch.file("lines", good_lines).string();
    const std::string launcher =
        scratch.file("launcher", "#!/bin/sh\ncat " + lines + "\n", true).string();
    for (const bool with_option : {true, false}) {
        const Ended ended = fake::in_process([&] {
            setenv("SLURM_MEM_PER_CPU", "300", 1);
            setenv("SLURM_GPUS_PER_TASK", "1", 1);
            fake::slurm().context = S_CTX_ALLOCATOR;
            Plugin plugin({"launcher=" + launcher});
            plugin.call("slurm_spank_init");
            if (with_option && plugin.give("job-json", "job.json") != 0) return 80;
            setenv("SLURM_GPUS_PER_TASK", "2", 1);  // sbatch's, from its own option
            if (plugin.call("slurm_spank_init_post_opt") < 0) return 1;
            const char* const memory = getenv("SLURM_MEM_PER_CPU");
            std::printf("%s %s", memory == nullptr ? "-" : memory, getenv("SLURM_GPUS_PER_TASK"));
            return 0;
        });
        EXPECT_EQ(ended.output, with_option ? "- 2" : "300 2") << ended.errors;
    }
}

TEST(InnerSrun, KeepsThePlanInStepsOfItsJobAndOnlyThere) {
    const auto has_plan = [](const char* job) {
        return variables_after(S_CTX_LOCAL, job, "launcher=/nonexistent", "")
                   .find("BATCHAI_PLAN=/old/plan.json ") != std::string::npos;
    };
    EXPECT_TRUE(has_plan("7"));
    EXPECT_FALSE(has_plan("8")) << "a job that was submitted without the plugin";
    // With --jobid it makes a step, and else a job; the plugin on the node tells them apart.
    EXPECT_TRUE(has_plan(""));
}

TEST(InnerSrun, NotesWhichJobThePlanOfSallocBelongsTo) {
    const Ended ended = fake::in_process([&] {
        setenv("SLURM_JOB_ID", "7", 1);
        setenv("BATCHAI_PLAN", "/plan.json", 1);
        fake::slurm().context = S_CTX_LOCAL;
        Plugin plugin({"launcher=/nonexistent"});
        plugin.call("slurm_spank_init");
        std::printf("%s", getenv("BATCHAI_SLURM_JOB"));
        return 0;
    });
    EXPECT_EQ(ended.output, "7 0");
}

TEST_P(Submitting, RefusesComponentsOfAHeterogeneousJob) {
    const std::string file = scratch.file("job.json", "{}").string();
    for (const int with_option : {0, 1}) {
        const Ended ended = fake::in_process([&] {
            unsetenv("SLURM_JOB_ID");
            fake::slurm().context = GetParam();
            Plugin plugin({launcher(good_lines)});
            plugin.call("slurm_spank_init");
            // Slurm calls the hook for each component.
            for (const int component : {0, 1}) {
                if (component == with_option && plugin.give("job-json", file.c_str()) != 0)
                    return 80;
                if (plugin.call("slurm_spank_init_post_opt") < 0) return 1;
            }
            return 0;
        });
        EXPECT_EQ(ended.exit_code, 1);
        EXPECT_NE(ended.errors.find("heterogeneous jobs cannot have --job-json"), std::string::npos)
            << ended.errors;
    }
}

TEST_P(Submitting, TakesThePlanThatTheFilterMadeInThisProcess) {
    const std::string file = scratch.file("job.json", "{}").string();
    const auto with_filter = [&](long of_process) {
        return fake::in_process([&] {
            const std::string process = std::to_string(of_process == 0 ? getpid() : of_process);
            setenv("BATCHAI_HANDED_OVER",
                   (process + " " + digest + " /filter/plan.json\nvm_size=D2 image=").c_str(), 1);
            fake::slurm().context = GetParam();
            Plugin plugin({launcher(good_lines)});
            plugin.call("slurm_spank_init");
            if (plugin.give("job-json", file.c_str()) != 0) return 80;
            if (plugin.call("slurm_spank_init_post_opt") < 0) return 1;
            if (getenv("BATCHAI_HANDED_OVER") != nullptr) return 2;
            std::printf("%s %s", getenv("BATCHAI_PLAN"), getenv("BATCHAI_JOB_JSON"));
            return 0;
        });
    };
    const Ended own = with_filter(0);
    EXPECT_EQ(own.exit_code, 0) << own.errors;
    EXPECT_EQ(own.output, "/filter/plan.json " + file);
    EXPECT_FALSE(exists(scratch.path() / "arguments")) << "the launcher ran once more";
    EXPECT_EQ(with_filter(1).output, "/shared/plan.json " + file) << "the variable was inherited";
}

TEST_P(Submitting, LeavesNoStorageKeyInWhatIsSubmitted) {
    const std::string file = scratch.file("job.json", "{}").string();
    for (const bool with_option : {true, false}) {
        const Ended ended = fake::in_process([&] {
            setenv("AZURE_BATCHAI_STORAGE_KEY", "secret", 1);
            fake::slurm().context = GetParam();
            Plugin plugin({launcher(good_lines)});
            plugin.call("slurm_spank_init");
            if (with_option && plugin.give("job-json", file.c_str()) != 0) return 80;
            if (plugin.call("slurm_spank_init_post_opt") < 0) return 1;
            return getenv("AZURE_BATCHAI_STORAGE_KEY") == nullptr ? 0 : 2;
        });
        EXPECT_EQ(ended.exit_code, with_option ? 0 : 2) << "other jobs keep their environment";
    }
}

TEST_P(Submitting, RemovesTheVariablesThatHoldSecretsAndTheirMemory) {
    const std::string file = scratch.file("job.json", "{}").string();
    const Ended ended = fake::in_process([&] {
        setenv("MY_TOKEN", "hush", 1);
        setenv("OTHER", "stays", 1);
        const char* const memory = getenv("MY_TOKEN");
        fake::slurm().context = GetParam();
        Plugin plugin({launcher(good_lines + "BATCHAI_SECRET_VARIABLE=MY_TOKEN\n"
                                             "BATCHAI_SECRET_VARIABLE=NOT_SET\n")});
        plugin.call("slurm_spank_init");
        if (plugin.give("job-json", file.c_str()) != 0) return 80;
        if (plugin.call("slurm_spank_init_post_opt") < 0) return 1;
        if (getenv("MY_TOKEN") != nullptr || *memory != '\0') return 2;
        return getenv("OTHER") == nullptr ? 3 : 0;
    });
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
}

TEST_P(Submitting, SaysThatAnAnswerIsTooLong) {
    const Ended ended = submit(launcher(good_lines + std::string(40000, 'x')), {"job.json"});
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_NE(ended.errors.find("has more than 32768 bytes"), std::string::npos) << ended.errors;
}

TEST(MarkerOfFilter, IsOfThisProcessAndWhole) {
    using batchai::spank::marker_of_filter;
    const std::string text = "12 " + digest + " /a b/plan.json\nvm_size= image=/a b";
    const auto marker = marker_of_filter(text, 12);
    ASSERT_TRUE(marker);
    EXPECT_EQ(marker->plan, "/a b/plan.json");
    EXPECT_EQ(marker->digest, digest);
    EXPECT_EQ(marker->declaration, "vm_size= image=/a b");
    EXPECT_FALSE(marker_of_filter(text, 1));
    EXPECT_FALSE(marker_of_filter(text, 2));
    for (const std::string& bad :
         {std::string(), std::string("12"), "12 " + digest, std::string("12 abc /plan.json"),
          "12 " + digest + " relative\n", "12 " + digest + " /a", "12 " + digest + " /a\nb\n",
          "12\n" + digest + " /a\nb"})
        EXPECT_FALSE(marker_of_filter(bad, 12)) << bad;
}

TEST_P(Submitting, MakesANewPlanForAnotherFile) {
    const std::string other = scratch.file("other.json", "{}").string();
    const Ended ended = fake::in_process([&] {
        setenv("SLURM_JOB_ID", "7", 1);
        setenv("BATCHAI_PLAN", "/old/plan.json", 1);
        setenv("BATCHAI_JOB_JSON", "/home/someone/job.json", 1);
        setenv("SLURM_SPANK__SLURM_SPANK_OPTION_batchai_job_json", "job.json", 1);
        // Slurm applies the inherited option first, then the command line's.
        const Ended inner = submit(launcher(good_lines), {"job.json", other});
        std::printf("%s", inner.output.c_str());
        return inner.exit_code;
    });
    EXPECT_EQ(ended.output, "/shared/plan.json " + digest + "\n");
}

TEST_P(Submitting, HandsTheImageOverWithTheFile) {
    const std::string file = scratch.file("job.json", "{}").string();
    const std::string program = launcher(good_lines);
    const Ended ended = fake::in_process([&] {
        fake::slurm().context = GetParam();
        Plugin plugin({program});
        plugin.call("slurm_spank_init");
        if (plugin.give("job-json", file.c_str()) != 0) return 80;
        if (plugin.give("job-image", "debian:12") != 0) return 81;
        if (plugin.call("slurm_spank_init_post_opt") < 0) return 1;
        const char* const image = getenv("BATCHAI_JOB_IMAGE");
        return image != nullptr && std::string(image) == "debian:12" ? 0 : 2;
    });
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    EXPECT_NE(scratch.read("arguments").find("--job-image=debian:12"), std::string::npos);
}

TEST_P(Submitting, RefusesValuesThatAreLongerThanAPath) {
    for (const char* option : {"job-json", "job-image"}) {
        const Ended ended = fake::in_process([&] {
            fake::slurm().context = GetParam();
            Plugin plugin({"launcher=/nonexistent"});
            plugin.call("slurm_spank_init");
            // Slurm would show the whole value of an option that is refused at once.
            if (plugin.give(option, std::string(300000, 'x').c_str()) != 0) return 80;
            return plugin.call("slurm_spank_init_post_opt") < 0 ? 1 : 0;
        });
        EXPECT_EQ(ended.exit_code, 1);
        EXPECT_NE(ended.errors.find("300000 bytes long"), std::string::npos) << ended.errors;
        EXPECT_LT(ended.errors.size(), 500U);
    }
}

TEST_P(Submitting, GivesNamesThatAreNoTextToTheLauncherAsTheyAre) {
    const std::string file = scratch.file("\xff\xfe.json", "{}").string();
    EXPECT_EQ(submit(launcher(good_lines), {file}).exit_code, 0);
    EXPECT_EQ(scratch.read("arguments"), "hand-over\n--job-json\n" + file + "\n");
}

TEST_P(Submitting, TakesNoPlanFromAForgedOptionOfTheEnvironment) {
    // Slurm applies it as it would the command line's: the file is planned, as the user.
    const std::string file = scratch.file("job.json", "{}").string();
    const Ended ended = fake::in_process([&] {
        setenv("_SLURM_SPANK_OPTION_batchai_job_json", file.c_str(), 1);
        setenv("BATCHAI_PLAN_DIGEST", digest.c_str(), 1);
        setenv("BATCHAI_JOB_JSON", file.c_str(), 1);
        const Ended inner = submit(
            launcher("BATCHAI_PLAN=/new/plan.json\nBATCHAI_PLAN_DIGEST=" + digest + "\n"), {file});
        std::printf("%s", inner.output.c_str());
        return inner.exit_code;
    });
    EXPECT_EQ(ended.output, "/new/plan.json " + digest + "\n");
}

TEST_P(Submitting, IsSwitchedOffByTheKillSwitch) {
    const Ended ended = fake::in_process([&] {
        setenv("BATCHAI_DISABLE", "1", 1);
        const Ended inner = submit("launcher=/nonexistent", {"job.json"});
        std::printf("%s", inner.output.c_str());
        return inner.exit_code;
    });
    EXPECT_EQ(ended.exit_code, 0);
    EXPECT_EQ(ended.output, "- -\n");
}

TEST_P(Submitting, RemovesSecretsAlsoWhenItIsSwitchedOff) {
    const Ended ended = fake::in_process([&] {
        setenv("BATCHAI_DISABLE", "1", 1);
        setenv("MY_TOKEN", "hush", 1);
        const Ended inner = fake::in_process([&] {
            fake::slurm().context = GetParam();
            Plugin plugin({launcher("BATCHAI_SECRET_VARIABLE=MY_TOKEN\n")});
            plugin.call("slurm_spank_init");
            plugin.give("job-json", "job.json");
            const int code = plugin.call("slurm_spank_init_post_opt");
            return code < 0 || getenv("MY_TOKEN") != nullptr ? 1 : 0;
        });
        return inner.exit_code;
    });
    EXPECT_EQ(ended.exit_code, 0);
    EXPECT_EQ(scratch.read("arguments"), "hand-over\n--secret-variables\n--job-json\njob.json\n");
}

TEST(LaterSrun, RemovesTheVariablesThatTheJobHasNoted) {
    fake::Scratch scratch;
    const std::string file = scratch.file("job.json", "{}").string();
    const Ended ended = fake::in_process([&] {
        setenv("SLURM_JOB_ID", "7", 1);
        setenv("BATCHAI_PLAN", "/old/plan.json", 1);
        setenv("BATCHAI_PLAN_DIGEST", "old", 1);
        setenv("BATCHAI_JOB_JSON", file.c_str(), 1);
        setenv("BATCHAI_SECRET_VARIABLES", "MY_TOKEN,no name,OTHER", 1);
        setenv("MY_TOKEN", "hush", 1);
        setenv("OTHER", "hush", 1);
        setenv("MINE", "1", 1);
        fake::slurm().context = S_CTX_LOCAL;
        Plugin plugin({"launcher=/nonexistent"});
        plugin.call("slurm_spank_init");
        plugin.give("job-json", file.c_str());
        if (plugin.call("slurm_spank_init_post_opt") < 0) return 2;
        return getenv("MY_TOKEN") == nullptr && getenv("OTHER") == nullptr &&
                       getenv("MINE") != nullptr
                   ? 0
                   : 1;
    });
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
}

INSTANTIATE_TEST_SUITE_P(Contexts, Submitting, testing::Values(S_CTX_LOCAL, S_CTX_ALLOCATOR));

}  // namespace
