// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

// What a process tells of its collectives of torch.distributed, as
// mpi_bridge/python/mpi_bridge/hook/batchai_torch_calls.py writes it.
namespace batchai::visit {

inline constexpr std::string_view torch_schema = "batchai-torch/v1";

struct TorchCall {
    std::int64_t number = 0;  // the calls of a process group are counted
    bool point_to_point = false;
    std::string operation;  // "gloo:all_reduce"
    std::string state;      // "scheduled", "started" or "completed"; with Gloo always the first
    std::string input;      // "Float [8, 4]"
    std::string output;
    std::int64_t seconds = 0;  // since it was made

    bool operator==(const TorchCall&) const = default;
    static constexpr auto fields(auto field) {
        return std::tuple{field("number", &TorchCall::number),
                          field("pointToPoint", &TorchCall::point_to_point),
                          field("operation", &TorchCall::operation),
                          field("state", &TorchCall::state),
                          field("input", &TorchCall::input),
                          field("output", &TorchCall::output),
                          field("seconds", &TorchCall::seconds)};
    }
};

struct TorchGroup {
    std::string backend;
    std::string name;
    std::string description;        // "default_pg", what the program has called it, or "undefined"
    std::vector<int> ranks;         // torch.distributed's
    std::vector<TorchCall> open;    // those that have been open for longest
    std::optional<TorchCall> last;  // collective that was made, open or not

    bool operator==(const TorchGroup&) const = default;
    static constexpr auto fields(auto field) {
        return std::tuple{field("backend", &TorchGroup::backend),
                          field("name", &TorchGroup::name),
                          field("description", &TorchGroup::description),
                          field("ranks", &TorchGroup::ranks),
                          field("open", &TorchGroup::open),
                          field("last", &TorchGroup::last)};
    }
};

struct TorchState {
    std::string why;          // nothing is told; empty: it is
    std::optional<int> rank;  // torch.distributed's; none: there is no default group yet
    std::vector<TorchGroup> groups;

    bool operator==(const TorchState&) const = default;
    static constexpr auto fields(auto field) {
        return std::tuple{field("why", &TorchState::why), field("rank", &TorchState::rank),
                          field("groups", &TorchState::groups)};
    }
};

}  // namespace batchai::visit
