// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/held_job.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/timestamp.hpp"
#include "cli/output/terminal.hpp"
#include "job/to_json.hpp"
#include "plan/make.hpp"
#include "slurm/messages.hpp"
#include "submit/environment.hpp"
#include "submit/steps.hpp"

namespace batchai::submit {
namespace {

constexpr std::string_view hold_option = "hold";

const plan::SlurmOption* option_named(const plan::Plan& plan, std::string_view name) {
    const auto& options = plan.allocation.options;
    const auto found =
        std::find_if(options.begin(), options.end(),
                     [&](const plan::SlurmOption& option) { return option.name == name; });
    return found == options.end() ? nullptr : &*found;
}

bool is_held(const slurm::Client& client, const plan::Plan& plan) {
    if (option_named(plan, hold_option) != nullptr) return true;
    const auto* const priority = option_named(plan, "priority");
    return priority != nullptr && priority->value == "0" && client.may_choose_priorities();
}

// Returns whether Slurm has said no, so that asking again has no use.
bool is_refusal(const base::Error& error) {
    return error.exit_code == base::ExitCode::refused && !slurm::gave_no_answer(error);
}

base::Result<void> release(const slurm::Client& client, const slurm::JobId& id,
                           const base::HeldSignals& held) {
    constexpr std::chrono::minutes longest{1};
    constexpr std::chrono::seconds pause{1};
    const auto end = std::chrono::steady_clock::now() + longest;
    bool said = false;
    while (true) {
        auto released = client.release(id);
        if (released || is_refusal(released.error()) || std::chrono::steady_clock::now() > end)
            return released;
        if (!said)
            cli::warn(fmt::format("Slurm job {} waits, held, until Slurm answers again: {}",
                                  id.text(), released.error().text()));
        said = true;
        if (held.next_within(pause)) return released;
    }
}

// Gives the job the plan's priority, which --hold has replaced by 0. Slurm heeds only that of an
// operator. The job may run by now, so that nothing here ends the command.
void restore_priority(const slurm::Client& client, const plan::Plan& plan, const slurm::JobId& id) {
    const auto* const priority = option_named(plan, "priority");
    if (priority == nullptr || !client.may_choose_priorities()) return;
    if (const auto set = client.set_priority(id, priority->value); !set)
        cli::warn(fmt::format("Slurm job {} has not got --priority={}: {}", id.text(),
                              priority->value, set.error().text()));
}

// Of a job that is too large for its partition, Slurm says that it cannot be released, and lets it
// go all the same.
bool is_let_go(const slurm::Client& client, const slurm::JobId& id) {
    const auto jobs = client.jobs({id.text()});
    if (!jobs || jobs->empty()) return false;
    return std::none_of(jobs->begin(), jobs->end(),
                        [](const auto& job) { return job.second.reason == "JobHeldUser"; });
}

base::Result<void> let_go(const slurm::Client& client, const plan::Plan& plan,
                          const slurm::JobId& id, const base::HeldSignals& held) {
    auto released = release(client, id, held);
    if (!released && is_refusal(released.error()) && is_let_go(client, id)) {
        cli::warn(fmt::format("Slurm job {} is in the queue, but does not start as things are: {}",
                              id.text(), released.error().what));
        released = {};
    }
    if (!released) {
        auto error = std::move(released).error();
        error.what =
            fmt::format("Slurm job {} is recorded, but still held: {}", id.text(), error.what);
        error.hint = fmt::format("`scontrol release {}` lets it start", id.text());
        return tl::unexpected(std::move(error));
    }
    restore_priority(client, plan, id);
    return {};
}

// Ends the job that Slurm may have taken although sbatch did not say so.
base::Error without_leftover(const slurm::Client& client, const std::string& script,
                             base::Error error) {
    const auto ended = end_unrecorded(client, script);
    if ((ended && *ended) || is_refusal(error) || !error.hint.empty()) return error;
    error.hint =
        "if Slurm takes the job after all, it is held and runs nothing: `squeue --me` shows it, "
        "and scancel removes it";
    return error;
}

bool fits_no_nodes(const base::Error& error) {
    return error.what.find("node configuration is not available") != std::string::npos;
}

// Slurm does not ask whether a held job could ever run, and would keep one that cannot for ever.
// sbatch --test-only gives the same answer while the nodes are only drained, so that a job that
// waits for its time, as which Slurm judges it for good, is what decides.
base::Result<void> check_nodes(const slurm::Client& client, plan::Plan plan,
                               const std::string& script) {
    constexpr std::size_t longest_script = 16UL << 20U;
    const auto tested = client.test_submission(plan::sbatch_options(plan),
                                               TRY(base::read_file(script, longest_script)),
                                               submission_environment());
    // Whatever else Slurm has to say, it says to the submission.
    if (tested || !fits_no_nodes(tested.error())) return {};
    auto& options = plan.allocation.options;
    std::erase_if(options, [](const plan::SlurmOption& option) {
        return option.name == "begin" || option.name == "mail-type";
    });
    options.push_back({.name = "begin", .value = "now+52weeks"});
    const auto id = client.submit(plan::sbatch_options(plan), script, submission_environment());
    if (id) return client.cancel_queued(*id);
    if (fits_no_nodes(id.error())) return tl::unexpected(id.error());
    if (!is_refusal(id.error()))
        return tl::unexpected(without_leftover(client, script, id.error()));
    return {};
}

}  // namespace

base::Result<std::string> submit_and_record(
    const slurm::Client& client, plan::Plan plan, const std::string& script,
    const base::HeldSignals& held,
    const std::function<base::Result<void>(const std::string& id)>& record) {
    // Slurm may have taken the job of an earlier command after that had given up and left nothing.
    TRY(end_unrecorded(client, script));
    const bool stays_held = is_held(client, plan);
    if (!stays_held) {
        TRY(check_nodes(client, plan, script));
        plan.allocation.options.push_back({.name = std::string(hold_option), .value = {}});
    }
    const auto id = client.submit(plan::sbatch_options(plan), script, submission_environment());
    if (!id) return tl::unexpected(without_leftover(client, script, id.error()));
    if (auto recorded = record(id->text()); !recorded) {
        auto error = std::move(recorded).error();
        error.hint = client.cancel(*id)
                         ? fmt::format("Slurm job {} was cancelled", id->text())
                         : fmt::format("cancel Slurm job {0} by hand: scancel {0}", id->text());
        return tl::unexpected(std::move(error));
    }
    if (!stays_held) TRY(let_go(client, plan, *id, held));
    return id->text();
}

base::Result<bool> end_unrecorded(const slurm::Client& client, const std::string& script) {
    const auto found = TRY(client.jobs_of_script(script));
    if (found.empty()) return false;
    bool any = false;
    for (const slurm::ScriptJob& job : found) {
        if (!job.waits) continue;
        const auto id = TRY(slurm::JobId::parse(job.id));
        TRY(client.cancel_queued(id));
        any = true;
        cli::say(
            fmt::format("Slurm job {}, which an interrupted command had left without a record, "
                        "was ended; it has not run",
                        job.id));
    }
    // One may have been let go by hand.
    const auto left = TRY(client.jobs_of_script(script));
    if (left.empty()) return any;
    return base::fail(
        fmt::format("Slurm job {0}, which an interrupted command has left without a record, runs "
                    "from here",
                    left.front().id),
        script, fmt::format("wait for its end, or end it: scancel {0}", left.front().id),
        base::ExitCode::refused);
}

base::Result<void> end_unrecorded_job(const slurm::Client& client, const record::JobFiles& files) {
    TRY(end_unrecorded(client, files.batch_script().string()));
    return {};
}

namespace {

// Nobody waits for it.
bool ends_process(int signal) {
    struct sigaction now {};
    return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
}

store::Job record_of(const Submission& submission, std::string slurm_job_id) {
    const plan::Plan& plan = *submission.plan;
    const auto* const array = option_named(plan, "array");
    store::Job job;
    job.key = submission.key();
    job.uuid = plan.identity.uuid;
    job.subscription = plan.identity.subscription;
    if (submission.cluster) job.set_cluster(submission.cluster->key);
    job.tool_type = plan.tool_type;
    job.node_count = plan.allocation.nodes;
    job.spare_nodes = plan.allocation.spare_nodes;
    job.properties = job::to_json(submission.spec);
    job.plan_digest = submission.digest;
    job.slurm_job_id = std::move(slurm_job_id);
    job.is_array = array != nullptr;
    job.array = array == nullptr ? "" : array->value;
    job.creation_time = base::now();
    return job;
}

}  // namespace

base::Result<void> submit_job(Submission& submission) {
    const auto record = [&](const std::string& id) {
        submission.job = record_of(submission, id);
        return submission.reservation->commit(submission.job);
    };
    const std::string script = submission.reservation->files().batch_script().string();
    TRY(submit_and_record(submission.slurm, *submission.plan, script, *submission.held, record));
    submission.reservation.reset();
    return {};
}

void let_signals_come(Submission& submission) {
    if (!submission.held) return;
    const std::optional<int> signal = submission.held->next();
    if (signal && ends_process(*signal))
        cli::say(
            fmt::format("the job \"{0}\" has been submitted all the same, as Slurm job {1}; "
                        "`batchai job terminate --name {0}` ends it",
                        submission.job.key.job, submission.job.slurm_job_id));
    submission.held.reset();
    if (signal) std::raise(*signal);
}

}  // namespace batchai::submit
