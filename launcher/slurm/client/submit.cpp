// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include "base/file.hpp"
#include "slurm/client.hpp"
#include "slurm/file_pattern.hpp"
#include "slurm/messages.hpp"
#include "slurm/parse.hpp"

// What Slurm is given to run: a batch script, or a program on each of some nodes.
namespace batchai::slurm {

namespace {

using base::Result;

// Refuses what Slurm would take for another path, so that it could not start the job.
Result<void> check_output(const Client& client, const base::Arguments& options) {
    const auto output = std::find_if(options.begin(), options.end(), [](const std::string& option) {
        return option.starts_with("--output=");
    });
    if (output == options.end() || output->find('\\') == std::string::npos) return {};
    const std::string release = TRY(client.version());
    if (can_name_backslash(release)) return {};
    return base::fail(
        fmt::format("Slurm {} cannot write the job's log to a path that has a \"\\\"", release),
        output->substr(output->find('=') + 1),
        "set BATCHAI_HOME to a path without one, such as that of a symbolic link to the directory",
        base::ExitCode::usage);
}

}  // namespace

Result<JobId> Client::submit(const base::Arguments& options, const std::string& script,
                             const base::Environment& environment) const {
    TRY(check_output(*this, options));
    base::Arguments arguments{"sbatch", "--parsable"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.push_back(script);
    base::RunOptions run_options;
    run_options.environment = environment;
    run_options.deadline = deadline_;
    // Nobody would wait for the job of an sbatch that lives on.
    run_options.ends_with_us = true;
    const auto completed = TRY(base::run(arguments, run_options));
    // Slurm may have taken the job before sbatch was killed.
    if (const auto signal = base::signal_in(completed.exit_code))
        return base::fail(fmt::format("was killed by signal {}", *signal), "sbatch");
    if (completed.exit_code != 0) return refused("sbatch", completed);
    return parse_submitted(completed.standard_output);
}

Result<std::string> Client::test_submission(const base::Arguments& options,
                                            const std::string& script_text,
                                            const base::Environment& environment) const {
    base::Arguments arguments{"sbatch", "--test-only"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    base::RunOptions run_options;
    run_options.environment = environment;
    run_options.standard_input = script_text;
    run_options.deadline = deadline_;
    const auto completed = TRY(base::run(arguments, run_options));
    if (completed.exit_code != 0) return refused("sbatch", completed);
    return fmt::format("{}", fmt::join(messages("sbatch", completed.standard_error), "; "));
}

namespace {

base::Arguments srun_on_nodes(const NodeCommand& command) {
    base::Arguments arguments{
        "srun", "--quiet",
        // One Ctrl-C ends the tasks, and with them the allocation.
        "--disable-status", "--job-name=batchai-check",
        fmt::format("--nodes={}", command.nodes.size()),
        fmt::format("--ntasks={}", command.nodes.size()), "--ntasks-per-node=1",
        // Without it, Slurm may ask for the whole memory of a node.
        "--mem=64M", fmt::format("--nodelist={}", fmt::join(command.nodes, ",")),
        fmt::format("--immediate={}", command.longest_wait.count()),
        fmt::format("--time={}", command.time_limit.count()), "--mpi=none", "--kill-on-bad-exit=0"};
    const auto add = [&](std::string_view name, const std::string& value) {
        if (!value.empty()) arguments.push_back(fmt::format("--{}={}", name, value));
    };
    add("partition", command.partition);
    add("account", command.account);
    add("qos", command.qos);
    // The "%N" of srun's own --output is the name of the host, which is not that of the node
    // everywhere.
    arguments.insert(
        arguments.end(),
        {"/bin/sh", "-c", R"(own=$1/$SLURMD_NODENAME; shift; exec "$@" > "$own.out" 2> "$own.err")",
         "batchai", command.directory});
    arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
    return arguments;
}

}  // namespace

Result<base::Completed> Client::run_on_nodes(const NodeCommand& command,
                                             const base::HeldSignals& held) const {
    constexpr std::chrono::milliseconds look{200};
    constexpr std::size_t most_said = 64UL << 10U;
    // A file has room for whatever srun says, so that nobody needs to read while it runs.
    const base::FileDescriptor said(memfd_create("srun", MFD_CLOEXEC));
    if (!said.valid()) return base::system_error("make", "memfd");
    auto srun = TRY(base::Child::start({.arguments = srun_on_nodes(command),
                                        .environment = scrubbed_environment(),
                                        .descriptors = {{-1, 0}, {-1, 1}, {said.get(), 2}},
                                        .own_group = true}));
    // Slurm ends the allocation at its limit, and may take KillWait and more to do so.
    const auto deadline = std::chrono::steady_clock::now() + command.longest_wait +
                          command.time_limit + std::chrono::minutes(1);
    std::optional<int> status;
    bool stopped = false;
    while (!status && std::chrono::steady_clock::now() < deadline) {
        status = srun.ended_by(std::chrono::steady_clock::now() + look);
        if (status || stopped || !held.next()) continue;
        stopped = true;
        srun.signal(SIGTERM);
    }
    if (stopped) return base::fail("interrupted", "srun");
    if (!status) return base::fail("does not end", "srun", {}, base::ExitCode::timed_out);
    return base::Completed{.exit_code = base::shell_exit_code(*status),
                           .standard_output = {},
                           .standard_error = base::end_of_file(said, 0, most_said)};
}

}  // namespace batchai::slurm
