// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/deadline.hpp"
#include "transport/wait/spin_policy.hpp"

namespace mpi_bridge {

// Lets several threads wait for different conditions that one source of progress brings about.
//
// A waiting thread also works: each look lets the source make progress, for all threads. A thread
// that has found nothing for long goes to sleep. Sleepers are woken when the look of another thread
// finds that their condition holds. While no thread looks, one of the sleepers, the poller, blocks
// on the source's own descriptor and looks when something arrives.
//
// All functions except rouse_all() need the mutex held.
class Watch {
  public:
    struct Source {
        std::function<bool()> progress;  // makes progress; true when something moved
        // Makes `descriptor` readable at the next event; returns false when there is one already.
        std::function<bool()> arm;
        int descriptor = -1;
        // Replaces `descriptor` where this is cheaper: returns at the next event, when the watch's
        // interrupt_descriptor() becomes readable, or after so many milliseconds. Called without
        // the mutex, by one thread at a time.
        std::function<void(int milliseconds)> await_event;
        // The interval at which a blocked thread looks for what comes without an event, such as a
        // passed deadline.
        std::chrono::milliseconds longest_sleep{100};
    };
    using Condition = std::function<bool()>;

    // crowded: see SpinPolicy.
    Watch(Source source, bool crowded);
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch();

    [[nodiscard]] std::mutex& mutex() { return mutex_; }
    // Becomes readable when the thread in Source::await_event() should return.
    [[nodiscard]] int interrupt_descriptor() const { return interrupt_descriptor_; }

    // Waits until `happened` returns true, and then returns true; returns false when the deadline
    // has passed. `happened` is called with the mutex held, by other threads too, and must not call
    // back.
    [[nodiscard]] bool wait(std::unique_lock<std::mutex>& lock, const Condition& happened,
                            Deadline deadline, WaitMode mode = WaitMode::yields);

    // For waits that begin later.
    void set_crowded(bool crowded) { policy_.set_crowded(crowded); }

    // Looks once, without waiting. Returns true when something moved.
    bool look();

    // Makes every sleeper check its condition again. Called without the mutex.
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
    SpinPolicy policy_;
    int interrupt_descriptor_;
    bool polled_ = false;
    bool interrupted_ = false;  // the descriptor is readable
    int waiting_ = 0;           // threads in wait()
    std::vector<Sleeper*> sleepers_;
    std::thread::id last_looker_;  // among the threads that do not sleep between looks
    Clock::time_point last_look_;
};

}  // namespace mpi_bridge
