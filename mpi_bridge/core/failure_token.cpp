// SPDX-License-Identifier: Apache-2.0
#include "core/failure_token.hpp"

namespace mpi_bridge {

const Failure& FailureToken::fail(Failure failure) {
    if (failed()) return cause_once_all_are_told();
    if (failure.of_rank >= 0 && enquiry_) failure = enquiry_(std::move(failure));
    std::vector<std::shared_ptr<Told>> watchers;
    {
        std::unique_lock lock(mutex_);
        if (cause_) {
            lock.unlock();
            return cause_once_all_are_told();
        }
        teller_ = std::this_thread::get_id();
        cause_ = std::move(failure);
        failed_.store(true, std::memory_order_release);
        watchers = watchers_;
    }
    for (const auto& each : watchers)
        tell(*each);
    {
        const std::lock_guard lock(mutex_);
        all_told_ = true;
    }
    telling_ended_.notify_all();
    return cause();
}

const Failure& FailureToken::cause_once_all_are_told() {
    std::unique_lock lock(mutex_);
    telling_ended_.wait(lock,
                        [this] { return all_told_ || teller_ == std::this_thread::get_id(); });
    return cause();
}

void FailureToken::tell(Told& told) const {
    const std::lock_guard lock(told.telling);
    if (std::exchange(told.done, true)) return;
    told.watcher(*cause_);
}

FailureToken::Watch::Watch(FailureToken& token, Watcher watcher)
    : token_(token), told_(std::make_shared<Told>()) {
    told_->watcher = std::move(watcher);
    {
        const std::lock_guard lock(token_.mutex_);
        token_.watchers_.push_back(told_);
    }
    if (token_.failed()) token_.tell(*told_);
}

FailureToken::Watch::~Watch() {
    {
        const std::lock_guard lock(token_.mutex_);
        std::erase(token_.watchers_, told_);
    }
    const std::lock_guard lock(told_->telling);
    told_->done = true;
}

}  // namespace mpi_bridge
