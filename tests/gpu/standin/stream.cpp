// SPDX-License-Identifier: Apache-2.0
#include "stream.hpp"

#include "device.hpp"
#include "memory.hpp"
#include "plan.hpp"

namespace standin {

void Point::reach() {
    const std::lock_guard lock(mutex_);
    when_ = std::chrono::steady_clock::now();
    changed_.notify_all();
}

bool Point::reached() const {
    const std::lock_guard lock(mutex_);
    return when_.has_value();
}

void Point::wait() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return when_.has_value(); });
}

std::chrono::steady_clock::time_point Point::when() const {
    const std::lock_guard lock(mutex_);
    return *when_;
}

Stream::Stream(Device& its_device, Kind its_kind, int number)
    : device(its_device), kind(its_kind), number_(number) {
    // The object lives as long as the process, so the thread needs no owner.
    std::thread([this] { serve(); }).detach();
}

PointRef Stream::put(std::function<void()> work) {
    {
        const std::lock_guard lock(mutex_);
        if (nccl_calls_ != 0) {
            misuse("work is put into a stream while a call of NCCL on it is in progress");
        }
    }
    return put_as_nccl(std::move(work));
}

PointRef Stream::put_as_nccl(std::function<void()> work) {
    if (kind == Kind::non_blocking) return add(std::move(work));
    const auto before = device.ends_that_bind(*this);
    if (before.empty()) return add(std::move(work));
    return add([before, body = std::move(work)] {
        for (const PointRef& end : before)
            end->wait();
        body();
    });
}

PointRef Stream::add(std::function<void()> work) {
    auto end = std::make_shared<Point>();
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(work), end});
    last_ = end;
    changed_.notify_all();
    return end;
}

PointRef Stream::last() const {
    const std::lock_guard lock(mutex_);
    return last_;
}

void Stream::begin_nccl() {
    const std::lock_guard lock(mutex_);
    ++nccl_calls_;
}

void Stream::end_nccl() {
    const std::lock_guard lock(mutex_);
    --nccl_calls_;
}

std::shared_ptr<Capture> Stream::capture() const {
    const std::lock_guard lock(mutex_);
    return capture_;
}

void Stream::set_capture(std::shared_ptr<Capture> capture) {
    const std::lock_guard lock(mutex_);
    capture_ = std::move(capture);
}

void Stream::retire() {
    const std::lock_guard lock(mutex_);
    retired_ = true;
    changed_.notify_all();
}

void Stream::serve() {
    for (std::uint64_t step = 0;; ++step) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return retired_ || !queue_.empty(); });
        if (queue_.empty()) return;
        Work work = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        Plan::get().pause(static_cast<std::uint64_t>(number_), step);
        try {
            // A device that has failed does nothing more.
            if (device.fault == 0) work.body();
        } catch (const IllegalAddress&) {
            device.fault = illegal_address;
        }
        work.body = nullptr;
        work.end->reach();
    }
}

}  // namespace standin
