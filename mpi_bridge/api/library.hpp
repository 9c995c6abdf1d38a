// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include <sys/types.h>

#include "api/guard.hpp"
#include "bootstrap/bootstrap.hpp"
#include "collectives/communicator.hpp"
#include "collectives/communicator_registry.hpp"
#include "core/deadline.hpp"
#include "core/settings.hpp"
#include "engine/engine.hpp"
#include "mpi_bridge_engine.h"
#include "shm/own_heap.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge {

// The library's state in this process: not initialised, initialised, broken by a failed collective
// call, or finalised. All functions may be called from any thread, but in a forked child only
// topology() and abort(), because the child inherits the locks as they were.
class Library {
  public:
    // Never destroyed, because other threads may call in while the process ends.
    [[nodiscard]] static Library& instance();

    [[nodiscard]] Done initialize();
    [[nodiscard]] Done finalize();
    void set_timeout(Seconds timeout) { timeout_override_ = timeout.count(); }
    [[noreturn]] void abort(int code, std::string_view message);

    // nullptr when not initialised. What it points to stays valid for good.
    [[nodiscard]] const Topology* topology() const { return topology_.load(); }

    // Memory in this process's shared heap; see mpib_alloc().
    [[nodiscard]] Outcome<void*> allocate(std::size_t bytes);
    [[nodiscard]] Done release(void* memory);

    // Lends the engine to a call. It lives as long as the call, whoever finalises meanwhile.
    class EngineCall {
      public:
        explicit EngineCall(Library& library) : library_(library) {
            library_.engine_calls_.fetch_add(1);
            engine_ = library_.engine_in_use_.load();
        }
        ~EngineCall() { library_.engine_calls_.fetch_sub(1); }
        EngineCall(const EngineCall&) = delete;
        EngineCall& operator=(const EngineCall&) = delete;

        // Null when the library is not initialised.
        [[nodiscard]] Engine* engine() const { return engine_; }

      private:
        Library& library_;
        Engine* engine_ = nullptr;
    };

    // A blocking collective call, for its messages, for the check that all ranks make the same, and
    // for the counters.
    struct Identity {
        std::string_view name;
        mpib_kind kind = MPIB_BARRIER;
        std::uint64_t agreement = 0;  // digest of what all ranks must pass alike
        std::uint64_t bytes = 0;      // of the send buffer
        std::uint64_t size = 0;       // as bus_bytes() wants it
    };

    // Runs one collective call, alone: body(Communicator&, const Communicator::Call&). A failure
    // breaks the library for good. A template, because a small call takes less time than it takes
    // to wrap its body.
    template <typename Body>
    [[nodiscard]] Done run(const Identity& identity, Body&& body) {
        const std::lock_guard lock(mutex_);
        if (Done admitted = admit(identity); !admitted) return admitted;
        const bool timed = begin(identity);
        const auto start = timed ? Clock::now() : Clock::time_point();
        Done done = without_exceptions([&] {
            return body(*direct_, Communicator::Call{identity.name, identity.agreement, timeout()});
        });
        const auto time = timed ? Clock::now() - start : Clock::duration::zero();
        return end(identity, std::move(done), time);
    }

  private:
    Library() = default;
    [[nodiscard]] Done join_step();
    [[nodiscard]] Group everybody() const;
    [[nodiscard]] Outcome<std::unique_ptr<Communicator>> open_communicator(Group group,
                                                                           Channel channel);
    [[nodiscard]] Done admit(const Identity& identity);
    [[nodiscard]] bool begin(const Identity& identity);
    // Returns what the caller is told: `done`, or else the failure that ended this call.
    [[nodiscard]] Done end(const Identity& identity, Done done, Clock::duration time);
    void make_engine();
    // The first failure of any call, which ends all. Without mutex_, which a call may hold that
    // waits for what is broken off here.
    void break_off(const Failure& failure);
    [[nodiscard]] Seconds timeout() const;
    void leave_step();
    [[nodiscard]] bool end_engine();
    static void at_exit();

    std::timed_mutex mutex_;
    std::unique_ptr<Bootstrap> bootstrap_;
    std::unique_ptr<Transport> transport_;
    OwnHeap heap_;  // must outlive the communicators; engine threads use it beside callers
    CommunicatorRegistry communicators_;
    std::unique_ptr<Communicator> direct_;  // of all ranks, for blocking calls
    Settings settings_;
    EngineSettings engine_settings_;
    unsigned small_calls_ = 0;
    std::unique_ptr<Engine> engine_;
    std::atomic<Engine*> engine_in_use_{nullptr};
    std::atomic<int> engine_calls_{0};
    bool stuck_ = false;  // threads of an earlier use have not ended
    std::mutex failure_mutex_;
    std::optional<Failure> failure_;
    std::atomic<bool> broken_{false};
    bool exit_handler_set_ = false;
    // The process that initialised. Beside guard_forks(), because a raw clone() runs no handlers.
    pid_t owner_ = 0;
    std::atomic<double> timeout_override_{0};
    // Of every initialisation, kept for good: a thread may read one while another finalises.
    std::deque<Topology> topologies_;
    std::atomic<const Topology*> topology_{nullptr};
    std::atomic<Bootstrap*> launcher_{nullptr};
};

}  // namespace mpi_bridge
