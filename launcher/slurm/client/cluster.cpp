// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include "base/text.hpp"
#include "slurm/client.hpp"
#include "slurm/messages.hpp"
#include "slurm/parse.hpp"

// The cluster itself: its nodes, its Slurm, and what its users may do.
namespace batchai::slurm {

namespace {

using base::Result;
using namespace std::string_view_literals;

// A node may have changed its state since the caller looked.
constexpr std::array other_node_state{"Invalid node state specified"sv};

}  // namespace

Result<std::vector<NodeStatus>> Client::nodes(const NodeFilter& filter) const {
    base::Arguments arguments{"sinfo", "--noheader", "--Node",
                              fmt::format("--Format={}", kNodeFormat)};
    if (filter.hidden) arguments.emplace_back("--all");
    if (!filter.names.empty())
        arguments.push_back(fmt::format("--nodes={}", fmt::join(filter.names, ",")));
    if (!filter.partition.empty())
        arguments.push_back(fmt::format("--partition={}", filter.partition));
    auto nodes = parse_nodes(TRY(read(arguments)));
    if (!nodes || filter.constraint.empty()) return nodes;
    if (filter.constraint.find_first_of("|[](),*") != std::string::npos)
        return base::fail(
            fmt::format("the constraint \"{}\" is not supported for listing nodes yet",
                        filter.constraint),
            "site.lua", "use features joined by \"&\"");
    const auto wanted = base::split(filter.constraint, '&');
    const auto lacks = [&](const NodeStatus& node) {
        return std::any_of(wanted.begin(), wanted.end(), [&](std::string_view feature) {
            return std::find(node.features.begin(), node.features.end(), base::trim(feature)) ==
                   node.features.end();
        });
    };
    nodes->erase(std::remove_if(nodes->begin(), nodes->end(), lacks), nodes->end());
    return nodes;
}

Result<std::map<std::string, base::Endpoint>> Client::daemons(
    const std::vector<std::string>& nodes) const {
    base::Arguments arguments{"sinfo", "--noheader", "--Node", "--all",
                              fmt::format("--Format={}", kDaemonFormat)};
    if (!nodes.empty()) arguments.push_back(fmt::format("--nodes={}", fmt::join(nodes, ",")));
    return parse_daemons(TRY(read(arguments)));
}

Result<std::string> Client::core_counts(const std::string& partition) const {
    base::Arguments arguments{"sinfo", "--noheader", "--Node", "--format=%N|%f|%C"};
    if (!partition.empty()) arguments.push_back(fmt::format("--partition={}", partition));
    return read(arguments);
}

Result<void> Client::set_power(const std::vector<std::string>& nodes, NodePower power) const {
    constexpr std::array<std::string_view, 3> states{"POWER_UP", "POWER_DOWN_ASAP", "RESUME"};
    if (nodes.empty()) return {};
    return tell({"scontrol", "update", fmt::format("NodeName={}", fmt::join(nodes, ",")),
                 fmt::format("State={}", states.at(static_cast<std::size_t>(power)))},
                other_node_state);
}

Result<std::string> Client::version() const {
    const auto completed = TRY(ask({"sinfo", "--version"}));
    const std::string_view text = base::trim(completed.standard_output);
    const std::size_t blank = text.rfind(' ');
    if (completed.exit_code != 0 || blank == std::string_view::npos)
        return refused("sinfo", completed);
    return std::string(text.substr(blank + 1));
}

std::string configured(const Configuration& configuration, std::string_view key) {
    const auto found = configuration.find(key);
    if (found == configuration.end() || found->second == "(null)" || found->second == "none")
        return {};
    return found->second;
}

Result<Configuration> Client::configuration() const {
    return parse_configuration(TRY(read({"scontrol", "show", "config"})));
}

Result<std::vector<std::string>> Client::mpi_types() const {
    const auto completed = TRY(ask({"srun", "--mpi=list"}));
    // Slurm 22.05 prints the list on standard error, newer ones on standard output.
    return parse_mpi_types(completed.standard_output + completed.standard_error);
}

Result<std::string> Client::help_of_srun() const {
    return read({"srun", "--help"});
}

Result<std::string> Client::admin_level(const std::string& user) const {
    const std::string level = TRY(read({"sacctmgr", "--noheader", "--parsable2", "show", "user",
                                        fmt::format("name={}", user), "format=adminlevel"}));
    return std::string(base::trim(level));
}

Result<bool> Client::is_administrator(const std::string& user) const {
    return TRY(admin_level(user)) == "Administrator";
}

bool Client::may_choose_priorities() const {
    if (getuid() == 0) return true;
    const auto* const entry = getpwuid(getuid());
    const auto level = entry == nullptr ? std::string() : admin_level(entry->pw_name).value_or("");
    return level == "Administrator" || level == "Operator";
}

}  // namespace batchai::slurm
