// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "node.hpp"
#include "program.hpp"
#include "shared.hpp"

namespace schedules {

// A rank that carries out its part of the program, with a node for each process set it is in.
class Rank {
  public:
    Rank(int number, Shared& shared);
    // Its events refer to it.
    Rank(const Rank&) = delete;
    Rank& operator=(const Rank&) = delete;
    ~Rank() = default;

    [[nodiscard]] bool lost() const { return lost_; }
    void lose() { lost_ = true; }
    [[nodiscard]] bool program_over() const { return phase_ == phases().size(); }

    // Adds what can happen next. What it waits for in vain for a while, it may stop waiting for:
    // that is in `late`.
    void add_events(std::vector<Event>& events, std::vector<Event>& late);
    // Takes what has become of requests from the nodes.
    void collect_completions();
    // Returns where the rank is, for a message.
    [[nodiscard]] std::string where() const;

  private:
    using Index = mpi_bridge::RequestTable::Index;

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

    [[nodiscard]] const std::vector<Phase>& phases() const {
        return shared_.program.phases[static_cast<std::size_t>(number_)];
    }
    void join_set(int set);
    void begin_phase();
    void add_thread_events(std::vector<Event>& events, std::vector<Event>& late);
    [[nodiscard]] static const InFlight* find(const ThreadState& thread, const Operation& one);
    [[nodiscard]] bool has_ended(const InFlight& one) const;
    [[nodiscard]] bool can_do(const ThreadState& thread, const Operation& next) const;
    [[nodiscard]] static bool waits_in_vain(const ThreadState& thread, const Operation& next);
    void carry_out(ThreadState& thread, const Operation& next);
    void submit(ThreadState& thread, const Operation& next);
    void wait(ThreadState& thread, const Operation& next);
    void note_end(const InFlight& one);
    void begin_change(ThreadState& thread, const Operation& next);
    void end_change(ThreadState& thread);
    // What all ranks do when they run the change that they have agreed on.
    void run_change(const mpi_bridge::Descriptor& change);
    // The rank has noticed, or heard, that another is lost: all that it does ends with that.
    void notice_loss();

    int number_;
    Shared& shared_;
    std::map<int, std::shared_ptr<Node>> nodes_;  // by the program's number of the set
    std::vector<std::shared_ptr<Node>> all_;      // also those of removed sets
    std::size_t phase_ = 0;
    std::vector<ThreadState> threads_;
    bool lost_ = false;
    bool failed_ = false;
    // What became of requests, by node and index, until a thread has seen it.
    std::map<std::pair<Node*, Index>, std::optional<mpi_bridge::Failure>> ended_;
    std::map<std::tuple<int, std::string>, int> occurrences_;
};

}  // namespace schedules
