// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/messages.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"

namespace batchai::slurm {

namespace {

struct Known {
    std::string_view text;
    std::string_view hint;
};

// Parts of Slurm's messages in lower case. The first match counts.
constexpr std::array<Known, 16> known_faults{{
    {"invalid partition",
     "see the partitions with \"sinfo -s\"; the cluster's vmSize chooses one "
     "in site.lua"},
    {"requested node configuration is not available",
     "no node fits: compare the node count, cpus, gres and features with \"sinfo -Nl\"; Slurm "
     "22.05.5 to 22.05.8 also refuse some valid requests with this message (SchedMD bug 15857)"},
    {"node count specification invalid",
     "the partition has fewer nodes, or its limit is lower: see \"scontrol show partition\""},
    {"more processors requested than permitted",
     "ask for fewer processes or nodes: see \"scontrol show partition\""},
    {"violates accounting/qos policy",
     "a limit of the account or QOS refuses it: see \"sacctmgr show assoc user=$USER\" and "
     "\"sacctmgr show qos\""},
    {"invalid qos", "see the QOS you may use with \"sacctmgr show assoc user=$USER\""},
    {"invalid account", "see your accounts with \"sacctmgr show assoc user=$USER\""},
    {"invalid generic resource", "no node has this gres: see \"sinfo -o '%N %G'\""},
    {"invalid feature", "no node has this feature: see \"sinfo -o '%N %f'\""},
    {"invalid node name", "see the nodes with \"sinfo -N\""},
    {"time limit", "the partition's limit is lower: see \"scontrol show partition\""},
    {"unable to contact slurm controller",
     "the controller does not answer from this host: check it with \"scontrol ping\""},
    {"requested operation is presently disabled",
     "the job may not be queued again: it was submitted with --no-requeue, or has failed after a "
     "submission with --requeue=expedite, or the site has JobRequeue=0; create the job again"},
    {"unable to process configuration file",
     "Slurm is not configured on this host: check /etc/slurm/slurm.conf or SLURM_CONF"},
    {"could not establish a configuration source",
     "this host has no slurm.conf, and neither slurmd nor sackd has fetched one: check "
     "/etc/slurm/slurm.conf, SLURM_CONF or SLURM_CONF_SERVER"},
    {"protocol authentication error",
     "munge does not work between this host and the controller: ask the administrator"},
}};

// Shortens "sbatch: error: Batch job submission failed: X" to "X".
std::string_view cleaned(std::string_view line, std::string_view command) {
    const std::array<std::string, 5> prefixes{
        fmt::format("{}:", command),
        "error:", "fatal:", "allocation failure:", "Batch job submission failed:"};
    bool again = true;
    while (again) {
        again = false;
        line = base::trim(line);
        for (const std::string& prefix : prefixes) {
            if (!line.starts_with(prefix)) continue;
            line.remove_prefix(prefix.size());
            again = true;
        }
    }
    while (line.ends_with('.'))
        line.remove_suffix(1);
    return line;
}

}  // namespace

std::vector<std::string> messages(std::string_view command, std::string_view standard_error) {
    std::vector<std::string> said;
    for (const std::string_view line : base::split(standard_error, '\n')) {
        const std::string text(cleaned(line, command));
        if (text.empty() || (!said.empty() && said.back() == text)) continue;
        said.push_back(text);
    }
    return said;
}

base::Error refusal(std::string_view command, std::string_view standard_error) {
    const std::vector<std::string> said = messages(command, standard_error);
    base::Error error{said.empty() ? "Slurm refused without giving a reason"
                                   : fmt::format("{}", fmt::join(said, "; ")),
                      std::string(command),
                      {},
                      base::ExitCode::refused};
    const std::string lowered = base::lower(error.what);
    for (const Known& entry : known_faults) {
        if (lowered.find(entry.text) == std::string::npos) continue;
        error.hint = std::string(entry.hint);
        break;
    }
    return error;
}

bool gave_no_answer(const base::Error& error) {
    return error.exit_code == base::ExitCode::timed_out ||
           error.what.find("timed out") != std::string::npos ||
           error.what.find("Zero Bytes were transmitted or received") != std::string::npos;
}

tl::unexpected<base::Error> refused(std::string_view command, const base::Completed& completed) {
    return tl::unexpected(refusal(command, completed.standard_error));
}

}  // namespace batchai::slurm
