// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/device_lane.hpp"

#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include "core/log.hpp"
#include "engine/execute/device_host.hpp"

namespace mpi_bridge {
namespace {

std::string place_name(int device) {
    return device < 0 ? std::string("host memory") : fmt::format("CUDA device {}", device);
}

Done control_allgather(Communicator& control, Seconds patience, std::span<const std::byte> own,
                       std::span<std::byte> all) {
    std::vector<Bytes> parts;
    parts.reserve(static_cast<std::size_t>(control.group().size()));
    for (int member = 0; member < control.group().size(); ++member)
        parts.push_back(all.subspan(static_cast<std::size_t>(member) * own.size(), own.size()));
    const Bytes mine = parts[static_cast<std::size_t>(control.group().own)];
    std::copy(own.begin(), own.end(), mine.begin());
    return control.allgather({"opening the devices", own.size(), patience}, parts);
}

}  // namespace

Done DeviceLane::admit(const mpib_operation& operation) {
    const void* memory = operation.send != nullptr ? operation.send : operation.recv;
    if (memory == nullptr) return {};  // no elements
    const auto found = device_of(memory);
    if (!found) return tl::unexpected(found.error());
    int expected = unknown;
    if (device_.compare_exchange_strong(expected, *found) || expected == *found) return {};
    return fail(MPIB_ERROR_INVALID_ARGUMENT,
                fmt::format("the tensor is in {}, but this rank's earlier ones of {} are in {}; "
                            "under MPIB_DEVICE all must be in one place",
                            place_name(*found), options_.name, place_name(expected)));
}

Outcome<DeviceNote> DeviceLane::note(DeviceStream stream) {
    DeviceGroup* group = in_use_;
    if (group == nullptr) return DeviceNote();
    return group->note(stream);
}

Outcome<bool> DeviceLane::poll(const DeviceTicket& ticket) {
    return in_use_.load()->poll(ticket);
}

Done DeviceLane::make_stream_wait(const DeviceTicket& ticket, DeviceStream stream,
                                  Seconds longest) {
    return in_use_.load()->make_stream_wait(ticket, stream, longest);
}

void DeviceLane::abort() {
    aborted_ = true;
    if (DeviceGroup* group = in_use_; group != nullptr) group->abort();
}

void DeviceLane::abandon_host() {
    const std::lock_guard lock(opening_);
    if (host_ != nullptr) host_->abandon();
}

DeviceGroupOptions DeviceLane::group_options(Communicator& control) {
    DeviceGroupOptions options;
    options.name = options_.name;
    options.rank = control.group().own;
    options.size = control.group().size();
    // A rank that has joined before it had any tensor takes part with the device it has chosen.
    const int device = device_;
    options.device = device == unknown ? current_device() : device;
    options.path = options_.path;
    options.patience = options_.timeout();
    options.host = host_collectives(*host_, options_.timeout);
    const auto watched = [this](Done done) {
        if (!done) control_failed_ = true;
        return done;
    };
    options.broadcast_from_first = [this, &control, watched](std::span<std::byte> data) {
        return watched(
            control.broadcast({"opening the devices", data.size(), options_.timeout()}, data, 0));
    };
    options.allgather = [this, &control, watched](std::span<const std::byte> own,
                                                  std::span<std::byte> all) {
        return watched(control_allgather(control, options_.timeout(), own, all));
    };
    return options;
}

Done DeviceLane::open(Communicator& control) {
    refused_ = false;
    if (host_ == nullptr) {
        auto host = options_.open();
        if (!host) return pass_on(std::move(host));
        const std::lock_guard lock(opening_);
        host_ = std::move(*host);
        if (aborted_) host_->abandon();
    }
    auto options = group_options(control);
    const int device = options.device;
    auto group = DeviceGroup::open(std::move(options));
    if (!group) {
        refused_ = !control_failed_;
        return pass_on(std::move(group));
    }
    group_ = std::move(*group);
    device_ = device;
    in_use_ = group_.get();
    if (aborted_) group_->abort();
    if (control.group().own == 0) {
        log(LogLevel::info,
            fmt::format("{}: device memory goes this way: {}", options_.name, group_->describe()));
    }
    return {};
}

void DeviceLane::close(Deadline deadline) {
    if (group_ == nullptr) return;
    auto closed = group_->close(deadline);
    if (!closed && !aborted_) log(LogLevel::info, closed.error().text);
    if (!closed) group_->abort();
}

Outcome<DeviceTicket> DeviceLane::started(Outcome<DeviceTicket> ticket, std::string_view what) {
    refused_ = false;
    if (!ticket) {
        // A group that has not broken has enqueued nothing, on no rank: all pass it the same.
        refused_ =
            ticket.error().status == MPIB_ERROR_INVALID_ARGUMENT && group_->poll({}).has_value();
        return ticket;
    }
    const std::lock_guard lock(mutex_);
    latest_.ticket = *ticket;
    latest_.what = what;
    return ticket;
}

bool DeviceLane::busy() const {
    const std::lock_guard lock(mutex_);
    return reached_ < latest_.ticket.number;
}

Done DeviceLane::watch() {
    if (!busy()) return {};
    if (!watched_) {
        const std::lock_guard lock(mutex_);
        watched_ = latest_;
        watched_->since = Clock::now();
    }
    auto reached = group_->poll(watched_->ticket);
    if (!reached) return pass_on(std::move(reached));
    if (*reached) {
        reached_ = watched_->ticket.number;
        watched_.reset();
        return {};
    }
    const Seconds limit = options_.timeout();
    if (Clock::now() - watched_->since < limit) return {};
    return fail(MPIB_ERROR_TIMEOUT,
                fmt::format("{}: {} was not done on the device within {} s; a peer's device, or "
                            "what the caller's stream holds before it, may be stuck",
                            options_.name, watched_->what, limit.count()));
}

}  // namespace mpi_bridge
