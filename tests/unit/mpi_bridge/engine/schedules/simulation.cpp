// SPDX-License-Identifier: Apache-2.0
#include "simulation.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "channel.hpp"
#include "engine/negotiation/member.hpp"
#include "engine/negotiation/round.hpp"

namespace schedules {
namespace {

using namespace mpi_bridge;
using Index = RequestTable::Index;

struct ProcessSet {
    explicit ProcessSet(const std::vector<int>& ranks)
        : members(ranks), control(ranks.size()), negotiated(ranks.size()), planned(ranks.size()) {}

    std::vector<int> members;
    Channel control;
    Channel negotiated;
    Channel planned;
};

// A rank as a member of a process set.
struct Node {
    Node(const std::shared_ptr<ProcessSet>& process_set, Member::Options options)
        : set(process_set),
          own(static_cast<std::size_t>(options.own)),
          member(std::move(options)),
          round(member) {}

    std::shared_ptr<ProcessSet> set;
    std::size_t own;
    Member member;
    Round round;
    std::optional<Step> step;  // of the round, in which the negotiation is
    std::optional<Member::Head> head;
    bool head_of_round = false;  // the round runs the head, to stop the plan
    bool over = false;
};

struct InFlight {
    int set;
    std::string name;
    std::shared_ptr<Node> node;
    Index index;
    int occurrence;
};

struct ThreadState {
    const Thread* thread = nullptr;
    std::size_t at = 0;
    std::vector<InFlight> in_flight;
    std::optional<InFlight> change;  // of process sets
};

struct Rank {
    std::map<int, std::shared_ptr<Node>> nodes;  // by the program's number of the set
    std::vector<std::shared_ptr<Node>> all;      // also those of removed sets
    std::size_t phase = 0;
    std::vector<ThreadState> threads;
    bool lost = false;
    bool failed = false;
    // What became of requests, by node and index, until a thread has seen it.
    std::map<std::pair<Node*, Index>, std::optional<Failure>> ended;
    std::map<std::tuple<int, std::string>, int> occurrences;
};

class Simulation {
  public:
    Simulation(const Program& program, std::uint64_t seed) : program_(program), random_(seed) {}

    Result run() {
        sets_[0] = std::make_shared<ProcessSet>(program_.set_members[0]);
        ranks_.resize(program_.phases.size());
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            join_set(static_cast<int>(rank), 0);
            begin_phase(rank);
        }
        while (result_.fault.empty() && !finished()) {
            if (++result_.events > 200'000) {
                result_.fault = "no end after 200,000 events";
                break;
            }
            lose_a_rank();
            if (!one_event()) result_.fault = "stuck: " + where_all_are();
        }
        if (result_.fault.empty()) check_ends();
        return result_;
    }

  private:
    using Event = std::function<void()>;

    int between(int low, int high) {
        return std::uniform_int_distribution<int>(low, high)(random_);
    }

    void join_set(int rank, int set) {
        const auto& process_set = sets_[set];
        Member::Options options;
        options.ranks = process_set->members;
        options.own = static_cast<int>(std::find(options.ranks.begin(), options.ranks.end(), rank) -
                                       options.ranks.begin());
        options.limits = {program_.first_bucket, program_.other_buckets};
        options.names = program_.names;
        auto node = std::make_shared<Node>(process_set, std::move(options));
        ranks_[static_cast<std::size_t>(rank)].nodes[set] = node;
        ranks_[static_cast<std::size_t>(rank)].all.push_back(node);
    }

    void begin_phase(std::size_t rank) {
        Rank& state = ranks_[rank];
        state.threads.clear();
        if (state.phase == program_.phases[rank].size()) return;
        for (const Thread& thread : program_.phases[rank][state.phase]) {
            state.threads.emplace_back();
            state.threads.back().thread = &thread;
        }
    }

    [[nodiscard]] bool program_over(std::size_t rank) const {
        return ranks_[rank].phase == program_.phases[rank].size();
    }
    [[nodiscard]] bool finished() const {
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            if (!ranks_[rank].lost && !program_over(rank)) return false;
        }
        return true;
    }

    void fault(std::string text) {
        if (result_.fault.empty()) result_.fault = std::move(text);
    }

    void lose_a_rank() {
        if (program_.lost_rank < 0 || result_.events != program_.lost_after) return;
        if (program_over(static_cast<std::size_t>(program_.lost_rank))) return;
        ranks_[static_cast<std::size_t>(program_.lost_rank)].lost = true;
        somebody_lost_ = true;
    }

    // Does one of the things that can happen next. False: nothing can.
    bool one_event() {
        std::vector<Event> events;
        // What a program waits for in vain for a while, it may stop waiting for.
        std::vector<Event> late;
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            Rank& state = ranks_[rank];
            if (state.lost) continue;
            add_thread_events(rank, events, late);
            for (const auto& node : state.all)
                add_node_events(rank, *node, events);
            if (somebody_lost_ && !state.failed) late.push_back([this, rank] { notice(rank); });
        }
        if (!late.empty() && (events.empty() || between(0, 19) == 0)) events = std::move(late);
        if (events.empty()) return false;
        events[static_cast<std::size_t>(between(0, static_cast<int>(events.size()) - 1))]();
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
            collect_completions(rank);
        return true;
    }

    void collect_completions(std::size_t rank) {
        for (const auto& node : ranks_[rank].all) {
            for (Completion& each : node->member.completions)
                ranks_[rank].ended[{node.get(), each.index}] = std::move(each.failure);
            node->member.completions.clear();
        }
    }

    // ---- The program ----

    void add_thread_events(std::size_t rank, std::vector<Event>& events, std::vector<Event>& late) {
        Rank& state = ranks_[rank];
        if (program_over(rank)) return;
        bool all_ended = true;
        for (ThreadState& thread : state.threads) {
            if (thread.at == thread.thread->size()) continue;
            all_ended = false;
            const Operation& next = (*thread.thread)[thread.at];
            if (can_do(state, thread, next))
                events.push_back([this, rank, &thread, &next] { carry_out(rank, thread, next); });
            else if (waits_in_vain(thread, next))
                late.push_back([this, &thread, &next] { tell_order(thread, next); });
        }
        if (all_ended) {
            events.push_back([this, rank] {
                ++ranks_[rank].phase;
                begin_phase(rank);
            });
        }
    }

    [[nodiscard]] static const InFlight* find(const ThreadState& thread, const Operation& one) {
        for (const InFlight& each : thread.in_flight) {
            if (each.set == one.set && each.name == one.name) return &each;
        }
        return nullptr;
    }

    [[nodiscard]] static bool can_do(Rank& state, const ThreadState& thread,
                                     const Operation& next) {
        if (next.what == Operation::What::submit) return true;
        if (next.what == Operation::What::wait) {
            const InFlight* const one = find(thread, next);
            return one == nullptr || state.ended.contains({one->node.get(), one->index});
        }
        return !thread.change ||
               state.ended.contains({thread.change->node.get(), thread.change->index});
    }

    [[nodiscard]] static bool waits_in_vain(const ThreadState& thread, const Operation& next) {
        const InFlight* const one =
            next.what == Operation::What::wait ? find(thread, next) : nullptr;
        if (one == nullptr) return false;
        Member& member = one->node->member;
        return member.requests.at(one->index).planned && !member.wants_to_leave &&
               member.plan.starves();
    }
    static void tell_order(const ThreadState& thread, const Operation& next) {
        find(thread, next)->node->member.order_has_changed();
    }

    void carry_out(std::size_t rank, ThreadState& thread, const Operation& next) {
        Rank& state = ranks_[rank];
        switch (next.what) {
            case Operation::What::submit:
                submit(rank, thread, next);
                ++thread.at;
                return;
            case Operation::What::wait:
                if (const InFlight* const one = find(thread, next)) {
                    const InFlight done = *one;
                    std::erase_if(thread.in_flight, [&](const InFlight& each) {
                        return each.set == done.set && each.name == done.name;
                    });
                    note_end(state, done);
                }
                ++thread.at;
                return;
            default:
                change_sets(rank, thread, next);
        }
    }

    void submit(std::size_t rank, ThreadState& thread, const Operation& next) {
        Rank& state = ranks_[rank];
        const auto node = state.nodes.find(next.set);
        const int occurrence = ++state.occurrences[{next.set, next.name}];
        if (node == state.nodes.end()) {
            // The set could not be added, because a rank was lost.
            outcomes_[{next.set, next.name, occurrence}].insert(MPIB_ERROR_PEER_LOST);
            return;
        }
        mpib_operation operation{};
        operation.struct_bytes = sizeof operation;
        operation.kind = next.kind;
        operation.name = next.name.c_str();
        operation.shape = &next.count;
        operation.dimensions = 1;
        operation.datatype = MPIB_FLOAT32;
        operation.group = next.group.empty() ? nullptr : next.group.c_str();
        operation.group_size = next.group_size;
        operation.root = node->second->set->members.front();
        const auto submission = node->second->member.submit(operation, Clock::time_point());
        if (!submission) {
            outcomes_[{next.set, next.name, occurrence}].insert(submission.error().status);
            if (!somebody_lost_) fault("a submission is refused: " + submission.error().text);
            return;
        }
        thread.in_flight.push_back(
            {next.set, next.name, node->second, submission->index, occurrence});
    }

    void note_end(Rank& state, const InFlight& one) {
        const auto found = state.ended.find({one.node.get(), one.index});
        const auto& failure = found->second;
        outcomes_[{one.set, one.name, one.occurrence}].insert(failure ? failure->status : MPIB_OK);
        if (failure && failure->status != MPIB_ERROR_PEER_LOST && program_.all_succeed)
            fault("a request fails: " + failure->text);
        state.ended.erase(found);
        one.node->member.saw_end(one.index);
        one.node->member.release(one.index);
    }

    void change_sets(std::size_t rank, ThreadState& thread, const Operation& next) {
        Rank& state = ranks_[rank];
        Member& world = state.nodes[0]->member;
        if (!thread.change) {
            Descriptor change;
            change.kind = next.what == Operation::What::add_set ? Kind::add_process_set
                                                                : Kind::remove_process_set;
            change.shape.assign(next.ranks.begin(), next.ranks.end());
            change.shape.push_back(next.set);
            const auto submission = world.submit(change, Clock::time_point());
            if (!submission) {
                if (!somebody_lost_) fault("a change is refused: " + submission.error().text);
                ++thread.at;
                return;
            }
            thread.change = InFlight{0, {}, state.nodes[0], submission->index, 0};
            return;
        }
        const auto found = state.ended.find({state.nodes[0].get(), thread.change->index});
        const bool well = !found->second;
        state.ended.erase(found);
        world.saw_end(thread.change->index);
        world.release(thread.change->index);
        thread.change.reset();
        ++thread.at;
        if (!well && !somebody_lost_) fault("a change of process sets fails");
    }

    // What all ranks do when they run the change that they have agreed on.
    void run_change(std::size_t rank, const Descriptor& change) {
        Rank& state = ranks_[rank];
        const int set = static_cast<int>(change.shape.back());
        if (change.kind == Kind::remove_process_set) {
            const auto node = state.nodes.find(set);
            if (node == state.nodes.end()) return;
            node->second->member.close();
            state.nodes.erase(node);
            return;
        }
        const std::vector<int> members(change.shape.begin(), change.shape.end() - 1);
        if (!sets_.contains(set)) sets_[set] = std::make_shared<ProcessSet>(members);
        if (std::find(members.begin(), members.end(), static_cast<int>(rank)) != members.end())
            join_set(static_cast<int>(rank), set);
    }

    // ---- The engine ----

    void add_node_events(std::size_t rank, Node& node, std::vector<Event>& events) {
        if (node.over) return;
        ProcessSet& set = *node.set;
        if (!node.head && node.member.plan.can_run())
            events.push_back([this, &node] { start_head(node); });
        if (node.head && set.planned.answer(node.own))
            events.push_back([this, &node] { end_head(node); });
        if (!node.step) {
            if (node.member.has_news() || set.control.begun())
                events.push_back([this, rank, &node] { take(rank, node, node.round.begin()); });
            return;
        }
        if (std::holds_alternative<StopPlan>(*node.step)) {
            if (!node.member.plan.busy)
                events.push_back([this, rank, &node] { stop_plan(rank, node); });
            return;
        }
        Channel& channel =
            std::holds_alternative<RunGroup>(*node.step) ? set.negotiated : set.control;
        if (channel.answer(node.own))
            events.push_back([this, rank, &node, &channel] { step_done(rank, node, channel); });
    }

    void start_head(Node& node) {
        node.member.start_head(node.head.emplace());
        Call call{.whole = node.head->whole};
        for (const PlannedGroup& group : node.head->bucket->groups)
            call.contents += fmt::format("{} of {} tensors at {};", group.label, group.ids.size(),
                                         node.member.plan.agreement());
        node.set->planned.call(node.own, std::move(call));
        complete(node.set->planned);
    }

    void end_head(Node& node) {
        const bool whole = node.set->planned.answer(node.own)->whole;
        node.set->planned.answer(node.own).reset();
        node.member.finish_head(*node.head, whole);
        node.head.reset();
        if (whole) ++result_.planned;
    }

    void stop_plan(std::size_t rank, Node& node) {
        if (node.member.plan.started() < std::get<StopPlan>(*node.step).started) {
            start_head(node);
            return;
        }
        advance(rank, node, node.round.plan_stopped(Clock::time_point()));
    }

    void step_done(std::size_t rank, Node& node, Channel& channel) {
        const Answer answer = std::move(*channel.answer(node.own));
        channel.answer(node.own).reset();
        const Step step = std::move(*node.step);
        if (std::holds_alternative<CallTogether>(step)) {
            advance(rank, node, node.round.called_together());
        } else if (std::holds_alternative<Reduce>(step)) {
            const bool had_plan = node.member.plan.active();
            advance(rank, node, node.round.reduced(answer.words));
            if (!had_plan && node.member.plan.active()) ++result_.plans;
        } else if (std::holds_alternative<Gather>(step)) {
            advance(rank, node, node.round.gathered(answer.bytes));
        } else {
            const auto& run = std::get<RunGroup>(step);
            const Descriptor& what = node.member.names.at(run.group.ids.front()).descriptor;
            if (what.kind == Kind::add_process_set || what.kind == Kind::remove_process_set)
                run_change(rank, Descriptor(what));
            advance(rank, node, node.round.group_done(run, {}, false, Clock::time_point()));
        }
    }

    void advance(std::size_t rank, Node& node, Outcome<Step> next) {
        if (!next) {
            fault("a round fails: " + next.error().text);
            return;
        }
        take(rank, node, std::move(*next));
    }

    void take(std::size_t rank, Node& node, Step step) {
        node.step = std::move(step);
        if (const auto* const over = std::get_if<RoundOver>(&*node.step)) {
            if (over->closed) {
                node.over = true;
                node.member.fail({MPIB_ERROR_INVALID_ARGUMENT, "the process set was removed"});
            }
            node.step.reset();
            return;
        }
        Call call;
        if (std::holds_alternative<StopPlan>(*node.step)) return;
        if (std::holds_alternative<CallTogether>(*node.step)) {
            call.contents = "call together";
        } else if (const auto* const reduce = std::get_if<Reduce>(&*node.step)) {
            call.contents = reduce->what;
            call.words = reduce->words;
        } else if (const auto* const gather = std::get_if<Gather>(&*node.step)) {
            call.contents = gather->what;
            call.bytes = gather->bytes;
        } else {
            const auto& run = std::get<RunGroup>(*node.step);
            for (const auto id : run.group.ids) {
                const auto& record = node.member.names.at(id);
                call.contents +=
                    fmt::format("{} {};", record.name, elements_or_none(record.descriptor));
            }
            for (std::size_t at = 0; at < run.requests.size(); ++at) {
                if (run.requests[at] == RequestTable::none && !node.member.joined)
                    fault(fmt::format("rank {} runs {} without a tensor", rank, call.contents));
            }
        }
        Channel& channel =
            std::holds_alternative<RunGroup>(*node.step) ? node.set->negotiated : node.set->control;
        channel.call(node.own, std::move(call));
        complete(channel);
    }

    [[nodiscard]] static std::int64_t elements_or_none(const Descriptor& what) {
        return what.kind == Kind::allgather || what.kind > Kind::join
                   ? -1
                   : static_cast<std::int64_t>(elements(what));
    }

    void complete(Channel& channel) {
        if (auto wrong = channel.complete_if_all_called(); !wrong.empty()) fault(std::move(wrong));
    }

    // ---- Loss ----

    // The rank has noticed, or heard, that another is lost: all that it does ends with that.
    void notice(std::size_t rank) {
        Rank& state = ranks_[rank];
        state.failed = true;
        const Failure failure{MPIB_ERROR_PEER_LOST,
                              fmt::format("lost rank {}", program_.lost_rank)};
        for (const auto& node : state.all) {
            if (node->over) continue;
            node->member.fail(failure);
            if (node->head) node->member.finish_head(*node->head, tl::unexpected(failure));
            if (node->step) {
                if (const auto* const run = std::get_if<RunGroup>(&*node->step))
                    static_cast<void>(node->round.group_done(*run, tl::unexpected(failure), false,
                                                             Clock::time_point()));
            }
            node->head.reset();
            node->step.reset();
            node->over = true;
        }
    }

    // ---- The end ----

    void check_ends() {
        for (const auto& [which, statuses] : outcomes_) {
            const bool may_differ = statuses.contains(MPIB_ERROR_PEER_LOST) && somebody_lost_;
            if (statuses.size() == 1 || may_differ) continue;
            std::string text;
            for (const int status : statuses)
                text += fmt::format(" {}", status);
            fault(fmt::format("request {} of \"{}\" in set {} ended differently:{}",
                              std::get<2>(which), std::get<1>(which), std::get<0>(which), text));
        }
    }

    [[nodiscard]] std::string where_all_are() const {
        std::string text;
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            const Rank& state = ranks_[rank];
            text += fmt::format("\n  rank {}: phase {}{}", rank, state.phase,
                                state.lost ? ", lost" : "");
            for (const ThreadState& thread : state.threads) {
                if (thread.at != thread.thread->size())
                    text +=
                        fmt::format(", at {} ({})", thread.at, (*thread.thread)[thread.at].name);
            }
            for (const auto& node : state.all) {
                if (node->over) continue;
                const PlannedOrder& plan = node->member.plan;
                text +=
                    fmt::format("; set of {}: step {}, plan {} started {} finished {}{}{}{}",
                                node->set->members.size(),
                                node->step ? static_cast<int>(node->step->index()) : -1,
                                plan.active() ? "active" : "none", plan.started(), plan.finished(),
                                plan.busy ? " busy" : "", plan.frozen ? " frozen" : "",
                                node->member.has_news() ? " news" : "");
            }
        }
        return text;
    }

    const Program& program_;
    std::mt19937_64 random_;
    Result result_;
    std::map<int, std::shared_ptr<ProcessSet>> sets_;
    std::vector<Rank> ranks_;
    bool somebody_lost_ = false;
    std::map<std::tuple<int, std::string, int>, std::set<int>> outcomes_;
};

}  // namespace

Result simulate(const Program& program, std::uint64_t seed) {
    return Simulation(program, seed).run();
}

}  // namespace schedules
