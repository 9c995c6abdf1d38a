// SPDX-License-Identifier: Apache-2.0
#include "backend.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "python.hpp"

namespace mpi_bridge::torch {

EngineBackend::EngineBackend(Group group)
    : Backend(group.rank, static_cast<int>(group.members.size())),
      group_(std::move(group)),
      in_engine_order_(group_.members.size()),
      naming_("torch." + group_.name) {
    std::iota(in_engine_order_.begin(), in_engine_order_.end(), 0);
    std::ranges::sort(in_engine_order_, {}, [&](int member) { return group_.members[member]; });
    is_ascending_ = std::ranges::is_sorted(in_engine_order_);
    const auto own = std::ranges::find(in_engine_order_, group_.rank);
    engine_rank_ = static_cast<int>(own - in_engine_order_.begin());
}

c10::intrusive_ptr<c10d::Backend::Options> EngineBackend::getBackendOptions() {
    const auto timeout = group_.limit ? std::chrono::duration_cast<std::chrono::milliseconds>(
                                            std::chrono::duration<double>(*group_.limit))
                                      : kBackendDefaultTimeout;
    return c10::make_intrusive<Options>("mpi_bridge", timeout);
}

namespace {

/// The timeout, if the user has set one.
std::optional<double> seconds_of(const c10::intrusive_ptr<c10d::Backend::Options>& opts) {
    if (!opts || opts->timeout == kBackendDefaultTimeout) {
        return {};
    }
    return std::chrono::duration<double>(opts->timeout).count();
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> EngineBackend::split(
    const c10::intrusive_ptr<c10d::Store>& /*store*/, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& opts) {
    std::string name;
    if constexpr (requires { opts->group_name; }) {
        name = opts ? opts->group_name : "";
    }
    return python::split(group_.members, ranks, seconds_of(opts), name);
}

c10::intrusive_ptr<c10d::Backend> EngineBackend::shrink(const std::vector<int64_t>& excluded,
                                                        int /*shrink_flags*/,
                                                        const c10::intrusive_ptr<Options>& opts) {
    return python::shrink({.name = group_.name,
                           .members = group_.members,
                           .rank = group_.rank,
                           .limit = group_.limit,
                           .is_of_default_group = group_.is_of_default_group},
                          excluded, seconds_of(opts));
}

// The order of operations, and their end.

std::string EngineBackend::next_name(const Signature& signature,
                                     std::span<const std::string> taken) {
    std::string name;
    {
        const std::lock_guard lock(order_);
        completer_->note_place(naming_.count() + 1, group_.name);
        name = naming_.name(signature, taken);
    }
    // All ranks have submitted the earlier operation, or will do so before they come to this one.
    if (const auto earlier = works_->user_of(name)) {
        earlier->complete();
    }
    return name;
}

at::Tensor EngineBackend::place_for(const std::string& name, const at::Tensor& flat) {
    const std::lock_guard lock(order_);
    return staging_.place_for(name, naming_, flat);
}

/// Submits an operation in place, for which the caller waits at once, and waits for it, in one call
/// of the library. Returns false, and does nothing, where that is not possible.
bool EngineBackend::run_now(const Operation& operation) {
    if (!operation.send.is_cpu() || group_.limit || coalesced_) {
        return false;
    }
    const auto name = next_name(signature_of(operation), {});
    const Description description(operation, name, group_.process_set, true);
    check(library().call(&description.get()));
    return true;
}

void EngineBackend::remember(const c10::intrusive_ptr<EngineWork>& work,
                             std::vector<std::string> names) {
    {
        const std::lock_guard lock(order_);
        Completer::set_place(*work, naming_.count());
    }
    works_->add(work, std::move(names));
    if (coalesced_) {
        coalesced_->push_back(work);
    }
}

void EngineBackend::startCoalescing() {
    coalesced_.emplace();
}

EngineBackend::WorkPtr EngineBackend::endCoalescing() {
    auto works = std::exchange(coalesced_, std::nullopt);
    if (!works) {
        works.emplace();
    }
    return c10::make_intrusive<WorkOfSeveral>(std::move(*works));
}

uint64_t EngineBackend::getSequenceNumberForGroup() {
    const std::lock_guard lock(order_);
    return static_cast<uint64_t>(naming_.count());
}

void EngineBackend::setTimeout(std::chrono::milliseconds timeout) {
    const auto seconds = std::chrono::duration<double>(timeout).count();
    if (group_.is_of_default_group) {
        check(library().set_timeout(seconds));
    } else {
        group_.limit = seconds;
    }
}

void EngineBackend::shutdown() {
    if (is_aborted_) {
        return;
    }
    python::without_lock([&] {
        works_->leave_behind();
        {
            const std::lock_guard lock(order_);
            staging_.clear();
        }
        completer_->stop();
    });
    const auto is_private = std::exchange(group_.is_private, false);
    // In another session, the number may be that of another set.
    if (is_private && session_ == session()) {
        python::close_set(group_.process_set);
    }
}

void EngineBackend::abort() {
    is_aborted_ = true;
    completer_->abandon(
        std::make_exception_ptr(std::runtime_error("group " + group_.name + " was aborted")));
}

}  // namespace mpi_bridge::torch
