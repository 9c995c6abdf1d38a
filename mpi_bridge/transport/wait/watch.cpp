// SPDX-License-Identifier: Apache-2.0
#include "transport/wait/watch.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/interruption.hpp"

namespace mpi_bridge {
namespace {

// A thread that has looked this recently is assumed to look again.
constexpr std::chrono::milliseconds looker_lease{1};

void give_way(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    sched_yield();
    lock.lock();
}

}  // namespace

Watch::Watch(Source source, bool crowded)
    : source_(std::move(source)),
      policy_(crowded),
      interrupt_descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Watch::~Watch() {
    if (interrupt_descriptor_ >= 0) ::close(interrupt_descriptor_);
}

bool Watch::look() {
    const bool moved = source_.progress();
    if (moved && !sleepers_.empty()) rouse_those_whose_condition_happened();
    return moved;
}

void Watch::rouse_those_whose_condition_happened() {
    for (Sleeper* sleeper : sleepers_) {
        if (!(*sleeper->happened)()) continue;
        sleeper->roused.notify_one();
        // The poller is one of the sleepers, but it is not known which one; a needless look is
        // cheap.
        if (polled_) interrupt_poller();
    }
}

void Watch::interrupt_poller() {
    const std::uint64_t one = 1;
    interrupted_ = true;
    // The write fails only on a full counter, which is readable, and that is all that is needed.
    [[maybe_unused]] const auto written = write(interrupt_descriptor_, &one, sizeof one);
}

void Watch::rouse_all() {
    const std::lock_guard lock(mutex_);
    for (Sleeper* sleeper : sleepers_)
        sleeper->roused.notify_one();
    if (polled_) interrupt_poller();
}

bool Watch::wait(std::unique_lock<std::mutex>& lock, const Condition& happened, Deadline deadline,
                 WaitMode mode) {
    ++waiting_;
    SpinWait spin(policy_, mode);
    bool sleeps = false;
    bool in_time = true;
    // What this thread waits for has hardly begun, so a first look would be in vain.
    if (spin.gives_way() && !happened()) give_way(lock);
    while (!happened()) {
        const bool moved = look();
        if (happened()) break;
        if (deadline.passed()) {
            in_time = false;
            break;
        }
        if (!sleeps) {
            last_looker_ = std::this_thread::get_id();
            last_look_ = Clock::now();
        }
        if (moved) continue;
        if (spin.next() == SpinWait::Next::block) {
            sleeps = true;
            sleep(lock, happened, deadline);
        } else if (spin.gives_way()) {
            give_way(lock);
        } else if (waiting_ > 1) {
            // The other threads need the lock in order to look and post as well.
            lock.unlock();
            lock.lock();
        }
    }
    spin.end();
    --waiting_;
    return in_time;
}

bool Watch::another_thread_looks() const {
    return last_looker_ != std::this_thread::get_id() && Clock::now() < last_look_ + looker_lease;
}

void Watch::sleep(std::unique_lock<std::mutex>& lock, const Condition& happened,
                  Deadline deadline) {
    Sleeper self{&happened, {}};
    sleepers_.push_back(&self);
    if (polled_ || another_thread_looks()) {
        // The poller hands over when it leaves. A thread that looks does not, so check again soon.
        const auto longest = polled_ ? source_.longest_sleep : looker_lease;
        self.roused.wait_until(lock, std::min(deadline.when(), Clock::now() + longest));
    } else {
        poll_descriptor(lock, deadline);
    }
    std::erase(sleepers_, &self);
    if (Clock::now() < Interruption::next_look()) return;
    lock.unlock();
    Interruption::look();
    lock.lock();
}

void Watch::poll_descriptor(std::unique_lock<std::mutex>& lock, Deadline deadline) {
    if (!source_.arm()) return;
    polled_ = true;
    lock.unlock();
    // The caller looks again whether this was interrupted or timed out.
    const int longest = deadline.left_milliseconds(static_cast<int>(source_.longest_sleep.count()));
    if (source_.await_event) {
        source_.await_event(longest);
    } else {
        std::array<pollfd, 2> events{
            {{source_.descriptor, POLLIN, 0}, {interrupt_descriptor_, POLLIN, 0}}};
        (void)poll(events.data(), events.size(), longest);
    }
    lock.lock();
    polled_ = false;
    if (interrupted_) {
        std::uint64_t count = 0;
        [[maybe_unused]] const auto drained = read(interrupt_descriptor_, &count, sizeof count);
        interrupted_ = false;
    }
    // This thread may be about to return, so another one must take over.
    for (Sleeper* sleeper : sleepers_)
        sleeper->roused.notify_one();
}

}  // namespace mpi_bridge
