// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/device_execution.hpp"

#include <algorithm>
#include <numeric>

#include "core/parts.hpp"
#include "engine/execute/host_execution.hpp"
#include "engine/execute/neutral.hpp"
#include "engine/execute/row_counts.hpp"
#include "reduce/reduction.hpp"

namespace mpi_bridge {
namespace {

// Every tensor in a bucket starts at a multiple of this, which suits every element type.
constexpr std::size_t tensor_alignment = 16;

std::vector<std::size_t> lengths_of(std::span<const std::int64_t> rows, std::size_t row_bytes) {
    std::vector<std::size_t> lengths;
    for (const std::int64_t count : rows)
        lengths.push_back(static_cast<std::size_t>(count) * row_bytes);
    return lengths;
}

DeviceReduction reduction_of(const Descriptor& what) {
    return {what.datatype, what.op, what.prescale, what.postscale};
}

bool linear(mpib_op op) {
    return op == MPIB_SUM || op == MPIB_AVERAGE;
}

}  // namespace

// Collects what the operation waits for: the latest noted position of each stream, and the work of
// other groups on the device. For operations that were submitted before the group was open, the
// stream's position is noted now.
Done DeviceExecution::gather_notes(std::span<OwnRequest* const> requests) {
    notes_.clear();
    latest_.clear();
    for (OwnRequest* request : requests) {
        if (request == nullptr) continue;
        const auto known = std::find_if(latest_.begin(), latest_.end(), [&](const auto& each) {
            return each.first == request->stream;
        });
        if (known == latest_.end()) {
            latest_.emplace_back(request->stream, request);
        } else if (known->second->number < request->number) {
            known->second = request;
        }
    }
    for (const auto& [stream, request] : latest_) {
        if (request->note.holds()) {
            notes_.push_back(std::move(request->note));
            continue;
        }
        notes_.push_back(TRY(session_.note({stream})));
    }
    return executor_.follow_others(session_.group(), session_.device(), notes_);
}

Done DeviceExecution::enqueue(std::string_view label, std::span<OwnRequest* const> requests,
                              const Enqueue& call) {
    TRY(gather_notes(requests));
    const bool shown = trace_.timeline.on() && session_.group().path() == DevicePath::nccl;
    const auto show = [&](bool begins) {
        for (const OwnRequest* request : requests) {
            if (!shown || request == nullptr) continue;
            const Activity activity{request->name, Phase::nccl,
                                    shown_kind(request->descriptor.kind), process_set_};
            begins ? trace_.timeline.begin(activity) : trace_.timeline.end(activity);
        }
    };
    show(true);
    auto started = session_.started(call(std::span(notes_)), label);
    show(false);
    notes_.clear();
    const DeviceTicket ticket = TRY(std::move(started));
    executor_.enqueued(session_.group(), session_.device());
    for (OwnRequest* request : requests) {
        if (request == nullptr) continue;
        request->ticket = ticket;
        request->note = DeviceNote();
    }
    return {};
}

Outcome<const DeviceExecution::Spare*> DeviceExecution::spare(const Descriptor& what,
                                                              std::size_t bytes) {
    Spare& spare = spares_[{what.datatype, what.op}];
    if (!spare.neutral.empty() && spare.bytes >= bytes) return &spare;
    const std::size_t wanted = std::max(bytes, 2 * spare.bytes);
    std::vector<std::byte> content(wanted);
    fill_neutral(content, what.datatype, what.op);
    for (auto* memories : {&spare.neutral, &spare.unwanted}) {
        memories->push_back(TRY(session_.group().copy_of(content)));
    }
    spare.bytes = wanted;
    return &spare;
}

Done DeviceExecution::allreduce(std::string_view label, const Descriptor& what,
                                std::span<OwnRequest* const> requests,
                                std::span<const std::size_t> counts) {
    const std::size_t element_bytes = datatype_bytes(what.datatype);
    DeviceReduction reduction = reduction_of(what);
    const Spare* stand_in = nullptr;
    if (std::find(requests.begin(), requests.end(), nullptr) != requests.end()) {
        std::size_t bytes = 0;
        for (const std::size_t count : counts)
            bytes += round_up(count * element_bytes, tensor_alignment);
        stand_in = TRY(spare(what, bytes));
        // A scaled neutral element is no longer neutral, unless it is zero.
        if (!linear(what.op)) reduction.prescale = 1;
    }
    parts_.clear();
    std::size_t at = 0;
    for (std::size_t index = 0; index < requests.size(); ++index) {
        const OwnRequest* request = requests[index];
        if (request != nullptr) {
            parts_.push_back({request->send, request->recv, counts[index]});
            continue;
        }
        parts_.push_back({stand_in->neutral.back().get() + at, stand_in->unwanted.back().get() + at,
                          counts[index]});
        at += round_up(counts[index] * element_bytes, tensor_alignment);
    }
    auto done = enqueue(label, requests, [&](const DeviceStart& start) {
        return session_.group().allreduce(parts_, reduction, start);
    });
    if (done) trace_.counters.add_collective(MPIB_ALLREDUCE, 0, {});
    return done;
}

Outcome<std::byte*> DeviceExecution::result_memory(OwnRequest& request, std::size_t bytes) {
    if (request.recv != nullptr) return request.recv;
    if (bytes == 0) return nullptr;
    request.device_owned = TRY(session_.group().result_memory(bytes, {request.stream}));
    // The operation must start after its memory is allocated in the stream, so an earlier position
    // of the stream is of no use.
    request.note = DeviceNote();
    return request.device_owned.get();
}

Done DeviceExecution::broadcast(std::string_view label, OwnRequest& request) {
    const auto& ranks = group_.ranks;
    const auto root = static_cast<int>(
        std::lower_bound(ranks.begin(), ranks.end(), request.descriptor.root) - ranks.begin());
    const DevicePart part{request.send, request.recv, request.bytes};
    OwnRequest* const requests[] = {&request};
    request.result_rows = request.rows;
    return enqueue(label, requests, [&](const DeviceStart& start) {
        return session_.group().broadcast(std::span(&part, 1), root, start);
    });
}

Done DeviceExecution::reduce_scatter(std::string_view label, OwnRequest& request) {
    const Descriptor& what = request.descriptor;
    const std::size_t row = row_elements(what);
    const auto counts = scatter_counts(request, group_.size());
    const std::size_t own = counts[static_cast<std::size_t>(group_.own)];
    const auto recv = TRY(result_memory(request, own * datatype_bytes(what.datatype)));
    request.result_rows = row == 0 ? 0 : static_cast<std::int64_t>(own / row);
    OwnRequest* const requests[] = {&request};
    return enqueue(label, requests, [&](const DeviceStart& start) {
        return session_.group().reduce_scatter(request.send, recv, counts, reduction_of(what),
                                               start);
    });
}

Done DeviceExecution::allgather(Communicator& host, const Communicator::Call& call,
                                OwnRequest& request) {
    TRY(gather_row_counts(host, call, request));
    const auto lengths = lengths_of(request.received_rows, row_bytes(request.descriptor));
    const auto recv = TRY(
        result_memory(request, std::accumulate(lengths.begin(), lengths.end(), std::size_t{0})));
    OwnRequest* const requests[] = {&request};
    return enqueue(call.name, requests, [&](const DeviceStart& start) {
        return session_.group().allgather(request.send, recv, lengths, start);
    });
}

Done DeviceExecution::alltoall(Communicator& host, const Communicator::Call& call,
                               OwnRequest& request) {
    const auto splits = splits_of(request, group_.size());
    TRY(exchange_row_counts(host, call, splits, request));
    const std::size_t bytes_each = row_bytes(request.descriptor);
    const auto out = lengths_of(splits, bytes_each);
    const auto in = lengths_of(request.received_rows, bytes_each);
    const auto recv =
        TRY(result_memory(request, std::accumulate(in.begin(), in.end(), std::size_t{0})));
    OwnRequest* const requests[] = {&request};
    return enqueue(call.name, requests, [&](const DeviceStart& start) {
        return session_.group().alltoall(request.send, out, recv, in, start);
    });
}

Done DeviceExecution::run_single(Communicator& host, const Communicator::Call& call,
                                 OwnRequest& request) {
    Done done;
    switch (request.descriptor.kind) {
        case Kind::broadcast:
            done = broadcast(call.name, request);
            break;
        case Kind::reduce_scatter:
            done = reduce_scatter(call.name, request);
            break;
        case Kind::allgather:
            done = allgather(host, call, request);
            break;
        case Kind::alltoall:
            done = alltoall(host, call, request);
            break;
        default:
            return fail(MPIB_ERROR_INTERNAL, std::string(name_of(request.descriptor.kind)) +
                                                 " is not an operation on device memory");
    }
    if (done) trace_.counters.add_collective(shown_kind(request.descriptor.kind), 0, {});
    return done;
}

}  // namespace mpi_bridge
