// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.hpp"
#include "engine/agreement.hpp"
#include "engine/device_execution.hpp"
#include "engine/device_lane.hpp"
#include "engine/engine.hpp"
#include "engine/entry.hpp"
#include "engine/entry_table.hpp"
#include "engine/execution.hpp"
#include "engine/lane.hpp"
#include "engine/ledger.hpp"
#include "engine/recorder.hpp"
#include "engine/workspace.hpp"
#include "trace/stall.hpp"

namespace mpi_bridge {

// What an ensemble needs of the engine it belongs to.
class EnsembleHost {
  public:
    virtual ~EnsembleHost() = default;
    EnsembleHost() = default;
    EnsembleHost(const EnsembleHost&) = delete;
    EnsembleHost& operator=(const EnsembleHost&) = delete;

    [[nodiscard]] virtual const EngineParts& parts() const = 0;
    // Fails all ensembles. No lock of any ensemble may be held.
    virtual void fail_all(const Failure& failure) = 0;
    // There is no other ensemble.
    [[nodiscard]] virtual bool only_one() const = 0;
    // Does on this rank what all ranks have agreed to do; the id of the set.
    [[nodiscard]] virtual Outcome<int> change_process_sets(const Descriptor& change) = 0;
};

// The part of the engine that serves one process set: its names, how its members agree, and what
// they run.
//
// Three lanes, each with a communicator of its own:
//
//   control     rounds in which the members tell each other what is new. A rank enters the next
//               round when it has news, or when another member has begun it; see
//               ensemble_rounds.cpp.
//   negotiated  runs what a round has found submitted on all members, in the order that follows
//               from the round. Both by one thread, the conductor: round, run, round, run. All
//               members do the same sequence, so none waits for one that waits for it.
//   planned     runs the plan's items in the plan's order, each as soon as this rank has submitted
//               all of it, without any round; see lane.hpp. Worked by whoever finds the head ready
//               and the lane idle: a thread in wait(), or the lane's own.
//
// Leaving the plan. A rank can get stuck in the planned lane: it has started item p, and another
// member does not submit p's tensors before something later than p is done, because its program's
// order has changed, because it has joined, or because it now means something else by the name.
// That member asks to leave the plan, in a control round; conductors are never blocked by the
// planned lane, so the round takes place. In it (1) every member stops starting items and tells how
// many it has started; the largest number is M. No member has started M+1, since to start an item
// one must have finished all before it, which takes every member. (2) Members that have not started
// item M do so at once, whether or not they have all its tensors: the head of each item says
// whether all have, and if not, nobody's item is executed and its tensors stay as they were. So
// whoever was stuck comes free. (3) All tensors that wait are negotiated, and a new plan is
// recorded.
//
// Device memory. There is one DeviceGroup for all lanes, because two that use one device at once
// can block each other; and its members must put the same operations into it in the same order.
// What one lane runs is in the same order on all members, but two lanes have no order between them.
// So when a round has found an operation on device memory, and the plan has such operations too,
// the members pause the plan as if to leave it, (1) and (2) above, run the operation, and go on
// with the plan. To put an operation into the group waits for no other member, but when the group
// makes connections, in which all are at that time; where the group goes through host memory, a
// thread of its own does, in a fifth channel and in the group's order, and waits for nothing else.
// On the device an operation waits for what its stream held at its submission, and a stream waits
// for operations only once they are in the group: so all waiting is for what is earlier in the
// group.
//
// Any thread may call any function. One mutex guards all state; it is never held across a
// collective, a wait, or fail_all(). The conductor is woken under it, which is safe because what
// the transport asks in return, Communicator::next_call()'s `stop`, takes no lock.
class Ensemble {
  public:
    Ensemble(EnsembleHost& host, int process_set, std::uint32_t number, Group group);
    ~Ensemble();  // stop() and ended() come first
    Ensemble(const Ensemble&) = delete;
    Ensemble& operator=(const Ensemble&) = delete;

    [[nodiscard]] const Group& group() const { return group_; }
    [[nodiscard]] int process_set() const { return process_set_; }

    // The operation must have passed check_operation().
    [[nodiscard]] Outcome<mpib_handle> submit(const mpib_operation& operation);
    [[nodiscard]] std::optional<bool> poll(const Handle& handle);
    [[nodiscard]] Done wait(const Handle& handle, double seconds);
    [[nodiscard]] Outcome<mpib_result> result(const Handle& handle);
    [[nodiscard]] Done release(const Handle& handle);
    [[nodiscard]] Done call(const mpib_operation& operation);

    // A change of process sets, which all ranks must agree on; waits for it.
    [[nodiscard]] Outcome<int> change_process_sets(const Descriptor& change);

    // Starts the conductor, unless it runs.
    void start();
    // Ends when all members have called this. Blocks until then.
    void close();

    // Ends everything with this failure; what runs ends when its communicator fails.
    void abandon(const Failure& failure);
    // The same, but what runs is left to end well.
    void stop(const Failure& failure);
    // Waits until no thread of the ensemble is left, and nobody runs a collective. False: too late.
    [[nodiscard]] bool ended(Deadline deadline);

  private:
    using Lock = std::unique_lock<std::mutex>;
    using Index = EntryTable::Index;

    // Items up to this length are small: what waking a thread costs is more than they cost.
    static constexpr std::size_t small_item_bytes = 64UL * 1024;

    // Whom a submission concerns; told after the lock is given up.
    struct Concerned {
        bool conductor = false;
        bool lane = false;
        bool sleepers = false;
    };
    struct Report;

    // ensemble.cpp
    [[nodiscard]] Outcome<Index> enter(const mpib_operation& operation, DeviceNote note,
                                       Concerned& concerned);
    [[nodiscard]] Outcome<Index> claim_name(const mpib_operation& operation);
    void put_in_line(Entry& entry, Concerned& concerned);
    void tell(const Concerned& concerned);
    void finish(Entry& entry, const Done& done);
    void finish_all_waiting(const Failure& failure);
    void give_free(Index index);
    void reconsider(Entry& entry);
    void end_with(const Failure& failure, bool abandon);
    [[nodiscard]] Handle handle_of(Index index);
    [[nodiscard]] Done outcome_of(const Entry& entry) const;
    [[nodiscard]] Done open(std::unique_ptr<Communicator>& communicator, Channel::Lane lane);
    [[nodiscard]] std::string described(const Entry& entry) const;
    [[nodiscard]] Seconds timeout() const { return host_.parts().timeout(); }
    [[nodiscard]] Trace& trace() const { return *host_.parts().trace; }
    [[nodiscard]] Activity shown(const Entry& entry, Phase phase) const;

    // ensemble_wait.cpp
    [[nodiscard]] bool await(Lock& lock, const Handle& handle, double seconds);
    [[nodiscard]] bool await_a_little(Lock& lock, const Handle& handle);
    [[nodiscard]] Clock::time_point next_look(const Entry& entry, Clock::time_point now);
    void watch_order(const Entry& entry, Clock::time_point now);
    [[nodiscard]] Failure too_late(const Entry& entry) const;

    // ensemble_lane.cpp
    void run_head(Lock& lock, bool whole);
    [[nodiscard]] Outcome<bool> run_spot(Lane::Spot& spot, bool whole);
    [[nodiscard]] Outcome<bool> all_whole(std::string_view label, bool whole);
    void gather_tensors(const Lane::Tensors& part, std::size_t first_entry, bool whole);
    void work_lane();
    void hand_over_lane();

    // ensemble_device.cpp
    [[nodiscard]] DeviceLane::Options device_options() const;
    [[nodiscard]] Outcome<DeviceNote> admit_device(const mpib_operation& operation);
    [[nodiscard]] Done open_devices();
    [[nodiscard]] Done run_negotiated_on_device(const Communicator::Call& call, const Part& part,
                                                const std::vector<Entry*>& entries,
                                                const Descriptor& what);
    [[nodiscard]] Done run_planned_on_device(const Lane::Tensors& part, std::size_t first_entry);
    [[nodiscard]] Done wait_on_device(Lock& lock, const Entry& entry, double seconds);
    [[nodiscard]] bool poll_on_device(Lock& lock, const DeviceTicket& ticket);
    [[nodiscard]] Done watch_devices();
    [[nodiscard]] Seconds until_device_look(Seconds otherwise) const;
    void part_from_devices();

    // ensemble_rounds.cpp
    void conduct();
    void conduct_rounds();
    [[nodiscard]] bool has_news();
    [[nodiscard]] Done round();
    [[nodiscard]] Report collect();
    [[nodiscard]] Done check_settings(const Report& report) const;
    [[nodiscard]] Done hear(const Report& report);
    void heard(Ledger::Id id);
    [[nodiscard]] Done count_joined();
    void complete_join();
    [[nodiscard]] std::vector<Ledger::Id> find_ready(const Report& report);
    void settle_open(std::vector<Ledger::Id>& ready);
    void refuse_while_joined(std::vector<Ledger::Id>& ready);
    void hold_back_groups(std::vector<Ledger::Id>& ready) const;

    // ensemble_run.cpp
    [[nodiscard]] Done run_ready(const std::vector<Ledger::Id>& ready);
    [[nodiscard]] Done run_agreed_order(const std::vector<Ledger::Id>& ready);
    [[nodiscard]] Done run_part(const Part& part);
    [[nodiscard]] Done run_agreed(const Part& part, const std::vector<Entry*>& entries,
                                  const Descriptor& what);
    void forget_names();

    // ensemble_plan.cpp
    [[nodiscard]] Done consider_plan();
    [[nodiscard]] Done consider_growth();
    [[nodiscard]] std::vector<Sequenced> choose_planned(
        const std::vector<Recorder::Execution>& step) const;
    [[nodiscard]] std::vector<Lane::Spot> make_spots(const std::vector<Sequenced>& sequence) const;
    void adopt(std::vector<Lane::Spot> spots);
    // `asked`: by a member that needs it.
    [[nodiscard]] Done leave_plan(bool asked);
    [[nodiscard]] Done pause_plan();
    void resume_plan();
    [[nodiscard]] Done stop_together(std::string_view step, std::span<Word> words, Lock& lock);
    void want_to_leave();

    // ensemble_stall.cpp
    [[nodiscard]] Deadline next_stall_look();
    [[nodiscard]] bool look_for_stalls();
    [[nodiscard]] Seconds oldest_age(Clock::time_point now);
    [[nodiscard]] Done ask_who();
    [[nodiscard]] std::string pending_text(Clock::time_point now, Seconds at_least);

    EnsembleHost& host_;
    const int process_set_;
    const std::uint32_t number_;
    const Group group_;

    std::mutex mutex_;
    std::condition_variable changed_;    // an operation is done, the lane is idle, a thread ended
    std::condition_variable lane_work_;  // for the lane's thread
    EntryTable table_;
    Lane lane_;
    std::optional<Failure> failure_;  // what every operation from now on fails with
    std::uint64_t submissions_ = 0;
    std::uint64_t observed_ = 0;  // serial number of the latest execution whose end was seen
    std::uint64_t unnamed_[MPIB_KIND_COUNT] = {};
    Clock::time_point progress_;  // when an operation was last done
    int blocked_ = 0;             // threads that sleep in wait()
    bool joined_here_ = false;
    bool wants_to_leave_ = false;
    bool order_changed_ = false;   // ... because what comes first in the plan did not come
    bool lane_naps_ = false;       // its thread will look by itself soon
    std::uint64_t napped_at_ = 0;  // the position at which it looked last
    bool lane_ended_ = true;
    bool conductor_ended_ = true;
    bool asks_who_ = false;  // what waits for whom; see ensemble_stall.cpp
    bool closing_ = false;
    std::uint64_t watched_position_ = 0;  // see watch_order()
    std::size_t watched_missing_ = 0;
    Clock::time_point watched_since_;
    Seconds plan_patience_;

    std::atomic<bool> news_{false};     // the conductor should look
    std::atomic<bool> ending_{false};   // threads should end
    std::atomic<bool> started_{false};  // there is a conductor

    // Of the conductor, but for find() and at() of the ledger, which others do under the mutex, and
    // the conductor changes it only under the mutex.
    Ledger ledger_;
    Recorder recorder_;
    std::uint64_t serial_ = 0;
    std::uint64_t steps_beside_plan_ = 0;
    std::uint64_t steps_to_grow_ = 4;
    std::vector<std::uint64_t> joined_;  // bit per member
    bool joined_reported_ = false;
    int last_joined_ = -1;
    bool closed_ = false;
    Clock::time_point latest_round_;
    StallWatch stall_watch_;

    // Each used by one thread at a time; made, and abandoned, under the mutex.
    std::unique_ptr<Communicator> control_;
    std::unique_ptr<Communicator> negotiated_;
    std::unique_ptr<Communicator> planned_;
    Workspace negotiated_workspace_;
    Workspace planned_workspace_;
    std::optional<Execution> planned_execution_;
    DeviceLane devices_;  // used by whoever runs a lane, one after the other; see above
    std::optional<DeviceExecution> device_execution_;

    std::thread conductor_;
    std::thread lane_thread_;
};

}  // namespace mpi_bridge
