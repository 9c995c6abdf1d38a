// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/record.hpp"
#include "record/job_files.hpp"

// The files by which the nodes of an elastic job are changed while it runs. `batchai job resize`
// leaves a request for `batchai run`. `batchai run` announces a change to rank 0, and rank 0
// confirms that the ranks have ended because of it; their side is in
// mpi_bridge/python/horovod/common/host_updates.py. An announcement and a confirmation name the
// start of the ranks that they are about (Context::start), so one of an earlier start has no
// effect. The same holds for what ranks ask that have lost others and want to go on; their side is
// in losses.py beside it.
namespace batchai::record {

// How the nodes change, from the ranks' point of view.
enum class HostsChange { removed, added, mixed };
constexpr auto json_words(HostsChange /*type*/) {
    return std::array{std::pair{std::string_view("removed"), HostsChange::removed},
                      std::pair{std::string_view("added"), HostsChange::added},
                      std::pair{std::string_view("mixed"), HostsChange::mixed}};
}

struct HostsUpdate {
    std::string start;
    HostsChange change = HostsChange::removed;

    static constexpr auto fields(auto field) {
        return std::tuple{field("start", &HostsUpdate::start),
                          field("change", &HostsUpdate::change)};
    }
};

// Announces the change to the ranks. Refuses a directory that is not the user's own.
[[nodiscard]] base::Result<void> announce(const JobFiles& files, const HostsUpdate& update);
// Returns whether the ranks of this start have ended after a commit because of the announcement.
[[nodiscard]] bool ranks_have_left(const JobFiles& files, const std::string& start);
// Removes both files, because an earlier run in the same allocation may have used the same names.
void forget_hosts_updates(const JobFiles& files);

// Whether the ranks of this start have said that they can go on without lost ones.
[[nodiscard]] bool ranks_stay(const JobFiles& files, const std::string& start);

// A question of ranks that have lost others.
struct RanksLost {
    std::string start;
    std::string number;     // of the question
    std::vector<int> lost;  // tasks
    std::vector<int> here;  // those that would go on

    static constexpr auto fields(auto field) {
        return std::tuple{field("start", &RanksLost::start), field("number", &RanksLost::number),
                          field("lost", &RanksLost::lost), field("here", &RanksLost::here)};
    }
};

struct RanksLostAnswer {
    std::string number;   // of the question
    std::string refusal;  // why the ranks must not go on; empty: they may

    static constexpr auto fields(auto field) {
        return std::tuple{field("number", &RanksLostAnswer::number),
                          field("refusal", &RanksLostAnswer::refusal)};
    }
};

// Returns the latest question of this start, if there is one.
[[nodiscard]] std::optional<RanksLost> ranks_lost(const JobFiles& files, const std::string& start);
[[nodiscard]] base::Result<void> answer(const JobFiles& files, const RanksLostAnswer& answer);
// Returns the tasks of this start that have gone on after a loss and have said since that they end.
[[nodiscard]] std::set<int> ended_ranks(const JobFiles& files, std::string_view start);
// Removes these files, because an earlier run in the same allocation may have used the same names.
void forget_ranks_lost(const JobFiles& files);

struct ResizeRequest {
    int attempt = 0;  // the attempt that is to have fewer nodes
    int nodes = 0;    // how many it is to keep

    static constexpr auto fields(auto field) {
        return std::tuple{field("attempt", &ResizeRequest::attempt).within(1),
                          field("nodes", &ResizeRequest::nodes).within(1)};
    }
};

// Removes a request that is there.
void forget_resize_request(const JobFiles& files);
[[nodiscard]] base::Result<void> write_resize_request(const JobFiles& files,
                                                      const ResizeRequest& request);
// Returns the request, if there is one, and removes it.
[[nodiscard]] base::Result<std::optional<ResizeRequest>> take_resize_request(const JobFiles& files);

}  // namespace batchai::record
