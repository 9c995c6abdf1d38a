// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/node_name.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include <unistd.h>

#include "base/process.hpp"
#include "base/text.hpp"
#include "node/slurm_conf.hpp"
#include "slurm/hostlist.hpp"
#include "spank/protocol.h"

namespace batchai::node {

namespace {

// Reads "NUMBER COUNT LIST".
std::optional<std::string> node_of_step(const std::string& text) {
    const auto words = base::split(text, ' ');
    if (words.size() != 3) return std::nullopt;
    const auto number = base::number_in<std::size_t>(words[0]);
    const auto count = base::number_in<std::size_t>(words[1]);
    const auto nodes = slurm::expand_hostlist(words[2]);
    if (!number || !count || !nodes || *count != nodes->size() || *number >= *count)
        return std::nullopt;
    return (*nodes)[*number];
}

}  // namespace

std::string node_name() {
    if (const auto place = base::variable(BATCHAI_NODE_VARIABLE)) {
        if (auto name = node_of_step(*place)) return *std::move(name);
    }
    if (auto name = base::variable("SLURMD_NODENAME"); name && !name->empty())
        return *std::move(name);
    return host_name();
}

std::string host_name() {
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) != 0) return "unknown";
    const std::string full(host.data());
    return full.substr(0, full.find('.'));
}

std::optional<std::string> node_of_shared_host() {
    const SlurmConf conf = read_slurm_conf(base::variable("SLURM_CONF").value_or(""));
    if (!may_have_several_slurmds(conf.text)) return std::nullopt;
    return node_name();
}

}  // namespace batchai::node
