// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "record/attempt.hpp"
#include "run/context.hpp"

// The phases of an attempt. Each is a type with `name` (its name in the record), `wanted` (whether
// this job has it) and `run`. attempt.cpp lists the phases in order, writes their begin and end
// into the record, and decides what follows from the way they end. A phase knows neither the record
// nor the other phases.
namespace batchai::run {

// What ends the attempt, or this start of the ranks.
struct Ending {
    record::Failure failure;
    record::EndedBy by = record::EndedBy::start;
    int exit_code = 1;                             // the job's
    std::vector<std::string> more_bad_nodes = {};  // besides the one that the failure names
    bool may_start_again = false;                  // the ranks may start again in this allocation
    // Whatever runs there, the nodes that the failure names are to blame.
    bool of_node = false;
    // It is no consequence of the loss of a node that Slurm has not noticed yet.
    bool knows_cause = false;
    bool for_other_hosts = false;  // they have ended only to start on other nodes
    // The ranks have ended with 0. Unless the job is run again, it has succeeded.
    bool of_success = false;
};

// Returns "Job failed with non-zero exit code: rank 1 on n2: KeyError: 'a'", or less if less is
// known.
[[nodiscard]] std::string sentence_of(const Ending& ending);

// Returns the nodes that the end names, each once, the failure's own first.
[[nodiscard]] std::vector<std::string> nodes_of(const Ending& ending);

struct PhaseEnd {
    int exit_code = 0;                           // the phase's own, for the record
    std::optional<Ending> ending{};              // none: the next phase follows
    std::optional<record::Software> software{};  // what the phase has set up
};

// Returns the end of a phase that ends the attempt. The phase's exit code is the job's.
[[nodiscard]] inline PhaseEnd ends_with(Ending ending) {
    const int exit_code = ending.exit_code;
    return {.exit_code = exit_code, .ending = std::move(ending)};
}

// Makes the output directories, the host file and the logs.
struct Outputs {
    static constexpr std::string_view name = "outputs";
    [[nodiscard]] static bool wanted(const Context&) { return true; }
    [[nodiscard]] static PhaseEnd run(Context& context);
};

// Runs the site's checks on each node (phases/health.hpp).
struct Health {
    static constexpr std::string_view name = "health";
    [[nodiscard]] static bool wanted(const Context& context) {
        return context.plan.health.has_value();
    }
    [[nodiscard]] static PhaseEnd run(Context& context);
};

// Imports the container's image unless it is there already. One node does so for all nodes.
struct Image {
    static constexpr std::string_view name = "image";
    [[nodiscard]] static bool wanted(const Context& context) {
        return context.plan.container.has_value();
    }
    [[nodiscard]] static PhaseEnd run(Context& context);
};

// Runs the setup task of the job's cluster on each node that has not done it since it started.
struct NodeSetup {
    static constexpr std::string_view name = "node-setup";
    [[nodiscard]] static bool wanted(const Context& context);
    [[nodiscard]] static PhaseEnd run(Context& context);
};

// Sets up the job's modules and its Python environment on each node (phases/software.hpp).
struct SetUpSoftware {
    static constexpr std::string_view name = "software";
    [[nodiscard]] static bool wanted(const Context& context);
    [[nodiscard]] static PhaseEnd run(Context& context);
};

// Runs the job's preparation, one task on each node.
struct Preparation {
    static constexpr std::string_view name = "preparation";
    [[nodiscard]] static bool wanted(const Context& context) {
        return context.step(plan::StepKind::preparation) != nullptr;
    }
    [[nodiscard]] static PhaseEnd run(Context& context);
};

// Checks the GPUs of each node, if the job has some (phases/gpu_check.hpp).
struct GpuCheck {
    static constexpr std::string_view name = "gpu-check";
    [[nodiscard]] static bool wanted(const Context& context);
    [[nodiscard]] static PhaseEnd run(Context& context);
};

// Measures the links between the nodes, if the job wants it (phases/link_check.hpp).
struct LinkCheck {
    static constexpr std::string_view name = "link-check";
    [[nodiscard]] static bool wanted(const Context& context);
    [[nodiscard]] static PhaseEnd run(Context& context);
};

// Proves, before any rank starts, that PMIx wires as many ranks as the job has. On four idle nodes,
// its step takes 0.2 to 0.35 s. Ranks of libmpi_bridge or torch do without it, unless their
// container may have a PMIx library of its own.
struct WireUp {
    static constexpr std::string_view name = "wire-up";
    [[nodiscard]] static bool wanted(const Context& context);
    [[nodiscard]] static PhaseEnd run(Context& context);
};

// Holds a port for each task of a TensorFlow job with several processes, so that the tasks can be
// told where they find each other.
struct HoldPorts {
    static constexpr std::string_view name = "ports";
    [[nodiscard]] static bool wanted(const Context& context);
    [[nodiscard]] static PhaseEnd run(Context& context);
};

// Runs the ranks, and beside them the parameter servers of a TensorFlow job, or the one process of
// a custom toolkit.
struct Ranks {
    static constexpr std::string_view name = record::phase_of_ranks;
    [[nodiscard]] static bool wanted(const Context& context) {
        return context.main_step() != nullptr;
    }
    [[nodiscard]] static PhaseEnd run(Context& context);
};

// Removes the directory of the logs from this host if it is inside the job's temporary directory,
// unless steps of the job use that directory. On their nodes, the epilog removes it.
struct CleanUp {
    static constexpr std::string_view name = "clean-up";
    [[nodiscard]] static bool wanted(const Context& context);
    [[nodiscard]] static PhaseEnd run(Context& context);
};

// Removes the directories of logs that other runs of the user have left on this host because they
// were killed. On a login host, nothing else does. This may take long, so the attempt has ended.
void remove_what_killed_runs_left(const Context& context);

// Copies the logs to remote storage if the job wants them there.
struct StoreLogs {
    static constexpr std::string_view name = "logs";
    [[nodiscard]] static bool wanted(const Context& context);
    [[nodiscard]] static PhaseEnd run(Context& context);
};

}  // namespace batchai::run
