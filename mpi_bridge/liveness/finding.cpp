// SPDX-License-Identifier: Apache-2.0
#include "liveness/finding.hpp"

#include <algorithm>

#include <fmt/core.h>

namespace mpi_bridge {
namespace {

constexpr std::size_t most_lines = 10;
// A state that was seen only once has no known duration.
constexpr Seconds noteworthy{1};

std::string for_how_long(const Finding& found) {
    if (found.state_for < noteworthy) return {};
    return fmt::format(" for at least {:.0f} s", found.state_for.count());
}

std::string silence_text(const Finding& found) {
    switch (found.state) {
        case 'T':
            return fmt::format(
                "which has been stopped by a signal{}; \"kill -CONT {}\" on its host lets it go on",
                for_how_long(found), found.identity.process);
        case 't':
            return "which a debugger has stopped" + for_how_long(found);
        case 'D':
            return fmt::format(
                "which does not answer; its process has been in a system call that cannot be "
                "interrupted{}, as of a file system or a driver that hangs",
                for_how_long(found));
        case 'Z':
        case 'X':
        case process_state::ended:
            return "whose process has ended";
        case process_state::unknown:
            break;
        default:
            return "which does not answer, although its process is there; its control group may be "
                   "frozen, or its host overloaded";
    }
    if (found.silent_neighbour >= 0) {
        return fmt::format(
            "which does not answer, and neither does rank {} of the same host; the host may be "
            "down, or cut off from the network",
            found.silent_neighbour);
    }
    return "which does not answer; it may be stopped, or its host down";
}

std::string verdict_text(const Finding& found) {
    switch (found.verdict) {
        case Finding::Verdict::silent:
            return silence_text(found);
        case Finding::Verdict::waits:
            return fmt::format("which waits for rank {} itself", found.waits_for);
        case Finding::Verdict::absent:
            break;
    }
    if (found.state == 'D') {
        return fmt::format(
            "which has not come to this call; it has been in a system call that cannot be "
            "interrupted{}, as of a file system or a driver that hangs",
            for_how_long(found));
    }
    return "which runs, but has not come to this call";
}

}  // namespace

std::string findings_text(int own_rank, std::span<const Finding> findings) {
    std::string text;
    for (const Finding& found : findings.first(std::min(findings.size(), most_lines))) {
        text += fmt::format(
            "mpi_bridge: rank {}: a call has waited for {:.0f} s for rank {} (host {}, process "
            "{}), {}\n",
            own_rank, found.waited.count(), found.rank, found.identity.host, found.identity.process,
            verdict_text(found));
    }
    if (findings.size() > most_lines) {
        text += fmt::format("mpi_bridge: rank {}: calls wait for {} more ranks\n", own_rank,
                            findings.size() - most_lines);
    }
    return text;
}

}  // namespace mpi_bridge
