// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "core/group.hpp"
#include "engine/engine_parts.hpp"
#include "engine/execute/device_executor.hpp"
#include "engine/handle.hpp"
#include "engine/negotiation/member.hpp"
#include "engine/negotiation/round.hpp"

namespace mpi_bridge {

// What the engine of a process set needs from the engine of the process.
class EngineHost {
  public:
    virtual ~EngineHost() = default;
    EngineHost() = default;
    EngineHost(const EngineHost&) = delete;
    EngineHost& operator=(const EngineHost&) = delete;

    [[nodiscard]] virtual const EngineParts& parts() const = 0;
    // Whether there is no process set but the world.
    [[nodiscard]] virtual bool only_one() const = 0;
    // What all process sets put their work on the device with.
    [[nodiscard]] virtual DeviceExecutor& devices() = 0;
    // Carries out on this rank what all ranks have agreed on. Returns the id of the set.
    [[nodiscard]] virtual Outcome<int> change_process_sets(const Descriptor& change) = 0;
};

// What the threads of a process set share: the state machines, and the operations that they manage.
// The mutex guards everything but the atomics. It is never held during a collective, a wait, or
// fail().
struct ProcessSetState {
    using Lock = std::unique_lock<std::mutex>;
    using Index = RequestTable::Index;

    ProcessSetState(EngineHost& engine, int id, Group members);

    [[nodiscard]] OwnRequest& request(Index index) { return member.requests.at(index); }
    // Returns the request in use under this handle, or null.
    [[nodiscard]] OwnRequest* find(const Handle& handle);
    // Ends the operations that the state machines have completed. Call it after each event that may
    // complete some.
    void take_completions();
    // Fails every operation that waits, and each one to come, unless they have failed already. This
    // is the only way to fail them: whoever gets the lock next sees an operation that has ended
    // together with its failure, and never without it.
    void abandon(const Failure& cause);

    // Fails the process, and returns the first failure.
    Failure fail(const Failure& failure) const { return host.parts().failure->fail(failure); }
    [[nodiscard]] Outcome<std::unique_ptr<Communicator>> open(Channel::Lane lane) const {
        return host.parts().open(group, lane, static_cast<unsigned>(process_set));
    }
    [[nodiscard]] Seconds timeout() const { return host.parts().timeout(); }
    [[nodiscard]] Trace& trace() const { return *host.parts().trace; }
    [[nodiscard]] Activity shown(const OwnRequest& request, Phase phase) const;
    [[nodiscard]] Activity shown(Phase phase) const;

    EngineHost& host;
    const int process_set;
    const Group group;

    std::mutex mutex;
    std::condition_variable
        changed;  // an operation is done, no bucket of the plan runs, a thread ended
    Member member;
    Round round;
    Clock::time_point progress;  // when an operation last ended
    int open_operations = 0;     // of this rank, which have been submitted and have not ended
    Clock::time_point latest_submission;
    int sleepers = 0;              // threads that wait for `changed`
    std::set<int> closed_members;  // global ranks that have said so; see Member::retire()

    std::atomic<bool> news{false};    // the negotiation should look
    std::atomic<bool> ending{false};  // threads should end
};

}  // namespace mpi_bridge
