// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/torch_calls.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "visit/stacks/groups.hpp"
#include "visit/stacks/wait_graph.hpp"

namespace batchai::visit {

namespace {

constexpr std::string_view torch = "torch.distributed";
// The nodes do not look at the same moment, and a call that is younger may be over on all ranks.
constexpr std::int64_t least_seconds = 2;
constexpr std::size_t most_lines = 5;

bool is_open_for_long(const TorchCall& call) {
    return call.seconds >= least_seconds;
}

// Calls to which the ranks bring tensors of different sizes.
bool has_tensors_of_its_own(std::string_view operation) {
    // "nccl:scatter"
    operation.remove_prefix(operation.find(':') + 1);
    constexpr std::array<std::string_view, 4> names{"scatter", "gather", "all_to_all", "alltoall"};
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return operation.starts_with(name); });
}

// What must be the same on all ranks.
std::string text_of(const TorchCall& call) {
    const std::string& tensors = call.input.empty() ? call.output : call.input;
    if (tensors.empty() || has_tensors_of_its_own(call.operation)) return call.operation;
    return fmt::format("{} of {}", call.operation, tensors);
}

// With which rank a message is exchanged, of the group's ranks, for "nccl:recv 1<-0" or
// "nccl:send 1->0" of the rank that is told first. Returns nothing if the call does not tell, as
// one of several messages together does not.
std::optional<int> peer_in(const TorchCall& call, int own, const std::vector<int>& ranks) {
    const std::string_view ends =
        std::string_view(call.operation).substr(call.operation.rfind(' ') + 1);
    const bool sends = ends.find("->") != std::string_view::npos;
    const std::size_t arrow = ends.find(sends ? "->" : "<-");
    if (arrow == std::string_view::npos) return std::nullopt;
    // These count within the group.
    const auto from = base::number_in<std::size_t>(ends.substr(0, arrow));
    const auto to = base::number_in<std::size_t>(ends.substr(arrow + 2));
    if (!from || !to || *from >= ranks.size() || *to >= ranks.size()) return std::nullopt;
    return ranks[*from] == own ? std::optional(ranks[*to]) : std::nullopt;
}

// The ranks that have made a call.
struct Callers {
    std::set<int> ranks;
    std::set<int> begun;  // on whose GPUs it has begun, as NCCL tells
};

// A process group, as its members tell of it.
class Group {
  public:
    void add(int rank, const TorchGroup& told) {
        if (!told_.emplace(rank, &told).second) is_mixed_ = true;
        for (const TorchCall& call : told.open) {
            if (call.point_to_point || !is_open_for_long(call)) continue;
            at_ = std::min(at_.value_or(call.number), call.number);
        }
    }

    // Several groups look like this one: a rank has told twice.
    [[nodiscard]] bool is_mixed() const { return is_mixed_; }

    // Whether its ranks have been in a collective for long.
    [[nodiscard]] bool stands() const { return at_.has_value() && !is_mixed_; }

    // The rest is that of a group that stands.

    [[nodiscard]] std::int64_t seconds() const {
        std::int64_t most = 0;
        for (const auto& [rank, told] : told_) {
            if (const TorchCall* const call = open_call(*told))
                most = std::max(most, call->seconds);
        }
        return most;
    }

    // Those that have come to it; in several calls if they do not make the same one.
    [[nodiscard]] std::map<std::string, Callers> there() const {
        std::map<std::string, Callers> callers;
        for (const auto& [rank, told] : told_) {
            const TorchCall* const call = open_call(*told);
            if (call == nullptr) continue;
            Callers& own = callers[text_of(*call)];
            own.ranks.insert(rank);
            if (call->state == "started") own.begun.insert(rank);
        }
        return callers;
    }

    // Those that have not come to it, by what they have done last.
    [[nodiscard]] std::map<std::string, std::set<int>> behind() const {
        std::map<std::string, std::set<int>> ranks;
        for (const auto& [rank, told] : told_) {
            if (!told->last)
                ranks["nor any before"].insert(rank);
            else if (told->last->number < *at_)
                ranks[fmt::format("and last made call {}, {}", told->last->number,
                                  text_of(*told->last))]
                    .insert(rank);
        }
        return ranks;
    }

    [[nodiscard]] std::string text() const {
        std::string where;
        for (const auto& [call, callers] : there()) {
            where += fmt::format("{}{} on {}", where.empty() ? "" : ", but ", call,
                                 ranks_text(callers.ranks));
            if (!callers.begun.empty()) where += ", begun on " + ranks_text(callers.begun);
        }
        std::string text = fmt::format("{}: call {} of {} has been open for {} s: {}", torch, *at_,
                                       name(), seconds(), where);
        for (const auto& [last, ranks] : behind())
            text += fmt::format("; {} {} not made it, {}", ranks_text(ranks),
                                ranks.size() == 1 ? "has" : "have", last);
        return text + '\n';
    }

    // Its members that tell nothing of it: they may have made the call, or not.
    [[nodiscard]] std::set<int> untold() const {
        std::set<int> ranks;
        for (const int rank : told_.begin()->second->ranks) {
            if (!told_.contains(rank)) ranks.insert(rank);
        }
        return ranks;
    }

    void add_waits(WaitGraph& waits) const {
        std::set<int> awaited = untold();
        for (const auto& [last, ranks] : behind())
            awaited.insert(ranks.begin(), ranks.end());
        const auto calls = there();
        for (const auto& [call, callers] : calls) {
            for (const int rank : callers.ranks) {
                for (const int other : awaited)
                    waits.add_wait(rank, other);
                add_waits_for_other_calls(rank, call, calls, waits);
            }
        }
    }

  private:
    // Those that have made different calls will never meet.
    static void add_waits_for_other_calls(int rank, const std::string& own,
                                          const std::map<std::string, Callers>& calls,
                                          WaitGraph& waits) {
        for (const auto& [call, callers] : calls) {
            if (call == own) continue;
            for (const int other : callers.ranks)
                waits.add_wait(rank, other);
        }
    }

    // The call of this rank at which the group stands, if it is there.
    [[nodiscard]] const TorchCall* open_call(const TorchGroup& told) const {
        const auto found = std::find_if(
            told.open.begin(), told.open.end(),
            [&](const TorchCall& call) { return !call.point_to_point && call.number == at_; });
        return found == told.open.end() ? nullptr : &*found;
    }

    [[nodiscard]] std::string name() const {
        const TorchGroup& group = *told_.begin()->second;
        if (group.description == "default_pg") return "the default group";
        const std::string ranks = ranks_text({group.ranks.begin(), group.ranks.end()});
        if (group.description.empty() || group.description == "undefined")
            return "the group of " + ranks;
        return fmt::format("the group \"{}\" of {}", group.description, ranks);
    }

    std::map<int, const TorchGroup*> told_;
    bool is_mixed_ = false;
    std::optional<std::int64_t> at_;  // the first call that has been open for long
};

class Torch {
  public:
    explicit Torch(const std::vector<NodeStacks>& nodes) {
        const std::string step = step_of_ranks(nodes);
        for (const NodeStacks& node : nodes) {
            for (const JobProcess& process : node.processes) {
                if (process.step != step) continue;
                if (process.torch) add(*process.torch, process.rank);
                if (process.rank) processes_.insert(*process.rank);
            }
        }
        for (const auto& [key, group] : groups_) {
            for (const int rank : std::get<2>(key)) {
                if (!waits_.ranks().contains(rank) && has_silent_process(rank))
                    waits_.add_silent(rank);
            }
            if (!group.stands()) continue;
            group.add_waits(waits_);
            // What such a rank tells is not all.
            for (const int rank : group.untold()) {
                if (waits_.ranks().contains(rank)) waits_.add_silent(rank);
            }
        }
    }

    [[nodiscard]] std::string text() const {
        std::vector<std::pair<std::int64_t, std::string>> lines;
        for (const auto& [key, group] : groups_) {
            if (group.stands()) lines.emplace_back(group.seconds(), group.text());
        }
        for (const auto& [what, messages] : messages_)
            lines.emplace_back(messages.seconds,
                               fmt::format("{}: {} has been open for {} s on {}\n", torch, what,
                                           messages.seconds, ranks_text(messages.ranks)));
        // The ones that have been open longest come first.
        std::stable_sort(lines.begin(), lines.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
        std::string text;
        for (std::size_t i = 0; i < lines.size() && i < most_lines; ++i)
            text += lines[i].second;
        if (lines.size() > most_lines)
            text += fmt::format("{}: and {} more\n", torch, lines.size() - most_lines);
        for (const auto& [why, ranks] : silent_)
            text += fmt::format("{}: {} {} nothing of its calls, because {}\n", torch,
                                ranks.empty() ? "a rank" : ranks_text(ranks),
                                ranks.size() > 1 ? "tell" : "tells", why);
        if (is_mixed()) return text;
        // Gloo does not record messages, in which a rank may wait, too.
        return text + waits_.text(torch, records_messages_ ? "for nobody" : "in no collective");
    }

    [[nodiscard]] std::optional<int> awaited_rank() const {
        return is_mixed() ? std::nullopt : waits_.awaited_rank();
    }

  private:
    // Whether programs of one step have ranks of their own with the same numbers. Which of them
    // waits for which cannot be told then.
    [[nodiscard]] bool is_mixed() const {
        return std::any_of(groups_.begin(), groups_.end(),
                           [](const auto& one) { return one.second.is_mixed(); });
    }

    // Messages between two ranks that look alike.
    struct Messages {
        std::int64_t seconds = 0;
        std::set<int> ranks;
    };

    void add(const TorchState& state, std::optional<int> rank) {
        if (!state.why.empty()) {
            auto& ranks = silent_[state.why];
            if (rank) ranks.insert(*rank);
            return;
        }
        if (!state.rank) return;
        waits_.add_rank(*state.rank);
        if (rank != state.rank) has_other_numbers_ = true;
        for (const TorchGroup& group : state.groups) {
            groups_[{group.backend, group.name, group.ranks}].add(*state.rank, group);
            if (group.backend == "gloo") records_messages_ = false;
            for (const TorchCall& call : group.open) {
                if (!call.point_to_point || !is_open_for_long(call)) continue;
                Messages& messages = messages_[text_of(call)];
                messages.seconds = std::max(messages.seconds, call.seconds);
                messages.ranks.insert(*state.rank);
                if (const auto peer = peer_in(call, *state.rank, group.ranks))
                    waits_.add_wait(*state.rank, *peer);
                else
                    waits_.add_wait_for_somebody(*state.rank);
            }
        }
    }

    // Whether the rank, which tells nothing, has a process.
    [[nodiscard]] bool has_silent_process(int rank) const {
        // Whose the silent processes are cannot be told if torch.distributed counts in another way.
        return has_other_numbers_ ? !silent_.empty() : processes_.contains(rank);
    }

    WaitGraph waits_;
    std::set<int> processes_;  // ranks by Slurm's numbers
    bool has_other_numbers_ = false;
    bool records_messages_ = true;
    // Groups of other ranks may have the same name.
    std::map<std::tuple<std::string, std::string, std::vector<int>>, Group> groups_;
    std::map<std::string, Messages> messages_;
    std::map<std::string, std::set<int>> silent_;
};

}  // namespace

std::string torch_text(const std::vector<NodeStacks>& nodes) {
    return Torch(nodes).text();
}

std::optional<int> rank_awaited_by_torch(const std::vector<NodeStacks>& nodes) {
    return Torch(nodes).awaited_rank();
}

}  // namespace batchai::visit
