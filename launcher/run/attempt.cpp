// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/attempt.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "node/node_root.hpp"
#include "plan/plan_file.hpp"
#include "plan/relocate.hpp"
#include "record/usage.hpp"
#include "run/again/final_failure.hpp"
#include "run/again/hosts.hpp"
#include "run/again/queue_again.hpp"
#include "run/again/rank_restarts.hpp"
#include "run/blame/node_faults.hpp"
#include "run/blame/outside.hpp"
#include "run/notify/webhook.hpp"
#include "run/phases/phase.hpp"
#include "slurm/node_addresses.hpp"
#include "slurm/this_job.hpp"

namespace batchai::run {

std::string sentence_of(const Ending& ending) {
    const record::Failure& failure = ending.failure;
    std::string sentence = failure.message;
    // The line of a failed start says itself where that was.
    if (failure.rank && ending.by != record::EndedBy::start)
        sentence += fmt::format(": rank {} on {}", *failure.rank, failure.node);
    if (!failure.first_error_line.empty()) sentence += ": " + failure.first_error_line;
    return sentence;
}

std::vector<std::string> nodes_of(const Ending& ending) {
    std::vector<std::string> out;
    const auto add = [&](const std::string& node) {
        if (!node.empty() && !contains(out, node)) out.push_back(node);
    };
    add(ending.failure.node);
    for (const std::string& node : ending.more_bad_nodes)
        add(node);
    return out;
}

namespace {

enum class When {
    once,
    each_start,  // again whenever the ranks start again in the allocation
    at_the_end,  // once, however the attempt has ended
};

struct PhaseRow {
    std::string_view name;
    When when;
    bool (*wanted)(const Context&);
    PhaseEnd (*run)(Context&);
};

template <typename Phase>
constexpr PhaseRow row(When when) {
    return {.name = Phase::name, .when = when, .wanted = &Phase::wanted, .run = &Phase::run};
}

// The phases in the order in which they run.
constexpr std::array phase_rows{
    row<Outputs>(When::once),          //
    row<Health>(When::once),           //
    row<Image>(When::once),            //
    row<NodeSetup>(When::once),        //
    row<SetUpSoftware>(When::once),    //
    row<Preparation>(When::once),      //
    row<GpuCheck>(When::each_start),   //
    row<LinkCheck>(When::each_start),  //
    row<WireUp>(When::each_start),     //
    row<HoldPorts>(When::each_start),  //
    row<Ranks>(When::each_start),      //
    row<StoreLogs>(When::at_the_end),  //
    row<CleanUp>(When::at_the_end),
};

// Runs a phase and writes its begin and end into the record. No other code does that.
std::optional<Ending> carry_out(const PhaseRow& phase, Context& context, Journal& journal) {
    journal.begin_phase(phase.name);
    PhaseEnd end = phase.run(context);
    journal.end_phase(end.exit_code);
    if (end.software) journal.software_set_up(std::move(*end.software));
    return std::move(end.ending);
}

// Returns the end of an attempt whose ranks need not start any more, because the notice of
// "checkpoint" has come: they would be ended before they are ready for its signal.
Ending too_late_for(std::string_view phase) {
    const record::EndWords words = record::words_of(record::EndedBy::time_limit);
    return {
        .failure = {.code = std::string(words.code),
                    .message = std::string(words.message),
                    .phase = std::string(phase),
                    .first_error_line = "the notice of \"checkpoint\" came before the ranks ran"},
        .by = record::EndedBy::time_limit};
}

// A GPU may still be held by ranks that were killed. One that cannot be used when ranks start again
// is a fault of the node only if that does not pass.
bool is_suspicion(const record::NodeFault& fault, const Context& context, int restarts) {
    return fault.kind == record::NodeFaultKind::gpus && restarts > 0 &&
           contains(context.ready_nodes(), fault.node);
}

std::optional<Ending> until_the_ranks_end(Context& context, Journal& journal, QueueAgain& again,
                                          SlurmCalls slurm, NodeFaultNotes& notes) {
    RankRestarts restarts(context, journal, again, std::move(slurm));
    const auto* const first_of_a_start =
        std::find_if(phase_rows.begin(), phase_rows.end(),
                     [](const PhaseRow& row) { return row.when == When::each_start; });
    for (const auto* phase = phase_rows.begin(); phase != phase_rows.end();) {
        std::optional<Ending> ending;
        if (phase->when != When::at_the_end && phase->wanted(context)) {
            if (context.plan.checkpoint && context.steps.end_is_near())
                return too_late_for(phase->name);
            // The watch reads the record, which exists once the first phase has begun.
            if (phase != phase_rows.begin()) restarts.watch_first_node();
            ending = carry_out(*phase, context, journal);
        }
        if (!ending) {
            notes.leave();
            ++phase;
            continue;
        }
        auto faults = node_faults_of(*ending, context.ready_nodes().size(), base::now());
        const int earlier = context.place.restarts;
        bool goes_on = true;
        if (phase->name != Ranks::name && restarts.leave_out(*ending))
            phase = std::min(phase, first_of_a_start);
        else if (phase->when == When::each_start && restarts.start_again(*ending))
            phase = first_of_a_start;
        else
            goes_on = false;
        std::erase_if(faults, [&](const record::NodeFault& fault) {
            return goes_on && is_suspicion(fault, context, earlier);
        });
        notes.add(std::move(faults));
        if (!goes_on) return ending;
        notes.leave();
    }
    return std::nullopt;
}

// Returns whether Slurm soon kills what is left of an attempt with this end.
bool is_limited(record::EndedBy by) {
    return by == record::EndedBy::time_limit || by == record::EndedBy::preemption ||
           by == record::EndedBy::node;
}

}  // namespace

int run_attempt(Context& context, Journal& journal, const slurm::Client& slurm, SlurmCalls calls) {
    QueueAgain again(context, journal, slurm);
    NodeFaultNotes notes(context, slurm);
    context.alarmed = [&](record::Alarm alarm) { journal.alarmed(std::move(alarm)); };
    context.lost = [&](record::Loss loss) { journal.lost(std::move(loss)); };
    context.node_failed = [&](const std::string& node, record::NodeFaultKind kind) {
        notes.add({{.node = node, .kind = kind, .time = base::now()}});
    };
    auto ending = again.why_not_run();
    const bool may_run = !ending;
    if (may_run) ending = until_the_ranks_end(context, journal, again, std::move(calls), notes);
    if (may_run && !ending) ending = again.preempted_although_well();
    if (ending) {
        // What follows may take longer than Slurm lets this process live.
        journal.ending(ending->by, ending->failure);
        if (const auto by = again.cause_of(*ending); by != ending->by) {
            ending->by = by;
            ending->failure.code = record::words_of(by).code;
            ending->failure.message = record::words_of(by).message;
            journal.ending(by, ending->failure);
        }
        if (ending->by == record::EndedBy::node && !ending->of_node) notes.add_lost_nodes();
    }
    // Slurm's accounting gets the comment that the job has when it is queued again.
    notes.leave();
    if (ending) {
        if (is_limited(ending->by)) again.after(*ending);
        if (ending->of_success && !journal.attempt().runs_again()) ending.reset();
    }
    const bool well = !ending || ending->of_success;
    const int failed_with = !well && ending->exit_code != 0 ? ending->exit_code : 1;
    const int exit_code = well ? 0 : failed_with;
    // The record and Slurm's log of the job may be on a disk that is full.
    if (!well) context.log.master("the job has failed: " + sentence_of(*ending));
    context.log.all_nodes(fmt::format("the job has ended with exit code {}", exit_code));
    for (const PhaseRow& phase : phase_rows) {
        if (phase.when == When::at_the_end && phase.wanted(context))
            (void)carry_out(phase, context, journal);
    }
    journal.warned(context.log.warnings());
    if (ending) {
        again.decide(*ending);
        journal.finish(exit_code, ending->by, &ending->failure);
        again.after(*ending);
    } else {
        journal.finish(exit_code, record::EndedBy::program, nullptr);
    }
    if (!well && !journal.is_saved())
        leave_last_words(slurm, journal.attempt(), context.granted.id_in_commands());
    const bool ends_failed = !well && !journal.attempt().runs_again();
    if (const auto line = ends_failed ? let_fail(slurm, context.granted) : std::nullopt) {
        context.log.master(*line);
        std::fprintf(stderr, "batchai: %s\n", line->c_str());
    }
    notify(context, journal.attempt());
    return exit_code;
}

namespace {

// Once a job is being ended, only KillWait, usually 30 s, is left of it.
constexpr std::chrono::seconds slurms_deadline{5};

// Returns how often the ranks have been started again within earlier attempts.
int restarts_before(const record::JobFiles& files, int attempt) {
    std::size_t restarts = 0;
    for (int number = 1; number < attempt; ++number) {
        const auto earlier = record::attempt_of(files, number);
        if (earlier && *earlier) restarts += (*earlier)->restarts.size();
    }
    return static_cast<int>(restarts);
}

// Returns the size of the batch script's log when attempt `number` began.
std::size_t begin_of_attempt(const plan::Plan& plan, int number) {
    if (number < 1) return 0;
    const auto attempt =
        record::attempt_of(record::JobFiles(plan.directories.job_directory), number);
    if (!attempt || !*attempt) return 0;
    return static_cast<std::size_t>(std::max<std::int64_t>(0, (*attempt)->log_begin.value_or(0)));
}

base::Result<int> run_here(const RunOptions& options, const slurm::ThisJob& allocation) {
    plan::Plan submitted =
        TRY(plan::read_plan(options.plan_path, options.digest, allocation.array_task));
    TRY(check_size(allocation, submitted));
    // Logs may be on this node's own storage.
    const std::string node_root = node::node_root_here(submitted.directories.node_root);
    const plan::Plan plan = plan::with_node_root(std::move(submitted), node_root);
    SrunRunner steps(allocation.job_id);
    SlurmsWord outside(allocation.job_id, allocation.restart,
                       begin_of_attempt(plan, options.attempts_before + allocation.restart));
    LogDirectory logs(output_directory(plan));
    ExecutionLog log(logs, record::JobFiles(plan.directories.job_directory).node_logs().string(),
                     allocation.nodes);
    Context context{
        .plan = plan,
        .options = options,
        .granted = allocation,
        .steps = steps,
        .outside = outside,
        .logs = logs,
        .log = log,
        .elastic = TRY(plan::elastic_of(plan.environment, plan.allocation.nodes)),
        .ports = {.job = base::ReservedPort::reserve(), .ranks = base::ReservedPort::reserve()},
        .place = first_place(plan.allocation, allocation.nodes, slurm::addresses_of)};
    if (allocation.restart > 0) {
        const auto settled = record::settle_earlier_attempt(context.files(), context.attempt(),
                                                            outside.why_restarted());
        if (!settled)
            std::fprintf(stderr, "batchai: warning: %s\n", settled.error().text().c_str());
    }
    context.earlier_restarts = restarts_before(context.files(), context.attempt());
    record::Attempt attempt;
    attempt.number = context.attempt();
    attempt.slurm_job_id = allocation.job_id;
    attempt.nodes = allocation.nodes;
    attempt.start = base::now();
    attempt.log_begin = static_cast<std::int64_t>(outside.begin());
    Journal journal(context.files(), std::move(attempt));
    record::forget_usage(context.files(), context.attempt());
    const int exit_code =
        run_attempt(context, journal, slurm::Client(slurms_deadline), slurm_calls(allocation));
    record::forget_live_usage(context.files(), context.attempt());
    remove_what_killed_runs_left(context);
    return exit_code;
}

}  // namespace

int run_job(const RunOptions& options) {
    const auto job = slurm::this_job();
    const auto result =
        job.and_then([&](const slurm::ThisJob& known) { return run_here(options, known); });
    if (result) return *result;
    std::fprintf(stderr, "batchai: error: %s\n", result.error().text().c_str());
    // Without Slurm's word about the job, nobody knows whose records these are.
    if (job) {
        record_failed_start(options.plan_path, result.error(), *job, options.attempts_before);
        if (const auto line = let_fail(slurm::Client(slurms_deadline), *job))
            std::fprintf(stderr, "batchai: %s\n", line->c_str());
    }
    return static_cast<int>(result.error().exit_code);
}

}  // namespace batchai::run
