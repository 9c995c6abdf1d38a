// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "record/elastic_files.hpp"
#include "record/rank_logs.hpp"
#include "run/blame/culprit.hpp"
#include "run/context.hpp"

namespace batchai::run {

// Lets the ranks of an elastic job go on in their processes when some of them are lost, if the job
// wants that. The ranks that are left ask, and this answers: only here it is known which tasks have
// ended, so two parts of a torn network cannot both go on. If they do not ask, or must not go on,
// the step has to end, as Slurm would have ended it at once. It is of one start of the ranks.
class RankLosses {
  public:
    using Clock = std::chrono::steady_clock;
    // Returns those of the nodes that do not answer now, though others do. May take as long as
    // NodeDaemons::longest_answer.
    using Silent = std::function<std::vector<std::string>(const std::vector<std::string>&)>;

    // How long ranks that can go on may take to ask, once one of them has ended badly.
    static constexpr std::chrono::seconds longest_silence{60};
    // How long a question waits for Slurm's word that the lost tasks have ended.
    static constexpr std::chrono::seconds longest_doubt{20};
    // Nobody may be lost as far as srun knows.
    static constexpr std::chrono::milliseconds between_looks_without_loss{1000};
    // A node whose ranks others have lost is dead if it does not answer so many times in a row.
    static constexpr int least_silences = 2;
    // After ranks have said that they end, for srun to hear of it.
    static constexpr std::chrono::seconds end_of_ranks{3};

    RankLosses(Context& context, record::RankPlaces places, TaskWords words, Silent silent);

    // As Context::keeps_processes().
    [[nodiscard]] bool are_outlived() const { return on_; }

    // Must be called some times a second while the step runs. `messages` are what srun has said so
    // far, and `dead` the nodes that are dead.
    void poll(std::string_view messages, const std::vector<std::string>& dead,
              Clock::time_point now = Clock::now());

    // Whether ranks are said to be lost of which nothing else is known.
    [[nodiscard]] bool are_doubtful() const { return are_doubtful_; }
    // Whether the step has to end, because of a loss that the other ranks do not outlive.
    [[nodiscard]] bool must_end() const { return must_end_; }
    // How many ranks are lost without which the others have gone on.
    [[nodiscard]] std::size_t count() const { return lost_.size(); }
    // Nodes that were found dead, and without which ranks have gone on. srun waits for the tasks
    // there until Slurm gives the nodes up.
    [[nodiscard]] std::vector<std::string> dead_nodes() const {
        return {dead_.begin(), dead_.end()};
    }
    // Whether, for some time, only tasks on dead nodes have been waited for, as the others say.
    [[nodiscard]] bool others_have_ended() const { return others_have_ended_; }
    // Returns the messages without what they say about tasks that the others have outlived.
    [[nodiscard]] std::string without_lost(std::string_view messages) const;
    // Has the step that has ended look as if there had not been the tasks that the others have
    // outlived. An exit code that these do not explain stays.
    void leave_out_lost(StepResult& result) const;

  private:
    struct Asked {
        std::string number;
        Clock::time_point since;
    };

    [[nodiscard]] bool has_ended(int task) const;
    [[nodiscard]] bool have_others_said_that_they_end() const;
    [[nodiscard]] bool is_explained(const StepResult& result) const;
    [[nodiscard]] bool is_open() const;
    void note_dead_nodes(const std::vector<std::string>& dead);
    void look_whether_ranks_have_ended(Clock::time_point now);
    void note_silent_nodes(const record::RanksLost& question);
    // Returns why the ranks must not go on; empty: they may. Nothing: not known yet.
    [[nodiscard]] std::optional<std::string> judged(const record::RanksLost& question,
                                                    Clock::time_point now);
    void go_on(const record::RanksLost& question);
    void end(const std::string& why);
    [[nodiscard]] record::Failure failure_of(const std::vector<int>& lost) const;
    [[nodiscard]] const std::string& node_of(int task) const;

    Context& context_;
    record::RankPlaces places_;
    TaskWords words_;
    Silent silent_;
    bool on_;
    std::size_t read_ = 0;       // bytes of the messages
    std::string open_messages_;  // without those about tasks that the others have outlived
    std::vector<TaskEnd> ends_;  // in these
    std::set<int> lost_;         // without which the others have gone on
    std::set<std::string> dead_;
    std::set<std::string> newly_dead_;  // without which they have not gone on yet
    std::map<std::string, int> silences_;
    std::optional<Clock::time_point> open_since_;
    std::optional<Asked> asked_;  // the question that waits for its answer
    Clock::time_point next_look_{};
    std::string answered_;  // the number of the latest question that was answered
    std::optional<Clock::time_point> ended_since_;  // all ranks that are left
    bool others_have_ended_ = false;
    bool are_doubtful_ = false;
    bool must_end_ = false;
};

}  // namespace batchai::run
