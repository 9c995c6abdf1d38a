// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/cluster_facts.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>

#include "base/file.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "node/slurm_conf.hpp"
#include "slurm/client.hpp"

namespace batchai::admin {

namespace {

constexpr std::chrono::seconds munge_deadline{5};

// A credential that is made and read on the same host shows that munged runs there.
base::Result<void> try_munge() {
    base::RunOptions options;
    options.deadline = munge_deadline;
    const auto made = TRY(base::run({"munge", "--no-input"}, options));
    if (made.exit_code != 0) return base::fail(made.standard_error, "munge");
    options.standard_input = made.standard_output;
    const auto read = TRY(base::run({"unmunge"}, options));
    if (read.exit_code != 0) return base::fail(read.standard_error, "unmunge");
    return {};
}

base::Result<std::string> read_filter(const slurm::Configuration& configuration) {
    constexpr std::string_view parameter = "cli_filter_lua_path=";  // since 25.11
    if (const auto found = configuration.find("CliFilterParameters");
        found != configuration.end()) {
        for (const std::string_view word : base::split(found->second, ',')) {
            if (word.starts_with(parameter))
                return base::read_file(std::string(word.substr(parameter.size())));
        }
    }
    // The controller's slurm.conf may be elsewhere.
    const auto conf = node::read_slurm_conf(base::variable("SLURM_CONF").value_or(""));
    if (conf.path.empty())
        return base::fail("this host has no slurm.conf, so it is not known where Slurm looks");
    return base::read_file(std::filesystem::path(conf.path).parent_path() / "cli_filter.lua");
}

base::Result<std::set<std::string>> all_partitions(const slurm::Client& client) {
    std::set<std::string> partitions;
    for (const slurm::NodeStatus& node : TRY(client.nodes({.hidden = true})))
        partitions.insert(node.partitions.begin(), node.partitions.end());
    return partitions;
}

}  // namespace

std::string ClusterFacts::configured(std::string_view key) const {
    return configuration ? slurm::configured(*configuration, key) : std::string();
}

bool ClusterFacts::keeps_comments() const {
    const std::string storage = configured("AccountingStorageType");
    const std::string flags = base::lower(configured("AccountingStoreFlags"));
    const auto words = base::split(flags, ',');
    return !storage.empty() && storage != "accounting_storage/none" &&
           std::find(words.begin(), words.end(), "job_comment") != words.end();
}

ClusterFacts look_at_cluster(const slurm::Client& client) {
    ClusterFacts facts;
    facts.version = client.version();
    facts.controller = client.ping();
    facts.configuration = client.configuration();
    facts.credentials = try_munge();
    facts.srun_help = client.help_of_srun();
    facts.mpi_types = client.mpi_types();
    facts.nodes = client.nodes();
    facts.daemons = client.daemons({});
    facts.partitions = all_partitions(client);
    facts.site = site::load_default();
    facts.cli_filter =
        facts.configuration.and_then([](const auto& found) { return read_filter(found); });
    if (facts.site && facts.site->note_failed_nodes && facts.keeps_comments())
        facts.node_faults = facts.nodes.and_then(
            [&](const auto& nodes) { return look_at_node_faults(client, nodes); });
    return facts;
}

}  // namespace batchai::admin
