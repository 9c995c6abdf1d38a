// SPDX-License-Identifier: Apache-2.0
#include "gpu/nccl/group.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "gpu/bucket.hpp"

namespace mpi_bridge {
namespace {

// How long work may take to end after the group was abandoned.
constexpr Seconds longest_end{5};

bool all_equal(std::span<const std::size_t> lengths) {
    return std::adjacent_find(lengths.begin(), lengths.end(), std::not_equal_to<>()) ==
           lengths.end();
}

bool started(nccl::Result result) {
    return result == nccl::success || result == nccl::in_progress;
}

// Makes a call for each item and its index, until one fails.
template <typename Items, typename Call>
nccl::Result for_each(const Items& items, const Call& call) {
    nccl::Result result = nccl::success;
    for (std::size_t at = 0; at < items.size() && started(result); ++at)
        result = call(at, items[at]);
    return result;
}

// The factor as a number of NCCL's type; for 16-bit types, wire/format.cpp uses powers of two only.
std::array<std::byte, 8> scalar_of(nccl::DataType type, double factor) {
    std::array<std::byte, 8> bytes{};
    const auto store = [&](auto value) { std::memcpy(bytes.data(), &value, sizeof value); };
    const auto single = static_cast<float>(factor);
    const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(single) >> 16);
    switch (type) {
        case nccl::float64:
            store(factor);
            break;
        case nccl::bfloat16:
            store(upper);
            break;
        case nccl::float16:
            // The exponent changes from 8 bits with bias 127 to 5 bits with bias 15.
            store(static_cast<std::uint16_t>(((upper >> 7) - 112) << 10));
            break;
        default:
            store(single);
    }
    return bytes;
}

kernels::Arguments arguments_for(const WireFormat& format, Way way, const std::byte* bucket) {
    kernels::Arguments arguments{};
    arguments.bucket = reinterpret_cast<std::uintptr_t>(bucket);
    arguments.factor = way == Way::pack ? format.pack_factor : format.unpack_factor;
    arguments.divisor = format.divisor;
    arguments.nan_is_least = format.nan_is_least ? 1 : 0;
    return arguments;
}

// What is enqueued in `second` later runs after what `first` holds now.
Done follow(CudaQueue& first, const CudaQueue& second) {
    const auto mark = TRY(first.mark());
    return first.hold(second.stream(), mark);
}

Done move(WorkQueue& queue, std::span<const DevicePart> parts, const BucketLayout& layout,
          const WireFormat& format, Way way, const std::byte* bucket) {
    const Codec codec = way == Way::pack ? format.packing : format.unpacking;
    for (const auto& launch :
         launches_for(parts, layout, way, arguments_for(format, way, bucket))) {
        TRY(queue.launch(codec, way, launch));
    }
    return {};
}

}  // namespace

Outcome<std::unique_ptr<DeviceGroup>> NcclGroup::open(const nccl::Library& nccl, CudaDevice& device,
                                                      const DeviceGroupOptions& options) {
    std::unique_ptr<NcclGroup> group(new NcclGroup(nccl, options.rank, options.size));
    NcclCommunicator::Options connection{options.name, options.rank,     options.size,
                                         {},           options.patience, options.watch};
    // A rank that waits for the others in NCCL hears nothing else. So each step that may fail on
    // one rank alone comes before, and the ranks tell each other how it went.
    const auto prepare = [&]() -> Done {
        group->packing_ = TRY(CudaQueue::open(device));
        group->reducing_ = TRY(CudaQueue::open(device));
        group->unpacking_ = TRY(CudaQueue::open(device));
        TRY(device.load_usual_kernels());
        if (options.rank != 0) return {};
        const nccl::Result result = nccl.unique_id(&connection.id);
        if (result == nccl::success) return {};
        return fail(MPIB_ERROR_INTERNAL, fmt::format("{}, rank 0: ncclGetUniqueId failed: {}",
                                                     options.name, nccl.describe(result, nullptr)));
    };
    TRY(agree_on(options, prepare()));
    TRY(options.broadcast_from_first(std::as_writable_bytes(std::span(connection.id.bytes))));
    const auto begin = [&]() -> Done {
        group->communicator_ = TRY(NcclCommunicator::begin(nccl, device, std::move(connection)));
        return {};
    };
    TRY(agree_on(options, begin()));
    TRY(group->communicator_->connect());
    return group;
}

NcclGroup::~NcclGroup() {
    communicator_.reset();
    // The memory of the slots is freed at once, also if work still uses it.
    if (is_idle(Deadline::in(longest_end))) return;
    for (Slot& slot : slots_)
        slot.memory.leave();
}

std::string NcclGroup::describe() const {
    return fmt::format("NCCL {} ({})", nccl::version_text(nccl_.version), nccl_.path);
}

Outcome<DeviceNote> NcclGroup::note(DeviceStream stream) {
    const auto noted = TRY(reducing_->note(stream));
    return DeviceNote(*reducing_, noted.event);
}

Outcome<Memory> NcclGroup::result_memory(std::size_t bytes, DeviceStream stream) {
    return reducing_->result_memory(bytes, stream);
}

// A later operation may begin with packing this memory, or with reducing it.
Outcome<Memory> NcclGroup::copy_of(std::span<const std::byte> content) {
    auto memory = TRY(packing_->copy_of(content));
    TRY(follow(*packing_, *reducing_));
    return memory;
}

cuda::Stream NcclGroup::cuda_stream() const {
    return static_cast<cuda::Stream>(reducing_->stream().handle);
}

// Takes no lock: the thread that holds it may be waiting for NCCL, or in CUDA for a kernel of NCCL
// to end, of this group or of another one on the device.
void NcclGroup::abandon(const Failure& cause) {
    communicator_->abandon(cause);
}

// Work of the callers that these streams wait for may take any time, so this wait is limited.
void NcclGroup::await_abandoned() {
    const Deadline deadline = Deadline::in(longest_end);
    constexpr std::chrono::milliseconds pause{1};
    communicator_->await_abandoned(deadline);
    std::unique_lock lock(mutex_, std::defer_lock);
    while (!lock.try_lock()) {
        if (deadline.passed()) return;
        std::this_thread::sleep_for(pause);
    }
    // What was enqueued around NCCL's kernels uses the callers' memory, too.
    static_cast<void>(is_idle(deadline));
}

// A stream does not wait for the one before it if a call has failed in between, so each is asked.
bool NcclGroup::is_idle(Deadline deadline) const {
    constexpr std::chrono::milliseconds pause{1};
    for (const auto& queue : {packing_.get(), reducing_.get(), unpacking_.get()}) {
        if (queue == nullptr) continue;
        const auto last = queue->mark();
        while (last && !queue->reached(*last).value_or(true)) {
            if (deadline.passed()) return false;
            std::this_thread::sleep_for(pause);
        }
    }
    return true;
}

Outcome<DeviceTicket> NcclGroup::enqueue_work(const DeviceStart& start, const Work& work) {
    const std::lock_guard lock(mutex_);
    TRY(communicator_->usable());
    const auto enqueue_all = [&]() -> Outcome<DeviceTicket> {
        const auto ready = TRY(reducing_->take(start));
        const auto end = TRY(work(ready));
        return DeviceTicket{end.number};
    };
    auto ticket = enqueue_all();
    if (!ticket) abandon(ticket.error());
    return ticket;
}

Outcome<DeviceTicket> NcclGroup::enqueue(const DeviceStart& start, const Body& body) {
    return enqueue_work(start,
                        [&](std::span<const WorkQueue::Noted> ready) -> Outcome<WorkQueue::Mark> {
                            TRY(reducing_->after_all(ready));
                            TRY(body());
                            TRY(follow(*reducing_, *unpacking_));
                            return unpacking_->mark();
                        });
}

Outcome<DeviceTicket> NcclGroup::enqueue(const DeviceStart& start, const Bucket& bucket,
                                         const BucketBody& body) {
    const BucketLayout in = lay_out(bucket.packed);
    const BucketLayout out = lay_out(bucket.unpacked);
    return enqueue_work(
        start, [&](std::span<const WorkQueue::Noted> ready) -> Outcome<WorkQueue::Mark> {
            Slot& slot = slots_[next_slot_++ % slots_.size()];
            TRY(reducing_->hold(packing_->stream(), ready));
            TRY(unpacking_->hold(packing_->stream(), slot.free));
            std::byte* const memory = TRY(slot.memory.take(
                in.elements * shape_of(bucket.format.packing).wire_bytes,
                [this](std::size_t bytes) { return packing_->ordered_memory(bytes); }));
            TRY(move(*packing_, bucket.packed, in, bucket.format, Way::pack, memory));
            TRY(follow(*packing_, *reducing_));
            TRY(body(memory));
            TRY(follow(*reducing_, *unpacking_));
            TRY(move(*unpacking_, bucket.unpacked, out, bucket.format, Way::unpack,
                     memory + bucket.unpacked_at));
            slot.free = TRY(unpacking_->mark());
            return slot.free;
        });
}

Done NcclGroup::with_op(const WireFormat& format, const std::function<Done(nccl::RedOp)>& body) {
    if (format.factor_in_sum == 1) return body(format.op);
    auto scalar = scalar_of(format.type, format.factor_in_sum);
    nccl::RedOp op = format.op;
    TRY(communicator_->call("ncclRedOpCreatePreMulSum", [&](nccl::Communicator comm) {
        return nccl_.create_pre_mul_sum(&op, scalar.data(), format.type, nccl::scalar_on_host,
                                        comm);
    }));
    auto done = body(op);
    // The operation may be destroyed as soon as the last call with it has returned.
    auto freed = communicator_->call(
        "ncclRedOpDestroy", [&](nccl::Communicator comm) { return nccl_.destroy_op(op, comm); });
    return done ? freed : done;
}

Done NcclGroup::reduce_one(const DevicePart& part, const WireFormat& format) {
    TRY(with_op(format, [&](nccl::RedOp op) {
        return communicator_->call("ncclAllReduce", [&](nccl::Communicator comm) {
            return nccl_.all_reduce(part.send, part.recv, part.count * format.items, format.type,
                                    op, comm, cuda_stream());
        });
    }));
    if (is_copy(format.unpacking)) return {};
    BucketLayout in_place{{0}, part.count};
    return move(*reducing_, std::span(&part, 1), in_place, format, Way::unpack,
                static_cast<const std::byte*>(part.recv));
}

Outcome<DeviceTicket> NcclGroup::allreduce(std::span<const DevicePart> parts,
                                           const DeviceReduction& reduction,
                                           const DeviceStart& start) {
    const auto format = TRY(wire_format(reduction, size_));
    TRY(check_parts(parts, shape_of(format.packing).tensor_bytes));
    const auto filled = [](const DevicePart& part) { return part.count != 0; };
    const auto tensors = std::ranges::count_if(parts, filled);
    const bool packed = tensors > 1 || (tensors == 1 && !format.direct());
    if (!packed) {
        return enqueue(start, [&]() -> Done {
            if (tensors == 0) return {};
            return reduce_one(*std::ranges::find_if(parts, filled), format);
        });
    }
    const WireFormat around = format.for_bucket();
    const std::size_t count = lay_out(parts).elements * around.items;
    return enqueue(start, {around, parts, parts}, [&](std::byte* bucket) {
        return communicator_->call("ncclAllReduce", [&](nccl::Communicator comm) {
            return nccl_.all_reduce(bucket, bucket, count, around.type, around.op, comm,
                                    cuda_stream());
        });
    });
}

// Scatters equal parts with one NCCL call, and unequal parts with one reduction to each rank.
Done NcclGroup::scatter_sum(const std::byte* send, std::byte* recv,
                            std::span<const std::size_t> counts, const WireFormat& format) {
    const std::size_t bytes = shape_of(format.packing).wire_bytes;
    return with_op(format, [&](nccl::RedOp op) {
        if (all_equal(counts)) {
            return communicator_->call("ncclReduceScatter", [&](nccl::Communicator comm) {
                return nccl_.reduce_scatter(send, recv, counts[0] * format.items, format.type, op,
                                            comm, cuda_stream());
            });
        }
        return communicator_->group("ncclReduce", [&](nccl::Communicator comm) {
            std::size_t at = 0;
            return for_each(counts, [&](std::size_t root, std::size_t count) {
                const auto* from = send + std::exchange(at, at + count) * bytes;
                if (count == 0) return nccl::success;
                const auto to = static_cast<int>(root);
                return nccl_.reduce(from, to == rank_ ? recv : nullptr, count * format.items,
                                    format.type, op, to, comm, cuda_stream());
            });
        });
    });
}

Outcome<DeviceTicket> NcclGroup::reduce_scatter(const void* send, void* recv,
                                                std::span<const std::size_t> counts,
                                                const DeviceReduction& reduction,
                                                const DeviceStart& start) {
    const auto format = TRY(wire_format(reduction, size_));
    TRY(check_lengths(counts, size_));
    const std::size_t own = counts[static_cast<std::size_t>(rank_)];
    const DevicePart parts[] = {{send, const_cast<void*>(send), sum_of(counts)}, {recv, recv, own}};
    TRY(check_parts(parts, shape_of(format.packing).tensor_bytes));
    if (parts[0].count != 0 && !format.direct()) {
        const std::size_t at = sum_of(counts.first(static_cast<std::size_t>(rank_))) *
                               shape_of(format.packing).wire_bytes;
        return enqueue(
            start, {format, std::span(&parts[0], 1), std::span(&parts[1], 1), at},
            [&](std::byte* bucket) { return scatter_sum(bucket, bucket + at, counts, format); });
    }
    return enqueue(start, [&]() -> Done {
        if (parts[0].count == 0) return {};
        TRY(scatter_sum(static_cast<const std::byte*>(send), static_cast<std::byte*>(recv), counts,
                        format));
        if (is_copy(format.unpacking) || own == 0) return {};
        return move(*reducing_, std::span(&parts[1], 1), {{0}, own}, format, Way::unpack,
                    static_cast<const std::byte*>(recv));
    });
}

Outcome<DeviceTicket> NcclGroup::broadcast(std::span<const DevicePart> parts, int root,
                                           const DeviceStart& start) {
    if (root < 0 || root >= size_) {
        return invalid(fmt::format("root {} is not one of {} ranks", root, size_));
    }
    return enqueue(start, [&] {
        return communicator_->group("ncclBroadcast", [&](nccl::Communicator comm) {
            return for_each(parts, [&](std::size_t, const DevicePart& part) {
                if (part.count == 0) return nccl::success;
                return nccl_.broadcast(part.send, part.recv, part.count, nccl::int8, root, comm,
                                       cuda_stream());
            });
        });
    });
}

Outcome<DeviceTicket> NcclGroup::allgather(const void* send, void* recv,
                                           std::span<const std::size_t> lengths,
                                           const DeviceStart& start) {
    TRY(check_lengths(lengths, size_));
    return enqueue(start, [&]() -> Done {
        if (sum_of(lengths) == 0) return {};
        if (all_equal(lengths)) {
            return communicator_->call("ncclAllGather", [&](nccl::Communicator comm) {
                return nccl_.all_gather(send, recv, lengths[0], nccl::int8, comm, cuda_stream());
            });
        }
        return communicator_->group("ncclBroadcast", [&](nccl::Communicator comm) {
            auto* to = static_cast<std::byte*>(recv);
            return for_each(lengths, [&](std::size_t rank, std::size_t length) {
                auto* const part = std::exchange(to, to + length);
                if (length == 0) return nccl::success;
                const auto root = static_cast<int>(rank);
                return nccl_.broadcast(root == rank_ ? send : part, part, length, nccl::int8, root,
                                       comm, cuda_stream());
            });
        });
    });
}

Outcome<DeviceTicket> NcclGroup::alltoall(const void* send,
                                          std::span<const std::size_t> send_lengths, void* recv,
                                          std::span<const std::size_t> recv_lengths,
                                          const DeviceStart& start) {
    TRY(check_lengths(send_lengths, size_));
    TRY(check_lengths(recv_lengths, size_));
    return enqueue(start, [&] {
        return communicator_->group("ncclSend and ncclRecv", [&](nccl::Communicator comm) {
            const auto* from = static_cast<const std::byte*>(send);
            auto* to = static_cast<std::byte*>(recv);
            return for_each(send_lengths, [&](std::size_t rank, std::size_t out) {
                const auto peer = static_cast<int>(rank);
                const std::size_t in = recv_lengths[rank];
                const auto* const data = std::exchange(from, from + out);
                auto* const room = std::exchange(to, to + in);
                nccl::Result result = nccl::success;
                if (out != 0) result = nccl_.send(data, out, nccl::int8, peer, comm, cuda_stream());
                if (in == 0 || !started(result)) return result;
                return nccl_.recv(room, in, nccl::int8, peer, comm, cuda_stream());
            });
        });
    });
}

Outcome<bool> NcclGroup::poll(const DeviceTicket& ticket) {
    const std::lock_guard lock(mutex_);
    TRY(communicator_->usable());
    auto reached = unpacking_->reached({ticket.number});
    if (!reached) {
        abandon(reached.error());
    } else if (!*reached) {
        if (auto fine = communicator_->check(); !fine) abandon(fine.error());
    }
    TRY(communicator_->usable());
    return reached;
}

Done NcclGroup::make_stream_wait(const DeviceTicket& ticket, DeviceStream stream,
                                 Seconds /*longest*/) {
    const std::lock_guard lock(mutex_);
    TRY(communicator_->usable());
    return unpacking_->hold(stream, WorkQueue::Mark{ticket.number});
}

Done NcclGroup::close(Deadline deadline) {
    const std::lock_guard lock(mutex_);
    TRY(communicator_->usable());
    return communicator_->close(deadline);
}

}  // namespace mpi_bridge
