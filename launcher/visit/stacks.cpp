// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks.hpp"

#include <chrono>
#include <csignal>
#include <utility>

#include "base/process.hpp"

namespace batchai::visit {

base::Result<std::optional<run::StacksFound>> ask_for_stacks(const RunningJob& running,
                                                             const std::vector<std::string>& nodes,
                                                             StacksWanted wanted) {
    const base::HeldSignals signals{SIGINT, SIGTERM, SIGHUP};
    auto look = TRY(run::StackLook::start(running.slurm_id, nodes, wanted, bare_environment()));
    while (!look.poll(std::chrono::seconds(1), signals.descriptor())) {
        if (signals.next()) return std::nullopt;
    }
    auto found = look.found();
    if (found) return std::optional(std::move(*found));
    found.error().where = running.job.key.job;
    return tl::unexpected(std::move(found.error()));
}

}  // namespace batchai::visit
