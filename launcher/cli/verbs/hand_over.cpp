// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/standard_error.hpp"
#include "cli/output/output.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "plan/slurm_options.hpp"
#include "record/job_files.hpp"
#include "spank/protocol.h"
#include "submit/local_secrets.hpp"
#include "submit/submission.hpp"

namespace batchai::cli {

namespace {

struct ValidateOptions {
    submit::JobFileOptions file;
    std::string format = "text";  // or "json"
};

struct HandOverOptions {
    submit::JobFileOptions file;
    // The command whose command-line filter asks: "sbatch", "srun" or "salloc". The filter passes
    // the user's options as JSON on standard input and reads which other options it must set.
    std::optional<std::string> door;
    bool secret_variables = false;  // only print the names of variables that hold secrets
};

base::Result<plan::Door> door_of(const std::string& name) {
    if (name == "sbatch") return plan::Door::sbatch;
    if (name == "srun") return plan::Door::srun;
    if (name == "salloc") return plan::Door::salloc;
    return base::fail(fmt::format("\"{}\" is not sbatch, srun or salloc", name), "--door", {},
                      base::ExitCode::usage);
}

// Reads the options that are set on the command line, from standard input, as the JSON object that
// Slurm's json_cli_options() returns. Members that are not strings are not options.
base::Result<plan::GivenOptions> read_given_options() {
    constexpr std::size_t limit = 1UL << 20U;
    constexpr const char* where = "the options of the command";
    std::string text(limit, '\0');
    std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(std::cin.gcount()));
    const Value root = TRY(base::parse_json(text, where));
    if (!root.is_object()) return base::fail("are no JSON object", where);
    plan::GivenOptions given;
    for (const auto& [name, value] : *root.object()) {
        if (const std::string* const set = value.string()) given.emplace(name, *set);
    }
    return given;
}

// Returns the options that the filter must set; empty if no filter asks.
base::Result<std::vector<plan::SlurmOption>> options_for_filter(const HandOverOptions& options,
                                                                const plan::Plan& plan) {
    if (!options.door) return std::vector<plan::SlurmOption>();
    return plan::options_at_door(plan, TRY(door_of(*options.door)), TRY(read_given_options()),
                                 options.file.path);
}

// See protocol.h.
std::string answer_for_plugin(const submit::Submission& made,
                              const std::vector<plan::SlurmOption>& to_set) {
    std::string out = fmt::format(
        BATCHAI_PLAN_VARIABLE "={}\n" BATCHAI_DIGEST_VARIABLE "={}\n" BATCHAI_DECLARATION_VARIABLE
                              "={}\n",
        record::JobFiles(made.directory).plan().string(), made.digest, made.plan->declaration);
    for (const std::string& name : made.secret_variables)
        out += fmt::format(BATCHAI_SECRET_LINE "={}\n", name);
    for (const plan::SlurmOption& option : to_set)
        out += fmt::format("--{}={}\n", option.name, option.value);
    return out;
}

// Returns whether the file is standard input, which has the options of the command, or its script.
bool is_standard_input(const std::string& path) {
    struct stat file {};
    struct stat input {};
    return path == "-" || (stat(path.c_str(), &file) == 0 && fstat(STDIN_FILENO, &input) == 0 &&
                           file.st_dev == input.st_dev && file.st_ino == input.st_ino);
}

// For a job that gets no plan: its secrets are kept from Slurm all the same.
Answer print_secret_variables(submit::Submission& submission) {
    for (const std::string& name : TRY(submit::secret_variables_of_file(submission)))
        fmt::print(BATCHAI_SECRET_LINE "={}\n", name);
    return Outcome{};
}

// Freezes the plan of a file that was given to sbatch, srun or salloc, and prints where the plan
// is. The plugin and the command-line filter call this. For a filter, it also prints the options
// that the filter must set, one "--name=value" per line. Diagnostics go to standard error.
Answer hand_over(const HandOverOptions& options) {
    if (is_standard_input(options.file.path))
        return base::fail("the job file cannot come from standard input", "--job-json",
                          "give the path of a file", base::ExitCode::usage);
    const Context here = TRY(open_context());
    submit::Submission submission{
        .store = here.store,
        .site = here.site,
        .slurm = here.slurm,
        .goal = options.secret_variables ? submit::Goal::checked : submit::Goal::handed_over,
        .options = options.file};
    if (options.secret_variables) return print_secret_variables(submission);
    TRY(submit::prepare(submission));
    base::print_error("{}", submit::messages(submission));
    if (!submission.is_sound())
        return Outcome{.exit_code = static_cast<int>(base::ExitCode::bad_job_file)};
    if (submission.plan->software)
        base::print_error(
            "batchai: `batchai run` sets up the \"software\" of {}; steps of your own have "
            "it after that\n",
            options.file.path);
    if (submission.plan->webhook)
        base::print_error("batchai: `batchai run` tells the webhook of {} of the job's end\n",
                          options.file.path);
    const auto to_set = TRY(options_for_filter(options, *submission.plan));
    const std::string answer = answer_for_plugin(submission, to_set);
    if (answer.size() > BATCHAI_HAND_OVER_LIMIT)
        return base::fail(
            fmt::format(
                "the path of the plan, the options and the names in \"fromEnv\" have {} bytes; "
                "at most {} can be handed over",
                answer.size(), BATCHAI_HAND_OVER_LIMIT),
            options.file.path,
            "use fewer variables in \"fromEnv\": a file can hold a secret as well",
            base::ExitCode::bad_job_file);
    TRY(submit::carry_out(submission));
    fmt::print("{}", answer);
    return Outcome{};
}

// Parses and plans a job file without changing anything.
Answer validate(const ValidateOptions& options) {
    const Context here = TRY(open_context());
    submit::Submission submission{.store = here.store,
                                  .site = here.site,
                                  .slurm = here.slurm,
                                  .goal = submit::Goal::checked,
                                  .options = options.file};
    TRY(submit::prepare(submission));
    const std::string& name = submission.text.name;
    const bool valid = submission.is_sound();
    if (options.format == "json") {
        fmt::print("{}", job::diagnostics_json(submission.diagnostics, name));
    } else {
        base::print_error("{}", submit::messages(submission));
        if (valid) fmt::print("{}: valid\n", name);
    }
    return Outcome{.exit_code = valid ? 0 : static_cast<int>(base::ExitCode::bad_job_file)};
}

void add_job_file_options(Parser leaf, submit::JobFileOptions& file) {
    add_optional(leaf, "--storage-account-name", file.storage_account_name,
                 "Storage account for the file's placeholders [$AZURE_BATCHAI_STORAGE_ACCOUNT]")
        .type_name("NAME");
    add_image_options(leaf, file);
}

}  // namespace

const Verbs hand_over_verbs("", 90, [](CommandTree& tree, Parser app) {
    {
        auto [leaf, options] =
            add_verb(tree, app, "validate", "Check a job file; change nothing",
                     "batchai validate job.json\n  batchai validate --format json job.json",
                     validate, Printing::by_itself);
        leaf.add_option("file", options->file.path, "job.json; - is standard input").required();
        leaf.add_option("--format", options->format, "text or json [text]")
            .type_name("FORMAT")
            .one_of({"text", "json"});
        add_job_file_options(leaf, options->file);
    }
    {
        auto [leaf, options] =
            add_verb(tree, app, "hand-over", "Freeze the plan of a job file for batchai.so",
                     "batchai hand-over --job-json job.json", hand_over, Printing::by_itself);
        leaf.add_option("--job-json", options->file.path, "job.json").type_name("FILE").required();
        add_optional(leaf, "--door", options->door, "sbatch, srun or salloc").type_name("NAME");
        leaf.add_flag("--secret-variables", options->secret_variables,
                      "Only print which variables hold secrets");
        add_job_file_options(leaf, options->file);
        leaf.group("");
    }
});

}  // namespace batchai::cli
