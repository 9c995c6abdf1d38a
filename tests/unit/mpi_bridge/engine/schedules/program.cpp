// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <algorithm>
#include <functional>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace schedules {
namespace {

class Maker {
  public:
    explicit Maker(std::uint64_t seed) : random_(seed), devices_(~seed) {}

    Program make() {
        ranks_ = between(2, 8);
        program_.phases.resize(static_cast<std::size_t>(ranks_));
        program_.set_members.emplace_back();
        for (int rank = 0; rank < ranks_; ++rank)
            program_.set_members[0].push_back(rank);
        program_.first_bucket = chance(50) ? 64 : 1024;
        program_.other_buckets = chance(20) ? 0 : 1024;
        program_.names = chance(20) ? 6 : 4096;
        const int chapters = between(1, 4);
        for (int chapter = 0; chapter < chapters; ++chapter) {
            const int kind = between(0, 99);
            if (kind < 55)
                training(chapter, between(1, 8));
            else if (kind < 70)
                mismatch(chapter);
            else if (kind < 85)
                uneven_ends(chapter);
            else
                with_process_sets(chapter);
        }
        if (chance(15)) {
            program_.lost_rank = between(0, ranks_ - 1);
            program_.lost_after = between(0, 400);
        }
        return std::move(program_);
    }

  private:
    int between(int low, int high) {
        return std::uniform_int_distribution<int>(low, high)(random_);
    }
    bool chance(int percent) { return between(1, 100) <= percent; }

    Phase& new_phase(int rank) {
        auto& phases = program_.phases[static_cast<std::size_t>(rank)];
        phases.emplace_back();
        return phases.back();
    }

    // The requests of one step, the same on all ranks.
    std::vector<Operation> step_requests(const std::string& prefix, int set) {
        std::vector<Operation> requests;
        const int count = between(1, 6);
        const bool devices = devices_() % 2 == 0;
        for (int at = 0; at < count; ++at) {
            Operation one;
            one.set = set;
            one.name = fmt::format("{}{}", prefix, at);
            one.count = between(0, 40);
            if (chance(15)) one.kind = MPIB_BROADCAST;
            if (chance(10)) one.kind = MPIB_ALLGATHER;
            if (chance(10)) one.kind = MPIB_REDUCE_SCATTER;
            if (chance(10)) one.kind = MPIB_ALLTOALL;
            if (chance(5)) one.kind = MPIB_BARRIER;
            one.device = devices && one.kind != MPIB_BARRIER && devices_() % 4 != 0;
            requests.push_back(one);
        }
        if (count > 2 && chance(25)) {
            const auto grouped = static_cast<std::size_t>(between(2, count));
            for (std::size_t at = 0; at < grouped; ++at) {
                requests[at].kind = MPIB_ALLREDUCE;
                requests[at].group = prefix + "group";
                requests[at].group_size = static_cast<int>(grouped);
            }
        }
        return requests;
    }

    // Adds a step to the phase: the requests in any order, from one to three threads.
    void add_step(Phase& phase, std::vector<Operation> requests, int threads, bool shuffled) {
        if (shuffled) std::shuffle(requests.begin(), requests.end(), random_);
        if (phase.size() < static_cast<std::size_t>(threads))
            phase.resize(static_cast<std::size_t>(threads));
        std::vector<std::vector<Operation>> shares(static_cast<std::size_t>(threads));
        // A name belongs to one thread, which waits for it before it submits it again.
        for (const Operation& one : requests)
            shares[std::hash<std::string>()(one.name) % shares.size()].push_back(one);
        for (std::size_t at = 0; at < shares.size(); ++at) {
            Thread& thread = phase[at];
            for (const Operation& one : shares[at])
                thread.push_back(one);
            if (chance(50)) std::shuffle(shares[at].begin(), shares[at].end(), random_);
            for (Operation one : shares[at]) {
                one.what = Operation::What::wait;
                thread.push_back(one);
            }
        }
    }

    // Steps that repeat, and perhaps a changed program after them.
    void training(int chapter, int steps) {
        const auto requests = step_requests(fmt::format("c{}.", chapter), 0);
        const int threads = between(1, 3);
        const int disorder = chance(50) ? 0 : between(5, 60);
        // Requests of a named group must be in flight together, so one thread submits them all.
        const bool grouped = std::any_of(requests.begin(), requests.end(),
                                         [](const Operation& one) { return !one.group.empty(); });
        for (int rank = 0; rank < ranks_; ++rank) {
            Phase& phase = new_phase(rank);
            for (int step = 0; step < steps; ++step)
                add_step(phase, requests, grouped ? 1 : threads, chance(disorder));
        }
    }

    // One rank means something else by a name than the others, once.
    void mismatch(int chapter) {
        training(chapter, between(0, 4));
        auto requests = step_requests(fmt::format("c{}.", chapter), 0);
        for (Operation& one : requests)
            one.group.clear();
        const int other = between(0, ranks_ - 1);
        const auto which =
            static_cast<std::size_t>(between(0, static_cast<int>(requests.size()) - 1));
        requests[which].kind = MPIB_ALLREDUCE;
        program_.all_succeed = false;
        for (int rank = 0; rank < ranks_; ++rank) {
            auto own = requests;
            if (rank == other) own[which].count += 1;
            add_step(new_phase(rank), own, 1, chance(30));
        }
        training(chapter + 100, between(0, 4));
    }

    // Ranks that have less data than others join early.
    void uneven_ends(int chapter) {
        auto requests = step_requests(fmt::format("j{}.", chapter), 0);
        const bool others_too = chance(30);
        for (Operation& one : requests) {
            if (others_too) continue;
            one.kind = MPIB_ALLREDUCE;
        }
        const int most = between(1, 7);
        if (others_too) program_.all_succeed = false;
        for (int rank = 0; rank < ranks_; ++rank) {
            Phase& phase = new_phase(rank);
            const int steps = between(1, most);
            for (int step = 0; step < steps; ++step)
                add_step(phase, requests, 1, chance(10));
            Operation join;
            join.name = "mpib_join";
            join.kind = MPIB_JOIN;
            join.count = 0;
            Phase& end = new_phase(rank);
            end.push_back({join});
            join.what = Operation::What::wait;
            end.front().push_back(join);
        }
    }

    struct AddedSet {
        int number;
        std::vector<int> members;
        std::vector<Operation> requests;
    };

    // Chooses some of the ranks. They may be those of an earlier set, which cannot be added again.
    void add_set(std::vector<AddedSet>& added, const std::string& prefix) {
        std::vector<int> members;
        for (int rank = 0; rank < ranks_; ++rank) {
            if (chance(60)) members.push_back(rank);
        }
        if (members.empty() || static_cast<int>(members.size()) == ranks_) members = {0};
        auto& known = program_.set_members;
        if (std::find(known.begin(), known.end(), members) != known.end()) return;
        const int number = static_cast<int>(known.size());
        known.push_back(members);
        added.push_back({number, std::move(members), step_requests(prefix, number)});
    }

    // One or two process sets are added, used beside the world, and removed.
    void with_process_sets(int chapter) {
        std::vector<AddedSet> added;
        const int count = chance(50) ? 2 : 1;
        for (int at = 0; at < count; ++at)
            add_set(added, fmt::format("s{}.{}.", chapter, at));
        if (added.empty()) return;
        const auto world = step_requests(fmt::format("w{}.", chapter), 0);
        const int steps = between(1, 6);
        const bool grouped = std::any_of(world.begin(), world.end(),
                                         [](const Operation& one) { return !one.group.empty(); });
        const bool left_over = chance(30);
        if (left_over) program_.all_succeed = false;
        // The world goes on training while sets are added, and are removed.
        const bool goes_on = devices_() % 2 == 0;
        const auto beside = step_requests(fmt::format("b{}.", chapter), 0);
        const auto train = [&](Phase& phase) {
            Phase own;
            for (int step = 0; goes_on && step < 12; ++step)
                add_step(own, beside, 1, false);
            if (goes_on) phase.push_back(own.front());
        };
        // Takes rounds of negotiation, in which the training gets its plan.
        Operation pause;
        pause.name = fmt::format("p{}", chapter);
        pause.kind = MPIB_ALLGATHER;
        Operation end_of_pause = pause;
        end_of_pause.what = Operation::What::wait;
        const auto change_of = [](Operation::What what, const AddedSet& set) {
            Operation change;
            change.what = what;
            change.set = set.number;
            change.ranks = set.members;
            return change;
        };
        const bool last_first = chance(50);
        for (int rank = 0; rank < ranks_; ++rank) {
            Phase& adding = new_phase(rank);
            adding.emplace_back();
            for (int at = 0; goes_on && at < 6; ++at)
                adding.front().insert(adding.front().end(), {pause, end_of_pause});
            for (const AddedSet& set : added)
                adding.front().push_back(change_of(Operation::What::add_set, set));
            train(adding);

            Phase& phase = new_phase(rank);
            for (int step = 0; step < steps; ++step)
                add_step(phase, world, grouped ? 1 : 2, chance(20));
            for (const AddedSet& set : added) {
                if (std::find(set.members.begin(), set.members.end(), rank) == set.members.end())
                    continue;
                Phase own;
                for (int step = 0; step < steps; ++step)
                    add_step(own, set.requests, 1, chance(20));
                phase.push_back(own.front());
            }

            Phase& end = new_phase(rank);
            Thread& removing = end.emplace_back();
            for (const AddedSet& set : added)
                removing.push_back(change_of(Operation::What::remove_set, set));
            if (last_first) std::reverse(removing.begin(), removing.end());
            // Something that only one member has asked for is in flight when its set is removed.
            const AddedSet& first = added.front();
            if (left_over && first.members.size() > 1 && rank == first.members.front()) {
                Operation more = first.requests.front();
                more.group.clear();
                removing.insert(removing.begin(), more);
                more.what = Operation::What::wait;
                removing.push_back(more);
            }
            train(end);
        }
    }

    std::mt19937_64 random_;
    std::mt19937_64 devices_;  // of its own, so that seeds keep their schedules in all else
    int ranks_ = 0;
    Program program_;
};

}  // namespace

Program make_program(std::uint64_t seed) {
    return Maker(seed).make();
}

std::string shown(const Program& program) {
    std::string text;
    for (std::size_t rank = 0; rank < program.phases.size(); ++rank) {
        text += fmt::format("rank {}{}\n", rank,
                            program.lost_rank == static_cast<int>(rank)
                                ? fmt::format(" (lost after {} events)", program.lost_after)
                                : "");
        for (std::size_t phase = 0; phase < program.phases[rank].size(); ++phase) {
            for (const Thread& thread : program.phases[rank][phase]) {
                text += fmt::format("  phase {}:", phase);
                for (const Operation& one : thread) {
                    switch (one.what) {
                        case Operation::What::submit:
                            text += fmt::format(" {}({}:{}x{}{}{})", one.name, one.set,
                                                static_cast<int>(one.kind), one.count,
                                                one.device ? " device" : "",
                                                one.group.empty() ? "" : " of " + one.group);
                            break;
                        case Operation::What::wait:
                            text += fmt::format(" -{}", one.name);
                            break;
                        case Operation::What::add_set:
                            text += fmt::format(" +set{}[{}]", one.set, fmt::join(one.ranks, ","));
                            break;
                        case Operation::What::remove_set:
                            text += fmt::format(" -set{}", one.set);
                            break;
                    }
                }
                text += '\n';
            }
        }
    }
    return text;
}

}  // namespace schedules
