// SPDX-License-Identifier: GPL-2.0-or-later
#include <filesystem>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/process.hpp"
#include "job/schema/checks.hpp"
#include "job/schema/sweep_parameters.hpp"
#include "job/syntax/utf8.hpp"
#include "plan/sbatch_words.hpp"
#include "submit/steps.hpp"
#include "user/config.hpp"

namespace batchai::submit {

namespace {

// Returns nothing if no account is named.
base::Result<std::optional<job::StorageAccount>> storage_account(const JobFileOptions& options) {
    std::optional<std::string> key;
    if (options.storage_account_key)
        key = TRY(clusters::storage_key_of_option(*options.storage_account_key));
    const auto of_environment = base::variable("AZURE_BATCHAI_STORAGE_ACCOUNT");
    const auto name = options.storage_account_name ? options.storage_account_name : of_environment;
    // The environment's key is that of the environment's account, if it names one.
    if (!key && (!of_environment || of_environment == name))
        key = clusters::storage_key_of_environment();
    if (!name) return std::nullopt;
    return job::StorageAccount{.name = *name, .key = std::move(key)};
}

// Adds what --sweep and --sweep-max say.
base::Result<void> add_sweep_flags(job::JobSpec& spec, const JobFileOptions& options) {
    if (options.sweep.empty() && !options.sweep_max) return {};
    if (options.sweep.empty() && !spec.sweep)
        return base::fail("there is no sweep to limit", "--sweep-max",
                          "give parameters with --sweep, or \"sweep\" in the job file",
                          base::ExitCode::usage);
    if (!spec.sweep) spec.sweep.emplace();
    for (const std::string& text : options.sweep) {
        if (spec.sweep->parameters_as_given.is_array())
            return base::fail("the job file has a list of points, which takes no other parameters",
                              "--sweep", "add the parameter to each point in the file",
                              base::ExitCode::usage);
        job::add_sweep_parameter(*spec.sweep, TRY(job::sweep_parameter_of_flag(text)));
    }
    if (options.sweep_max) spec.sweep->max_concurrent = options.sweep_max;
    const auto fault = job::fault_of(*spec.sweep);
    if (fault) return base::fail(fault->message, "--sweep", fault->hint, base::ExitCode::usage);
    return {};
}

void add_snapshot_flag(job::JobSpec& spec, const JobFileOptions& options) {
    if (!options.snapshot) return;
    auto& snapshot = spec.snapshot ? *spec.snapshot : spec.snapshot.emplace();
    // A relative path of the command line begins where the command runs.
    if (!options.snapshot->empty())
        snapshot.directory = std::filesystem::absolute(*options.snapshot).string();
}

base::Result<void> add_watch_flag(job::JobSpec& spec, const JobFileOptions& options) {
    if (!options.watch) return {};
    const auto time = job::parse_duration(*options.watch);
    if (!time || *time < job::shortest_watch || *time > job::longest_watch)
        return base::fail(
            fmt::format("is not a time from 10 seconds to 7 days: {}", job::quote(*options.watch)),
            "--watch", "write it as PT10M or 0:10:00", base::ExitCode::usage);
    if (!spec.watch) spec.watch.emplace();
    spec.watch->silence = *time;
    return {};
}

}  // namespace

base::Result<void> add_defaults(Submission& submission) {
    const JobFileOptions& options = submission.options;
    job::JobSpec& spec = submission.spec;
    TRY(add_sweep_flags(spec, options));
    submission.account = TRY(storage_account(options));
    const auto& account = submission.account;
    TRY(clusters::add_volumes(spec, options.volumes,
                              account ? std::optional(account->name) : std::nullopt));
    auto faults = job::apply_storage_account(spec, account, submission.positions);
    std::move(faults.begin(), faults.end(), std::back_inserter(submission.diagnostics));
    add_snapshot_flag(spec, options);
    TRY(add_watch_flag(spec, options));
    submission.slurm_choices = {.defaults = TRY(user::user_config()).slurm,
                                .flags = options.slurm,
                                .words = TRY(plan::read_sbatch_words(options.sbatch_words))};
    return {};
}

}  // namespace batchai::submit
