// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include <sys/types.h>

#include "api/lent_engine.hpp"
#include "api/wireup.hpp"
#include "bootstrap/bootstrap.hpp"
#include "collectives/communicator.hpp"
#include "core/catching.hpp"
#include "core/coarse_clock.hpp"
#include "core/deadline.hpp"
#include "core/failure_token.hpp"
#include "core/floating_point.hpp"
#include "core/settings.hpp"
#include "mpi_bridge_engine.h"
#include "shm/own_heap.hpp"
#include "trace/trace.hpp"

// The C API: its functions, and the state that they share.
//
//   library.hpp           the library's state in this process
//   wireup.hpp            connects to the launcher and to the other ranks
//   library_calls.cpp     functions to begin, to end, to learn about the ranks, and to get memory
//   collective_calls.cpp  the collectives
//   engine_calls.cpp      functions that are passed on to the engine
//   message_calls.cpp     functions that are passed on to the messenger
//   guard.hpp             what surrounds each function: keeps exceptions in, and remembers failures
//   arguments.hpp         checks of the arguments, and the digest of what all ranks must pass alike
//   lent_engine.hpp       keeps the engine alive while a call uses it
//   with_engine.hpp       runs the body of a function that needs the engine
namespace mpi_bridge {

// The library's state in this process: not initialised, initialised, broken by a failed collective
// call, or finalised. Any thread may call any function, but a forked child may call only topology()
// and abort(), because it inherits the locks as they were.
class Library {
  public:
    // Never destroyed, because other threads may call in while the process ends.
    [[nodiscard]] static Library& instance();

    // Null: by the launcher that has started this process.
    [[nodiscard]] Done initialize(const mpib_meeting* meeting);
    [[nodiscard]] Done finalize();
    void set_timeout(Seconds timeout) { timeout_override_ = timeout.count(); }
    [[noreturn]] void abort(int code, std::string_view message);

    // nullptr when not initialised. The object stays valid until the process ends.
    [[nodiscard]] const Topology* topology() const { return topology_.load(); }

    // Memory in this process's shared heap; see mpib_alloc().
    [[nodiscard]] Outcome<void*> allocate(std::size_t bytes);
    [[nodiscard]] Done release(void* memory);

    [[nodiscard]] LentEngine& engine() { return engine_; }

    // Describes a blocking collective call, for its messages, for the check that all ranks make the
    // same call, and for the counters.
    struct Identity {
        std::string_view name;
        mpib_kind kind = MPIB_BARRIER;
        std::uint64_t agreement = 0;  // digest of what all ranks must pass alike
        std::uint64_t bytes = 0;      // of the send buffer
        std::uint64_t size = 0;       // the `bytes` argument of bus_bytes()
    };

    // Runs one collective call, with no other at the same time: body(Communicator&, const
    // Communicator::Call&). A failure breaks the library for good. This is a template, because a
    // small call takes less time than it would take to wrap its body.
    template <typename Body>
    [[nodiscard]] Done run(const Identity& identity, Body&& body) {
        const std::lock_guard lock(mutex_);
        TRY(admit(identity));
        const bool timed = begin(identity);
        const CoarseClock waits;
        const auto start = timed ? Clock::now() : Clock::time_point();
        Done done = catching([&] {
            const DefaultFloatingPoint mode;
            return body(*direct_, Communicator::Call{identity.name, identity.agreement, timeout()});
        });
        const auto time = timed ? Clock::now() - start : Clock::duration::zero();
        trace().counters.add_waited_in_call(waits.elapsed());
        return end(identity, std::move(done), time);
    }

  private:
    Library() = default;
    [[nodiscard]] Done join_step(const mpib_meeting* meeting);
    [[nodiscard]] Group everybody() const;
    [[nodiscard]] Outcome<std::unique_ptr<Communicator>> open_communicator(Group group,
                                                                           Channel channel);
    [[nodiscard]] Done admit(const Identity& identity);
    [[nodiscard]] bool begin(const Identity& identity);
    // Returns what the caller gets: `done`, or the earlier failure that ended this call.
    [[nodiscard]] Done end(const Identity& identity, Done done, Clock::duration time);
    void make_engine();
    // So that another rank that waits for this one in the engine hears what is missing.
    void start_engine();
    // Ends every wait of this process. Does not take mutex_, because a call that waits for this may
    // hold it.
    void abandon(const Failure& cause);
    // How long mpib_init() may take, and how long a collective may wait for a peer.
    [[nodiscard]] Seconds start_timeout() const { return overridden(settings_.start_timeout); }
    [[nodiscard]] Seconds timeout() const { return overridden(settings_.timeout); }
    [[nodiscard]] Seconds overridden(Seconds setting) const;
    void leave_step();
    static void at_exit();

    std::timed_mutex mutex_;
    Wireup wireup_;
    OwnHeap heap_;  // must outlive the communicators; engine threads use it beside callers
    std::unique_ptr<Communicator> direct_;  // of all ranks, for blocking calls
    // Those of all initialisations, never freed, like the topologies below.
    std::deque<FailureToken> failures_;
    std::atomic<FailureToken*> failure_{nullptr};
    std::optional<FailureToken::Watch> failure_watch_;
    Settings settings_;
    EngineSettings engine_settings_;
    unsigned small_calls_ = 0;
    LentEngine engine_;
    bool stuck_ = false;  // threads of an earlier use have not ended
    bool exit_handler_set_ = false;
    // The process that initialised the library. guard_forks() does not suffice, because a raw
    // clone() runs no handlers.
    pid_t owner_ = 0;
    std::atomic<double> timeout_override_{0};
    // The topologies of all initialisations, never freed: a thread may read one while another
    // finalises.
    std::deque<Topology> topologies_;
    std::atomic<const Topology*> topology_{nullptr};
    std::atomic<Bootstrap*> launcher_{nullptr};
};

}  // namespace mpi_bridge
