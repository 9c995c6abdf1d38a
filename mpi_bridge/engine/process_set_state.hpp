// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "core/group.hpp"
#include "engine/engine.hpp"
#include "engine/entry.hpp"
#include "engine/negotiation/member.hpp"
#include "engine/negotiation/round.hpp"

namespace mpi_bridge {

// What the engine of a process set needs of the engine of the process.
class EngineHost {
  public:
    virtual ~EngineHost() = default;
    EngineHost() = default;
    EngineHost(const EngineHost&) = delete;
    EngineHost& operator=(const EngineHost&) = delete;

    [[nodiscard]] virtual const EngineParts& parts() const = 0;
    // Fails all process sets. No lock of any process set may be held.
    virtual void fail_all(const Failure& failure) = 0;
    // There is no process set but the world.
    [[nodiscard]] virtual bool only_one() const = 0;
    // Does on this rank what all ranks have agreed to do. Returns the id of the set.
    [[nodiscard]] virtual Outcome<int> change_process_sets(const Descriptor& change) = 0;
};

// What the threads of a process set share: the state machines, and the operations they are about.
// The mutex guards all of it but the atomics. It is never held across a collective, a wait, or
// fail_all().
struct ProcessSetState {
    using Lock = std::unique_lock<std::mutex>;
    using Index = RequestTable::Index;

    ProcessSetState(EngineHost& engine, int id, Group members);

    [[nodiscard]] Entry& entry(Index index) { return entries[index]; }
    // Returns the entry in use under this handle, or null.
    [[nodiscard]] Entry* find(const Handle& handle);
    // Ends the operations that the state machines have ended. To be called after each event that
    // may end some.
    void take_completions();

    [[nodiscard]] Seconds timeout() const { return host.parts().timeout(); }
    [[nodiscard]] Trace& trace() const { return *host.parts().trace; }
    [[nodiscard]] Activity shown(const OwnRequest& request, Phase phase) const;
    [[nodiscard]] Activity shown(Phase phase) const;

    EngineHost& host;
    const int process_set;
    const Group group;

    std::mutex mutex;
    std::condition_variable changed;  // an operation is done, the lane is idle, a thread ended
    Member member;
    Round round;
    std::deque<Entry> entries;   // by the index of their requests
    Clock::time_point progress;  // when an operation was last done
    int sleepers = 0;            // threads that wait for `changed`

    std::atomic<bool> news{false};    // the negotiation should look
    std::atomic<bool> ending{false};  // threads should end
};

}  // namespace mpi_bridge
