// SPDX-License-Identifier: Apache-2.0
#include "work/works.hpp"

namespace mpi_bridge::torch {

namespace {

constexpr std::size_t few = 32;  // so many are kept before it is looked which of them are done

}  // namespace

void Works::add(const Work& work, std::vector<std::string> names) {
    std::vector<Work> kept;
    {
        const std::lock_guard lock(mutex_);
        if (works_.size() >= most_ + few) {
            for (const auto& [_, each] : works_) {
                kept.push_back(each.first);
            }
        }
    }
    if (!kept.empty()) {
        for (const auto& each : kept) {
            each->isCompleted();
        }
        const std::lock_guard lock(mutex_);
        most_ = 2 * works_.size();
    }
    work->when_complete([works = weak_from_this()](EngineWork& done) {
        if (const auto self = works.lock()) {
            self->remove(done);
        }
    });
    const std::lock_guard lock(mutex_);
    for (const auto& name : names) {
        by_name_[name] = work.get();
    }
    works_.try_emplace(work.get(), work, std::move(names));
}

Works::Work Works::user_of(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
        return {};
    }
    return Work::unsafe_reclaim_from_nonowning(found->second);
}

std::vector<Works::Work> Works::all() const {
    std::vector<Work> found;
    const std::lock_guard lock(mutex_);
    for (const auto& [_, each] : works_) {
        found.push_back(each.first);
    }
    return found;
}

void Works::leave_behind() {
    for (const auto& work : all()) {
        if (!work->isCompleted() && work->leave_behind()) {
            remove(*work);
        }
    }
}

void Works::remove(EngineWork& work) {
    Work removed;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    const auto found = works_.find(&work);
    if (found == works_.end()) {
        return;
    }
    for (const auto& name : found->second.second) {
        const auto user = by_name_.find(name);
        if (user != by_name_.end() && user->second == &work) {
            by_name_.erase(user);
        }
    }
    removed = std::move(found->second.first);
    works_.erase(found);
}

}  // namespace mpi_bridge::torch
