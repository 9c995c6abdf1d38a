// SPDX-License-Identifier: GPL-2.0-or-later
#include <chrono>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/process.hpp"
#include "base/standard_error.hpp"
#include "cli/output/output.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "record/job_files.hpp"
#include "run/again/watch_first_node.hpp"
#include "run/attempt.hpp"
#include "run/tensorflow/held_ports.hpp"
#include "slurm/client.hpp"
#include "spank/protocol.h"
#include "store/store.hpp"
#include "submit/images_in_use.hpp"
#include "submit/submission.hpp"

namespace batchai::cli {
namespace {

struct RunVerbOptions {
    std::optional<std::string> plan;    // absent: $BATCHAI_PLAN
    std::optional<std::string> digest;  // absent: $BATCHAI_PLAN_DIGEST
    // The options of a new plan that replaces the frozen one. It is made from this file, or else
    // from the file that $BATCHAI_JOB_JSON names.
    submit::JobFileOptions file;
    int attempts_before = 0;

    [[nodiscard]] bool wants_new_plan() const {
        return !file.path.empty() || file.job_image || file.ignore_container;
    }
};

struct VersionOptions {};

std::string given_or_variable(const std::optional<std::string>& given, const char* name) {
    return given ? *given : base::variable(name).value_or("");
}

base::Result<std::set<std::string>> images_of_the_user() {
    return submit::warned_if_unknown(store::Store::open_default().and_then(
        [](const store::Store& store) { return submit::images_in_use(store, slurm::Client()); }));
}

// Replaces the plan of the environment by a new one, whose image is imported by a phase of the run.
// Returns whether the file has no errors; they have been printed.
base::Result<bool> make_new_plan(const RunVerbOptions& options, run::RunOptions& run) {
    if (options.plan || options.digest)
        return base::fail("--plan names a finished plan, which cannot be changed", "batchai run",
                          "leave out --plan and --digest, or the other options",
                          base::ExitCode::usage);
    submit::JobFileOptions file = options.file;
    if (file.path.empty()) file.path = given_or_variable({}, BATCHAI_JOB_JSON_VARIABLE);
    if (file.path.empty())
        return base::fail("no job file is given", "batchai run", "add --job-json=job.json",
                          base::ExitCode::usage);
    const Context here = TRY(open_context());
    submit::Submission submission{.store = here.store,
                                  .site = here.site,
                                  .slurm = here.slurm,
                                  .goal = submit::Goal::frozen,
                                  .options = std::move(file)};
    TRY(submit::prepare(submission));
    base::print_error("{}", submit::messages(submission));
    if (!submission.is_sound()) return false;
    TRY(submit::carry_out(submission));
    run.plan_path = record::JobFiles(submission.directory).plan().string();
    run.digest = submission.digest;
    return true;
}

// Implements `batchai run`, which runs inside an allocation and exits with the job's exit code.
Answer run_plan(const RunVerbOptions& options) {
    run::RunOptions run{given_or_variable(options.plan, BATCHAI_PLAN_VARIABLE),
                        given_or_variable(options.digest, BATCHAI_DIGEST_VARIABLE),
                        images_of_the_user, options.attempts_before};
    if (options.wants_new_plan() && !TRY(make_new_plan(options, run)))
        return Outcome{.exit_code = static_cast<int>(base::ExitCode::bad_job_file)};
    if (run.plan_path.empty() || run.digest.empty()) {
        return base::fail("no plan is given", "batchai run",
                          "submit with `sbatch --job-json=job.json` and --export=ALL, or add "
                          "--job-json=job.json",
                          base::ExitCode::usage);
    }
    return Outcome{.exit_code = run::run_job(run)};
}

// Implements `batchai watch-first-node`, which `batchai run` starts on another node of an elastic
// job.
Answer watch_first_node(const run::FirstNodeWatch& watch) {
    return Outcome{.exit_code = run::watch_first_node(watch)};
}

struct HoldPortsOptions {
    int parameter_servers = 0;
};

// Implements `batchai hold-ports`, which `batchai run` starts on the nodes of a TensorFlow job.
Answer hold_ports(const HoldPortsOptions& options) {
    return Outcome{.exit_code = run::hold_ports_here(options.parameter_servers)};
}

// Prints the version of this program and, if Slurm answers, that of Slurm.
Answer version(const VersionOptions& /*options*/) {
    fmt::print("batchai {}\n", BATCHAI_VERSION);
    const auto slurm = slurm::Client(std::chrono::seconds(5)).version();
    if (slurm) {
        fmt::print("slurm {}\n", *slurm);
    } else {
        say("Slurm does not answer: " + slurm.error().text());
    }
    return Outcome{};
}

}  // namespace

const Verbs run_verbs("", 100, [](CommandTree& tree, Parser app) {
    {
        auto [leaf, options] = add_verb(
            tree, app, "run", "Carry out a job's plan inside its Slurm allocation",
            "sbatch --job-json=job.json --wrap='batchai run'", run_plan, Printing::by_itself);
        add_optional(leaf, "--plan", options->plan, "The frozen plan [$" BATCHAI_PLAN_VARIABLE "]")
            .type_name("FILE");
        add_optional(leaf, "--digest", options->digest,
                     "SHA-256 of the plan [$" BATCHAI_DIGEST_VARIABLE "]")
            .type_name("HEX");
        leaf.add_option("--attempts-before", options->attempts_before,
                        "Attempts of the task in earlier array jobs [0]")
            .type_name("NUMBER")
            .non_negative();
        leaf.add_option("--job-json", options->file.path,
                        "Plan this file instead [with --job-image or --ignore-container: "
                        "$" BATCHAI_JOB_JSON_VARIABLE "]")
            .type_name("FILE");
        add_image_options(leaf, options->file);
    }
    {
        auto [leaf, options] = add_verb(
            tree, app, "watch-first-node", "Queue an elastic job again if its first node is lost",
            "batchai watch-first-node --slurm-job 7 --requeue 7 --node n1 "
            "--record attempts/1.json",
            watch_first_node, Printing::by_itself);
        leaf.add_option("--slurm-job", options->job_id, "Slurm's id of the job").required();
        leaf.add_option("--requeue", options->id_in_commands,
                        "what Slurm is told to queue again: the job, or one task of an array job")
            .required();
        leaf.add_option("--node", options->node, "the job's first node").required();
        leaf.add_option("--record", options->record_path, "the attempt's record").required();
        leaf.add_option("--log", options->log_path, "gets a line when the job is queued again");
        leaf.group("");
    }
    {
        auto [leaf, options] = add_verb(
            tree, app, "hold-ports", "Hold ports for the tasks of a TensorFlow job",
            "srun batchai hold-ports --parameter-servers 1", hold_ports, Printing::by_itself);
        leaf.add_option("--parameter-servers", options->parameter_servers,
                        "number of nodes on which one more port is held");
        leaf.group("");
    }
    add_verb(tree, app, "version", "Show the versions of this program and of Slurm",
             "batchai version", version, Printing::by_itself);
});

}  // namespace batchai::cli
