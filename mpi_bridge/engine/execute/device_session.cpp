// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/device_session.hpp"

#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include "core/log.hpp"
#include "core/parts.hpp"
#include "gpu/cuda/library.hpp"
#include "reduce/reduction.hpp"

namespace mpi_bridge {
namespace {

// Returns where the operation's tensor is, or OwnDevice::unknown: memory without elements has no
// place unless the caller names one.
Outcome<int> place_of(const mpib_operation& operation) {
    if (operation.place < MPIB_ON_HOST)
        return invalid(fmt::format("place {} is unknown", operation.place));
    int named = OwnDevice::unknown;
    if (operation.place != 0) named = operation.place < 0 ? OwnDevice::host : operation.place - 1;
    const bool is_empty = std::find(operation.shape, operation.shape + operation.dimensions, 0) !=
                          operation.shape + operation.dimensions;
    // What others send may still come into recv.
    const bool receives = operation.recv_bytes != 0 && operation.recv_bytes != MPIB_NO_BYTES;
    const void* memory = is_empty ? nullptr : operation.send;
    if (memory == nullptr && (!is_empty || receives)) memory = operation.recv;
    if (memory == nullptr) return named;
    const int found = TRY(device_of(memory));
    if (named == OwnDevice::unknown || named == found) return found;
    return invalid(fmt::format("the operation names {}, but its memory is in {}", place_name(named),
                               place_name(found)));
}

Done control_allgather(Communicator& control, Seconds patience, std::span<const std::byte> own,
                       std::span<std::byte> all) {
    const auto members = static_cast<std::size_t>(control.group().size());
    const auto parts = cut(all.data(), std::vector(members, own.size()));
    std::copy(own.begin(), own.end(), parts[static_cast<std::size_t>(control.group().own)].begin());
    return control.allgather({"opening the devices", own.size(), patience}, parts);
}

// The collectives by which a group stages device memory. They are numbered, so that members that
// are not at the same call are detected. The communicator must outlive them.
HostCollectives host_collectives(Communicator& communicator, std::function<Seconds()> timeout) {
    const auto next = [calls = std::make_shared<std::uint64_t>(0), timeout = std::move(timeout)] {
        return Communicator::Call{"a chunk of device memory", ++*calls, timeout()};
    };
    const auto reduction_of = [](mpib_datatype datatype, mpib_op op) -> Outcome<const Reduction*> {
        const Reduction* found = find_reduction(datatype, op);
        if (found == nullptr) return invalid(why_no_reduction(datatype, op));
        return found;
    };
    HostCollectives host;
    host.allreduce = [=, &communicator](std::byte* data, std::size_t count, mpib_datatype datatype,
                                        mpib_op op) -> Done {
        const Reduction& reduction = *TRY(reduction_of(datatype, op));
        return communicator.allreduce(next(), reduction, data, data, count);
    };
    host.broadcast = [=, &communicator](Bytes data, int root) {
        return communicator.broadcast(next(), data, root);
    };
    host.allgather = [=, &communicator](std::span<const Bytes> parts) {
        return communicator.allgather(next(), parts);
    };
    host.reduce_scatter = [=, &communicator](const std::byte* send, std::byte* recv,
                                             std::span<const std::size_t> counts,
                                             mpib_datatype datatype, mpib_op op) -> Done {
        const Reduction& reduction = *TRY(reduction_of(datatype, op));
        return communicator.reduce_scatter(next(), reduction, send, recv, counts);
    };
    host.alltoall = [=, &communicator](std::span<const ConstBytes> out, std::span<const Bytes> in) {
        return communicator.alltoall(next(), out, in, std::nullopt);
    };
    return host;
}

}  // namespace

Done DeviceSession::admit(const mpib_operation& operation) {
    if (cuda::is_per_thread(operation.stream)) {
        return invalid(
            "the per-thread default stream of CUDA is not supported yet; pass a stream that the "
            "program has created, or the legacy default stream (0)");
    }
    const int place = TRY(place_of(operation));
    if (place == OwnDevice::unknown) {
        options_.own_device->suppose_current();
        return {};
    }
    if (place >= 0 && TRY(is_captured({operation.stream}))) {
        return invalid(
            "the stream is being captured into a CUDA graph, which is not supported yet; submit "
            "the operation outside of the capture");
    }
    return settle_on(place);
}

Done DeviceSession::settle_on(int device) {
    int expected = OwnDevice::unknown;
    if (device_.compare_exchange_strong(expected, device) || expected == device) {
        had_a_tensor_ = true;
        options_.own_device->noted(device);
        return {};
    }
    if (!had_a_tensor_) {
        return invalid(
            fmt::format("the tensor is in {}, but this rank has taken part in operations of {} "
                        "with {} before it had a tensor; say with mpib_set_device() where its "
                        "tensors are, before it joins or passes one without elements",
                        place_name(device), options_.name, place_name(expected)));
    }
    return invalid(
        fmt::format("the tensor is in {}, but this rank's earlier ones of {} are in {}; "
                    "under MPIB_DEVICE all must be in one place",
                    place_name(device), options_.name, place_name(expected)));
}

Outcome<DeviceNote> DeviceSession::note(DeviceStream stream) {
    DeviceGroup* group = in_use_;
    if (group == nullptr) return DeviceNote();
    return group->note(stream);
}

Outcome<bool> DeviceSession::poll(const DeviceTicket& ticket) {
    return in_use_.load()->poll(ticket);
}

Done DeviceSession::make_stream_wait(const DeviceTicket& ticket, DeviceStream stream,
                                     Seconds longest) {
    return in_use_.load()->make_stream_wait(ticket, stream, longest);
}

void DeviceSession::abandon(const Failure& cause) {
    const std::lock_guard lock(opening_);
    cause_ = cause;
    if (group_ != nullptr) group_->abandon(cause);
}

void DeviceSession::await_abandoned() {
    if (DeviceGroup* const group = in_use_) group->await_abandoned();
}

DeviceGroupOptions DeviceSession::group_options(Communicator& control) {
    DeviceGroupOptions options;
    options.name = options_.name;
    options.rank = control.group().own;
    options.size = control.group().size();
    // This rank may have joined, or may have had tensors without elements only. What it takes part
    // with holds from now on, also for a tensor that another thread submits meanwhile.
    int device = device_;
    if (device == OwnDevice::unknown) {
        const int settled = options_.own_device->settle(options_.local_index);
        if (device_.compare_exchange_strong(device, settled)) device = settled;
    }
    options.device = device;
    options.path = options_.path;
    options.patience = options_.timeout();
    options.watch = [this]() -> Done {
        const std::lock_guard lock(opening_);
        if (!cause_) return {};
        return tl::unexpected<Failure>(*cause_);
    };
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

Done DeviceSession::open(Communicator& control) {
    if (host_ == nullptr) {
        host_ = TRY(options_.open());
    }
    auto options = group_options(control);
    auto group = DeviceGroup::open(std::move(options));
    if (!group) {
        refused_ = !control_failed_;
        return pass_on(std::move(group));
    }
    {
        const std::lock_guard lock(opening_);
        group_ = std::move(*group);
        if (cause_) group_->abandon(*cause_);
    }
    in_use_ = group_.get();
    if (control.group().own == 0) {
        log(LogLevel::info,
            fmt::format("{}: device memory goes this way: {}", options_.name, group_->describe()));
    }
    return {};
}

void DeviceSession::close(Deadline deadline) {
    if (group_ == nullptr) return;
    const auto closed = group_->close(deadline);
    const std::lock_guard lock(opening_);
    if (!closed && !cause_) log(LogLevel::info, closed.error().text);
}

Outcome<DeviceTicket> DeviceSession::started(Outcome<DeviceTicket> ticket, std::string_view what) {
    if (!ticket) {
        // If the group is not broken, this call has enqueued nothing on any rank, because all ranks
        // pass the same arguments.
        refused_ =
            ticket.error().status == MPIB_ERROR_INVALID_ARGUMENT && group_->poll({}).has_value();
        return ticket;
    }
    const std::lock_guard lock(mutex_);
    latest_.ticket = *ticket;
    latest_.what = what;
    return ticket;
}

bool DeviceSession::busy() const {
    const std::lock_guard lock(mutex_);
    return reached_ < latest_.ticket.number;
}

Done DeviceSession::watch() {
    const std::lock_guard watching(watching_);
    if (!busy()) return {};
    if (!watched_) {
        const std::lock_guard lock(mutex_);
        watched_ = latest_;
        watched_->since = Clock::now();
    }
    const auto reached = TRY(group_->poll(watched_->ticket));
    if (reached) {
        reached_ = watched_->ticket.number;
        watched_.reset();
        return {};
    }
    const Seconds limit = options_.timeout();
    if (Clock::now() - watched_->since < limit) return {};
    return fail(MPIB_ERROR_TIMEOUT,
                fmt::format("{}: {} was not done on the device within {} s; a peer's device, an "
                            "operation of another process set before it, or what the caller's "
                            "stream holds before it, may be stuck",
                            options_.name, watched_->what, limit.count()));
}

}  // namespace mpi_bridge
