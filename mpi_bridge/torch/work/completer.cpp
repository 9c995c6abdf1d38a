// SPDX-License-Identifier: Apache-2.0
#include "work/completer.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "python.hpp"
#include "work/threads.hpp"

namespace mpi_bridge::torch {

namespace {

// In a thread that completes futures, the work whose future it completes.
thread_local EngineWork* the_settling = nullptr;

// Those that have had a thread. Never destroyed: a thread may outlive the process's exit handlers.
struct WithThread {
    std::mutex mutex;
    std::vector<std::weak_ptr<Completer>> completers;
};

WithThread& with_thread() {
    static auto* const all = new WithThread;
    return *all;
}

void remember(const std::shared_ptr<Completer>& completer) {
    const std::lock_guard lock(with_thread().mutex);
    auto& all = with_thread().completers;
    std::erase_if(all, [](const auto& each) { return each.expired(); });
    all.push_back(completer);
}

}  // namespace

Completer::Work Completer::settling() {
    if (the_settling == nullptr) {
        return {};
    }
    return Work::unsafe_reclaim_from_nonowning(the_settling);
}

EngineWork* Completer::calling() const {
    auto* work = the_settling;
    while (work != nullptr && work->parts_.completer.get() != this) {
        work = work->started_by_.get();
    }
    return work;
}

void Completer::note_place(std::int64_t number, const std::string& group) {
    const auto* const caller = calling();
    if (caller == nullptr) {
        last_place_ = number;
        return;
    }
    TORCH_CHECK(last_place_ <= caller->place_, "group ", group,
                ": a callback of a future starts an operation, but another one was started after "
                "that of the future, so the ranks may disagree about their order; wait for the "
                "future first (with a communication hook of DDP: let all gradients be in one "
                "bucket, by bucket_cap_mb)");
}

std::exception_ptr Completer::add(Work work) {
    const auto* const caller = calling();
    // No callback can have begun before the future was asked for.
    if (caller == nullptr) {
        work->place_ = std::max<std::int64_t>(work->place_, last_place_);
    }
    const std::lock_guard lock(mutex_);
    if (abandoned_) {
        return abandoned_;
    }
    unsettled_.insert(work.get());
    const auto further = caller == nullptr ? nullptr : caller->further_;
    if (further && further->is_open) {
        further->works.push_back(std::move(work));
        if (!std::exchange(further->has_thread, true)) {
            start_thread([self = shared_from_this(), further] { self->settle_further(further); });
        }
    } else {
        waiting_.push_back(std::move(work));
        if (!std::exchange(has_thread_, true)) {
            remember(shared_from_this());
            start_thread([self = shared_from_this()] { self->run(); });
        }
    }
    changed_.notify_all();
    return nullptr;
}

void Completer::stop() {
    std::unique_lock lock(mutex_);
    if (!has_thread_ || abandoned_) {
        return;
    }
    is_stopping_ = true;
    changed_.notify_all();
    if (calling() != nullptr) {
        return;
    }
    constexpr std::chrono::milliseconds between_looks{500};
    while (!changed_.wait_for(lock, between_looks, [&] { return !has_thread_; })) {
        lock.unlock();
        python::check_signals();
        lock.lock();
    }
}

void Completer::let_all_end() {
    std::vector<std::shared_ptr<Completer>> all;
    {
        const std::lock_guard lock(with_thread().mutex);
        for (const auto& each : with_thread().completers) {
            if (auto completer = each.lock()) {
                all.push_back(std::move(completer));
            }
        }
    }
    for (const auto& completer : all) {
        const std::lock_guard lock(completer->mutex_);
        completer->is_stopping_ = true;
        completer->changed_.notify_all();
    }
}

void Completer::abandon(std::exception_ptr error) {
    std::vector<Work> unsettled;
    {
        const std::lock_guard lock(mutex_);
        if (abandoned_) {
            return;
        }
        abandoned_ = error;
        for (auto* const each : unsettled_) {
            unsettled.push_back(Work::unsafe_reclaim_from_nonowning(each));
        }
        unsettled_.clear();
        changed_.notify_all();
    }
    for (const auto& work : unsettled) {
        work->end_future(error);
    }
}

void Completer::run() {
    while (const auto work = next()) {
        settle(work, main_);
    }
}

/// Waits for the next work of the group; none: the thread is to end.
Completer::Work Completer::next() {
    std::deque<Work> dropped;  // destroyed without the lock
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
        if (main_->is_settling) {
            return false;
        }
        return !main_->works.empty() || !waiting_.empty() || is_stopping_ || abandoned_;
    });
    auto& works = main_->works.empty() ? waiting_ : main_->works;
    if (works.empty() || abandoned_) {
        std::swap(dropped, waiting_);
        is_stopping_ = has_thread_ = false;
        changed_.notify_all();
        return {};
    }
    auto work = std::move(works.front());
    works.pop_front();
    main_->is_settling = true;
    return work;
}

void Completer::settle_further(std::shared_ptr<Further> further) {
    while (further && further != main_) {
        Work work;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return !further->works.empty() || !further->is_open; });
            if (!further->is_open) {
                return;
            }
            work = std::move(further->works.front());
            further->works.pop_front();
            further->is_settling = true;
        }
        further = settle(work, further);
    }
}

/// Settles a work; returns the works to go on with, or none if another thread does.
std::shared_ptr<Further> Completer::settle(const Work& work,
                                           const std::shared_ptr<Further>& among) {
    auto further = std::make_shared<Further>();
    further->work = work;
    further->among = among;
    {
        const std::lock_guard lock(mutex_);
        work->further_ = further;
    }
    the_settling = work.get();
    work->settle();
    the_settling = nullptr;
    std::vector<Work> dropped;
    const std::lock_guard lock(mutex_);
    further->is_open = false;
    changed_.notify_all();
    // So that a chain of callbacks does not keep a thread for each of its links.
    return further->is_settling ? nullptr : close(std::move(further), dropped);
}

/// Lets what callbacks have left come next; returns the works to go on with. The same is done for
/// the works that were waiting for these.
std::shared_ptr<Further> Completer::close(std::shared_ptr<Further> further,
                                          std::vector<Work>& dropped) {
    while (true) {
        auto work = std::move(further->work);
        auto among = std::move(further->among);
        among->works.insert(among->works.begin(), std::move_iterator(further->works.begin()),
                            std::move_iterator(further->works.end()));
        among->is_settling = false;
        // No longer than needed: a chain of callbacks must not keep all its works.
        work->further_ = nullptr;
        if (work->started_by_) {
            dropped.push_back(std::move(work->started_by_));
        }
        unsettled_.erase(work.get());
        dropped.push_back(std::move(work));
        changed_.notify_all();
        if (among->is_open) {
            return among;
        }
        further = std::move(among);
    }
}

}  // namespace mpi_bridge::torch
