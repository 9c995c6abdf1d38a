// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/deadline.hpp"
#include "transport/patience.hpp"

namespace mpi_bridge {

// Lets several threads wait for different things that one source of progress brings about.
//
// Whoever waits also works: each look lets the source move on, for all. A waiter that found nothing
// for long goes to sleep. Sleepers are woken by the looks of others when what they wait for has
// happened. While nobody looks, one of the sleepers, the poller, sleeps on the source's own
// descriptor, and looks when something arrives.
//
// All functions but rouse_all() need the mutex held.
class Watch {
  public:
    struct Source {
        std::function<bool()> progress;  // lets things move; true when something did
        // Makes `descriptor` readable at the next event; false when there is one already.
        std::function<bool()> arm;
        int descriptor = -1;
        // Instead of `descriptor`, where that is cheaper: returns at the next event, at one of the
        // watch's interrupt_descriptor(), or after so many milliseconds. Called without the mutex,
        // by one thread at a time.
        std::function<void(int milliseconds)> await_event;
    };
    using Condition = std::function<bool()>;

    // crowded: more ranks on this host than processors they may use.
    Watch(Source source, bool crowded);
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch();

    [[nodiscard]] std::mutex& mutex() { return mutex_; }
    // Readable when the thread in Source::await_event() is to return.
    [[nodiscard]] int interrupt_descriptor() const { return interrupt_descriptor_; }

    // Returns true when `happened` does, false when the deadline has passed. `happened` is asked
    // with the mutex held, also by other threads, and must not call back.
    [[nodiscard]] bool wait(std::unique_lock<std::mutex>& lock, const Condition& happened,
                            Deadline deadline);

    // One look, without waiting. True when something moved.
    bool look();

    // Has everybody who sleeps ask again. Without the mutex.
    void rouse_all();

  private:
    struct Sleeper {
        const Condition* happened;
        std::condition_variable roused;
    };

    void sleep(std::unique_lock<std::mutex>& lock, const Condition& happened, Deadline deadline);
    void poll_descriptor(std::unique_lock<std::mutex>& lock, Deadline deadline);
    [[nodiscard]] bool another_thread_looks() const;
    void rouse_those_whose_condition_happened();
    void interrupt_poller();

    std::mutex mutex_;
    Source source_;
    LookingHabit habit_;
    int interrupt_descriptor_;
    bool polled_ = false;
    bool interrupted_ = false;  // the descriptor is readable
    int waiting_ = 0;           // threads in wait()
    std::vector<Sleeper*> sleepers_;
    std::thread::id last_looker_;  // of those that do not sleep between looks
    Clock::time_point last_look_;
};

}  // namespace mpi_bridge
