// SPDX-License-Identifier: Apache-2.0
#include "gpu/staged/group.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/parts.hpp"
#include "core/quiet_thread.hpp"
#include "gpu/bucket.hpp"

namespace mpi_bridge {
namespace {

std::vector<DevicePart> without_empty(std::span<const DevicePart> parts) {
    std::vector<DevicePart> filled;
    std::ranges::copy_if(parts, std::back_inserter(filled),
                         [](const DevicePart& part) { return part.count != 0; });
    return filled;
}

constexpr std::size_t staging_alignment = 16;

}  // namespace

StagedGroup::StagedGroup(DeviceGroupOptions options, std::string why,
                         std::unique_ptr<WorkQueue> outbound, std::unique_ptr<WorkQueue> inbound)
    : options_(std::move(options)),
      why_(std::move(why)),
      outbound_(std::move(outbound)),
      inbound_(std::move(inbound)),
      staging_(*outbound_, *inbound_, abandoned_,
               {fmt::format("{}, rank {}", options_.name, options_.rank),
                round_up(std::max(options_.chunk_bytes, staging_alignment), staging_alignment),
                options_.patience}),
      thread_(start_quiet_thread([this] { serve(); })) {}

StagedGroup::~StagedGroup() {
    StagedGroup::abandon({MPIB_ERROR_NOT_INITIALIZED, options_.name + " is closed"});
    thread_.join();
    // The memory must not be freed while copies from and to it are in flight. Pinned memory is not:
    // freeing it waits for the device.
    for (WorkQueue* queue : {outbound_.get(), inbound_.get()}) {
        abandoned_ = false;
        const auto last = queue->mark();
        if (last && !staging_.await(*queue, *last, "the last copy")) bucket_.leave();
    }
}

std::string StagedGroup::describe() const {
    return "host-staged: " + why_;
}

Outcome<DeviceNote> StagedGroup::note(DeviceStream stream) {
    const auto noted = TRY(outbound_->note(stream));
    return DeviceNote(*outbound_, noted.event);
}

Outcome<Memory> StagedGroup::result_memory(std::size_t bytes, DeviceStream stream) {
    return outbound_->result_memory(bytes, stream);
}

Outcome<Memory> StagedGroup::copy_of(std::span<const std::byte> content) {
    return outbound_->copy_of(content);
}

Done StagedGroup::usable() const {
    if (!broken_) return {};
    return tl::unexpected<Failure>(*broken_);
}

void StagedGroup::abandon(const Lock& /*lock*/, const Failure& cause) {
    if (!broken_) broken_ = cause;
    for (const Job& job : jobs_) {
        for (const auto& noted : job.ready)
            outbound_->forget(noted);
    }
    jobs_.clear();
    abandoned_ = true;
    changed_.notify_all();
}

void StagedGroup::abandon(const Failure& cause) {
    abandon(Lock(mutex_), cause);
}

// ---- The caller's side -------------------------------------------------------------------------

Outcome<DeviceTicket> StagedGroup::submit(const DeviceStart& start, Work work) {
    const Lock lock(mutex_);
    TRY(usable());
    auto ready = outbound_->take(start);
    if (!ready) {
        abandon(lock, ready.error());
        return pass_on(std::move(ready));
    }
    jobs_.push_back({std::move(*ready), std::move(work)});
    changed_.notify_all();
    return DeviceTicket{++submitted_};
}

Outcome<DeviceTicket> StagedGroup::allreduce(std::span<const DevicePart> parts,
                                             const DeviceReduction& reduction,
                                             const DeviceStart& start) {
    const auto format = TRY(staged_format(reduction));
    TRY(check_parts(parts, shape_of(format.packing).tensor_bytes));
    return submit(start, [this, tensors = without_empty(parts), format, op = reduction.op] {
        return reduce(tensors, format, op);
    });
}

Outcome<DeviceTicket> StagedGroup::reduce_scatter(const void* send, void* recv,
                                                  std::span<const std::size_t> counts,
                                                  const DeviceReduction& reduction,
                                                  const DeviceStart& start) {
    const auto format = TRY(staged_format(reduction));
    TRY(check_lengths(counts, options_.size));
    const DevicePart whole{send, const_cast<void*>(send), sum_of(counts)};
    const DevicePart own{recv, recv, counts[static_cast<std::size_t>(options_.rank)]};
    for (const DevicePart& part : {whole, own}) {
        TRY(check_parts(std::span(&part, 1), shape_of(format.packing).tensor_bytes));
    }
    return submit(start, [this, whole, recv, format, op = reduction.op,
                          lengths = std::vector(counts.begin(), counts.end())] {
        return scatter(whole, recv, lengths, format, op);
    });
}

Outcome<DeviceTicket> StagedGroup::broadcast(std::span<const DevicePart> parts, int root,
                                             const DeviceStart& start) {
    if (root < 0 || root >= options_.size) {
        return invalid(fmt::format("root {} is not one of {} ranks", root, options_.size));
    }
    return submit(start,
                  [this, tensors = without_empty(parts), root] { return spread(tensors, root); });
}

Outcome<DeviceTicket> StagedGroup::allgather(const void* send, void* recv,
                                             std::span<const std::size_t> lengths,
                                             const DeviceStart& start) {
    TRY(check_lengths(lengths, options_.size));
    const auto rank = static_cast<std::size_t>(options_.rank);
    const std::size_t total = sum_of(lengths);
    const Staging::Whole whole{
        total,         static_cast<const std::byte*>(send), sum_of(lengths.first(rank)),
        lengths[rank], static_cast<std::byte*>(recv),       0,
        total};
    return submit(start, [this, whole, each = std::vector(lengths.begin(), lengths.end())] {
        return staging_.run_whole(whole, [&](std::span<std::byte> all) {
            return options_.host.allgather(cut(all.data(), each));
        });
    });
}

Outcome<DeviceTicket> StagedGroup::alltoall(const void* send,
                                            std::span<const std::size_t> send_lengths, void* recv,
                                            std::span<const std::size_t> recv_lengths,
                                            const DeviceStart& start) {
    for (const auto lengths : {send_lengths, recv_lengths}) {
        TRY(check_lengths(lengths, options_.size));
    }
    const std::size_t out = sum_of(send_lengths);
    const std::size_t in = sum_of(recv_lengths);
    const std::size_t in_at = round_up(out, staging_alignment);
    const Staging::Whole whole{in_at + in, static_cast<const std::byte*>(send), 0,
                               out,        static_cast<std::byte*>(recv),       in_at,
                               in};
    return submit(start,
                  [this, whole, out_each = std::vector(send_lengths.begin(), send_lengths.end()),
                   in_each = std::vector(recv_lengths.begin(), recv_lengths.end())] {
                      return staging_.run_whole(whole, [&](std::span<std::byte> all) {
                          const std::byte* from = all.data();
                          return options_.host.alltoall(cut(from, out_each),
                                                        cut(all.data() + whole.in_at, in_each));
                      });
                  });
}

Outcome<bool> StagedGroup::poll(const DeviceTicket& ticket) {
    const Lock lock(mutex_);
    TRY(usable());
    if (ticket.number > enqueued_) return false;
    auto reached = inbound_->reached(marks_[ticket.number % marks_kept]);
    if (!reached) abandon(lock, reached.error());
    return reached;
}

Done StagedGroup::make_stream_wait(const DeviceTicket& ticket, DeviceStream stream,
                                   Seconds longest) {
    Lock lock(mutex_);
    // Once this has returned, a caller may free its memory, even after a failure. So it waits until
    // the group's thread is no longer in an operation.
    const auto known = [&] { return broken_ ? !working_ : ticket.number <= enqueued_; };
    const Deadline deadline = Deadline::in(longest);
    if (!changed_.wait_until(lock, deadline.when(), known)) {
        return fail(MPIB_ERROR_TIMEOUT,
                    fmt::format("{}, rank {}: operation {} was not done within {} s", options_.name,
                                options_.rank, ticket.number, longest.count()));
    }
    TRY(usable());
    return inbound_->hold(stream, marks_[ticket.number % marks_kept]);
}

Done StagedGroup::close(Deadline deadline) {
    Lock lock(mutex_);
    const auto idle = [&] { return broken_ || enqueued_ == submitted_; };
    if (!changed_.wait_until(lock, deadline.when(), idle)) {
        abandon(lock, {MPIB_ERROR_TIMEOUT,
                       fmt::format("{}, rank {}: {} operations were not done in time",
                                   options_.name, options_.rank, submitted_ - enqueued_)});
    }
    TRY(usable());
    abandon(lock, {MPIB_ERROR_NOT_INITIALIZED, options_.name + " is closed"});
    return {};
}

// ---- The group's thread ------------------------------------------------------------------------

void StagedGroup::serve() {
    Lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return broken_ || !jobs_.empty(); });
        if (broken_) return;
        const Job job = std::move(jobs_.front());
        jobs_.pop_front();
        working_ = true;
        lock.unlock();
        auto done = perform(job);
        auto mark = inbound_->mark();
        lock.lock();
        working_ = false;
        if (!done) {
            abandon(lock, done.error());
        } else if (!mark) {
            abandon(lock, mark.error());
        } else {
            ++enqueued_;
            marks_[enqueued_ % marks_kept] = *mark;
        }
        changed_.notify_all();
    }
}

Done StagedGroup::perform(const Job& job) {
    TRY(outbound_->after_all(job.ready));
    // The bucket is in use until the last operation's result has been moved out of it.
    const auto last = TRY(outbound_->note(inbound_->stream()));
    TRY(outbound_->after(last));
    return job.work();
}

Done StagedGroup::move(std::span<const DevicePart> parts, Codec codec, Way way, std::byte* bucket,
                       double factor) {
    kernels::Arguments arguments{};
    arguments.bucket = reinterpret_cast<std::uintptr_t>(bucket);
    arguments.factor = factor;
    arguments.divisor = 1;
    WorkQueue& queue = way == Way::pack ? *outbound_ : *inbound_;
    for (const auto& launch : launches_for(parts, lay_out(parts), way, arguments)) {
        TRY(queue.launch(codec, way, launch));
    }
    return {};
}

Done StagedGroup::reduce(std::span<const DevicePart> parts, const StagedFormat& format,
                         mpib_op op) {
    const auto shape = shape_of(format.packing);
    const auto on_host = [&](std::span<std::byte> chunk) {
        return options_.host.allreduce(chunk.data(), chunk.size() / shape.wire_bytes,
                                       format.datatype, op);
    };
    if (parts.empty()) return {};
    if (parts.size() == 1 && is_copy(format.packing)) {
        const DevicePart& part = parts[0];
        auto* recv = static_cast<std::byte*>(part.recv);
        TRY(staging_.run(static_cast<const std::byte*>(part.send), recv,
                         part.count * shape.wire_bytes, on_host));
        if (is_copy(format.unpacking)) return {};
        return move(parts, format.unpacking, Way::unpack, recv, format.unpack_factor);
    }
    const std::size_t bytes = lay_out(parts).elements * shape.wire_bytes;
    const auto bucket = TRY(take_bucket(bytes));
    TRY(move(parts, format.packing, Way::pack, bucket, format.pack_factor));
    TRY(staging_.run(bucket, bucket, bytes, on_host));
    return move(parts, format.unpacking, Way::unpack, bucket, format.unpack_factor);
}

Outcome<std::byte*> StagedGroup::take_bucket(std::size_t bytes) {
    return bucket_.take(bytes,
                        [this](std::size_t size) { return outbound_->ordered_memory(size); });
}

Done StagedGroup::scatter(const DevicePart& whole, void* recv, std::span<const std::size_t> counts,
                          const StagedFormat& format, mpib_op op) {
    if (whole.count == 0) return {};
    const std::size_t wire_bytes = shape_of(format.packing).wire_bytes;
    const std::size_t own = counts[static_cast<std::size_t>(options_.rank)];
    const std::size_t out = whole.count * wire_bytes;
    const std::size_t in_at = round_up(out, staging_alignment);
    const auto bucket = TRY(take_bucket(in_at + own * wire_bytes));
    TRY(move(std::span(&whole, 1), format.packing, Way::pack, bucket, format.pack_factor));
    const Staging::Whole way{in_at + own * wire_bytes, bucket, 0, out, bucket + in_at, in_at,
                             own * wire_bytes};
    TRY(staging_.run_whole(way, [&](std::span<std::byte> all) {
        return options_.host.reduce_scatter(all.data(), all.data() + in_at, counts, format.datatype,
                                            op);
    }));
    const DevicePart part{nullptr, recv, own};
    return move(std::span(&part, 1), format.unpacking, Way::unpack, bucket + in_at,
                format.unpack_factor);
}

Done StagedGroup::spread(std::span<const DevicePart> parts, int root) {
    if (parts.empty()) return {};
    const bool sends = options_.rank == root;
    const auto on_host = [&](std::span<std::byte> chunk) {
        return options_.host.broadcast(chunk, root);
    };
    const std::size_t bytes = lay_out(parts).elements;
    const auto bucket = TRY(take_bucket(bytes));
    if (sends) TRY(move(parts, Codec::copy8, Way::pack, bucket, 1));
    // The root gets its own bytes back too, so that its recv is written as on any other rank.
    TRY(staging_.run(sends ? bucket : nullptr, bucket, bytes, on_host));
    return move(parts, Codec::copy8, Way::unpack, bucket, 1);
}

}  // namespace mpi_bridge
