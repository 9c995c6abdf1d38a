// SPDX-License-Identifier: Apache-2.0
#include "gpu/staged_group.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "gpu/bucket.hpp"

namespace mpi_bridge {
namespace {

std::size_t sum_of(std::span<const std::size_t> lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
}

Done check_lengths(std::span<const std::size_t> lengths, int size) {
    if (lengths.size() == static_cast<std::size_t>(size)) return {};
    return fail(MPIB_ERROR_INVALID_ARGUMENT,
                fmt::format("{} lengths were given for {} ranks", lengths.size(), size));
}

// Cuts memory into consecutive parts.
template <typename Byte>
std::vector<std::span<Byte>> cut(Byte* memory, std::span<const std::size_t> lengths) {
    std::vector<std::span<Byte>> parts;
    parts.reserve(lengths.size());
    for (const std::size_t length : lengths) {
        parts.emplace_back(memory, length);
        memory += length;
    }
    return parts;
}

std::vector<DevicePart> without_empty(std::span<const DevicePart> parts) {
    std::vector<DevicePart> filled;
    std::ranges::copy_if(parts, std::back_inserter(filled),
                         [](const DevicePart& part) { return part.count != 0; });
    return filled;
}

constexpr std::size_t alignment = 16;

std::size_t rounded_up(std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

StagedGroup::StagedGroup(DeviceGroupOptions options, std::string why,
                         std::unique_ptr<WorkQueue> outbound, std::unique_ptr<WorkQueue> inbound)
    : options_(std::move(options)),
      why_(std::move(why)),
      outbound_(std::move(outbound)),
      inbound_(std::move(inbound)),
      staging_(*outbound_, *inbound_, stopped_,
               {fmt::format("{}, rank {}", options_.name, options_.rank),
                rounded_up(std::max(options_.chunk_bytes, alignment)), options_.patience}),
      thread_([this] { serve(); }) {}

StagedGroup::~StagedGroup() {
    stop({MPIB_ERROR_NOT_INITIALIZED, options_.name + " is closed"});
    // Memory must not go while copies from and to it are under way.
    for (WorkQueue* queue : {outbound_.get(), inbound_.get()}) {
        stopped_ = false;
        if (const auto last = queue->mark()) {
            static_cast<void>(staging_.await(*queue, *last, "the last copy"));
        }
    }
}

std::string StagedGroup::describe() const {
    return "host-staged: " + why_;
}

Outcome<DeviceNote> StagedGroup::note(DeviceStream stream) {
    auto noted = outbound_->note(stream);
    if (!noted) return pass_on(std::move(noted));
    return DeviceNote(*outbound_, noted->event);
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

void StagedGroup::break_with(Failure failure) {
    if (!broken_) broken_ = std::move(failure);
    for (const Job& job : jobs_) {
        for (const auto& noted : job.ready)
            outbound_->forget(noted);
    }
    jobs_.clear();
    stopped_ = true;
    changed_.notify_all();
}

// ---- The caller's side -------------------------------------------------------------------------

Outcome<DeviceTicket> StagedGroup::submit(const DeviceStart& start, Work work) {
    const std::lock_guard lock(mutex_);
    if (auto fine = usable(); !fine) return pass_on(std::move(fine));
    auto ready = outbound_->take(start);
    if (!ready) {
        break_with(ready.error());
        return pass_on(std::move(ready));
    }
    jobs_.push_back({std::move(*ready), std::move(work)});
    changed_.notify_all();
    return DeviceTicket{++submitted_};
}

Outcome<DeviceTicket> StagedGroup::allreduce(std::span<const DevicePart> parts,
                                             const DeviceReduction& reduction,
                                             const DeviceStart& start) {
    auto plan = plan_staged(reduction);
    if (!plan) return pass_on(std::move(plan));
    auto fine = check_parts(parts, shape_of(plan->packing).tensor_bytes);
    if (!fine) return pass_on(std::move(fine));
    return submit(start, [this, tensors = without_empty(parts), plan = *plan, op = reduction.op] {
        return reduce(tensors, plan, op);
    });
}

Outcome<DeviceTicket> StagedGroup::reduce_scatter(const void* send, void* recv,
                                                  std::span<const std::size_t> counts,
                                                  const DeviceReduction& reduction,
                                                  const DeviceStart& start) {
    auto plan = plan_staged(reduction);
    if (!plan) return pass_on(std::move(plan));
    if (auto fine = check_lengths(counts, options_.size); !fine) return pass_on(std::move(fine));
    const DevicePart whole{send, const_cast<void*>(send), sum_of(counts)};
    const DevicePart own{recv, recv, counts[static_cast<std::size_t>(options_.rank)]};
    for (const DevicePart& part : {whole, own}) {
        auto fine = check_parts(std::span(&part, 1), shape_of(plan->packing).tensor_bytes);
        if (!fine) return pass_on(std::move(fine));
    }
    return submit(start, [this, whole, recv, plan = *plan, op = reduction.op,
                          lengths = std::vector(counts.begin(), counts.end())] {
        return scatter(whole, recv, lengths, plan, op);
    });
}

Outcome<DeviceTicket> StagedGroup::broadcast(std::span<const DevicePart> parts, int root,
                                             const DeviceStart& start) {
    if (root < 0 || root >= options_.size) {
        return fail(MPIB_ERROR_INVALID_ARGUMENT,
                    fmt::format("root {} is not one of {} ranks", root, options_.size));
    }
    return submit(start,
                  [this, tensors = without_empty(parts), root] { return spread(tensors, root); });
}

Outcome<DeviceTicket> StagedGroup::allgather(const void* send, void* recv,
                                             std::span<const std::size_t> lengths,
                                             const DeviceStart& start) {
    if (auto fine = check_lengths(lengths, options_.size); !fine) return pass_on(std::move(fine));
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
        if (auto fine = check_lengths(lengths, options_.size); !fine) {
            return pass_on(std::move(fine));
        }
    }
    const std::size_t out = sum_of(send_lengths);
    const std::size_t in = sum_of(recv_lengths);
    const std::size_t in_at = rounded_up(out);
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
    const std::lock_guard lock(mutex_);
    if (auto fine = usable(); !fine) return pass_on(std::move(fine));
    if (ticket.number > enqueued_) return false;
    auto reached = inbound_->reached(marks_[ticket.number % marks_kept]);
    if (!reached) break_with(reached.error());
    return reached;
}

Done StagedGroup::make_stream_wait(const DeviceTicket& ticket, DeviceStream stream,
                                   Seconds longest) {
    std::unique_lock lock(mutex_);
    // Once this has returned, a caller may free its memory, even after a failure.
    const auto known = [&] { return broken_ ? !working_ : ticket.number <= enqueued_; };
    const Deadline deadline = Deadline::in(longest);
    if (!changed_.wait_until(lock, deadline.when(), known)) {
        return fail(MPIB_ERROR_TIMEOUT,
                    fmt::format("{}, rank {}: operation {} was not done within {} s", options_.name,
                                options_.rank, ticket.number, longest.count()));
    }
    if (auto fine = usable(); !fine) return fine;
    return inbound_->hold(stream, marks_[ticket.number % marks_kept]);
}

Done StagedGroup::close(Deadline deadline) {
    {
        std::unique_lock lock(mutex_);
        const auto idle = [&] { return broken_ || enqueued_ == submitted_; };
        if (!changed_.wait_until(lock, deadline.when(), idle)) {
            break_with({MPIB_ERROR_TIMEOUT,
                        fmt::format("{}, rank {}: {} operations were not done in time",
                                    options_.name, options_.rank, submitted_ - enqueued_)});
        }
        if (auto fine = usable(); !fine) return fine;
    }
    stop({MPIB_ERROR_NOT_INITIALIZED, options_.name + " is closed"});
    return {};
}

void StagedGroup::abort() {
    const std::lock_guard lock(mutex_);
    break_with(
        {MPIB_ERROR_INTERNAL, fmt::format("{}, rank {}: aborted", options_.name, options_.rank)});
}

void StagedGroup::stop(Failure failure) {
    {
        const std::lock_guard lock(mutex_);
        break_with(std::move(failure));
    }
    if (thread_.joinable()) thread_.join();
}

// ---- The group's thread ------------------------------------------------------------------------

void StagedGroup::serve() {
    std::unique_lock lock(mutex_);
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
            break_with(std::move(done).error());
        } else if (!mark) {
            break_with(std::move(mark).error());
        } else {
            ++enqueued_;
            marks_[enqueued_ % marks_kept] = *mark;
        }
        changed_.notify_all();
    }
}

Done StagedGroup::perform(const Job& job) {
    for (const auto& noted : job.ready) {
        if (auto done = outbound_->after(noted); !done) return done;
    }
    // The bucket is in use until the last operation's result is out of it.
    auto last = outbound_->note(inbound_->stream());
    if (!last) return pass_on(std::move(last));
    if (auto done = outbound_->after(*last); !done) return done;
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
        if (auto done = queue.launch(codec, way, launch); !done) return done;
    }
    return {};
}

Done StagedGroup::reduce(std::span<const DevicePart> parts, const StagedPlan& plan, mpib_op op) {
    const auto shape = shape_of(plan.packing);
    const auto on_host = [&](std::span<std::byte> chunk) {
        return options_.host.allreduce(chunk.data(), chunk.size() / shape.wire_bytes, plan.datatype,
                                       op);
    };
    if (parts.empty()) return {};
    if (parts.size() == 1 && is_copy(plan.packing)) {
        const DevicePart& part = parts[0];
        auto* recv = static_cast<std::byte*>(part.recv);
        auto done = staging_.run(static_cast<const std::byte*>(part.send), recv,
                                 part.count * shape.wire_bytes, on_host);
        if (!done || is_copy(plan.unpacking)) return done;
        return move(parts, plan.unpacking, Way::unpack, recv, plan.unpack_factor);
    }
    const std::size_t bytes = lay_out(parts).elements * shape.wire_bytes;
    auto bucket = bucket_.take(*outbound_, bytes);
    if (!bucket) return pass_on(std::move(bucket));
    auto done = move(parts, plan.packing, Way::pack, *bucket, plan.pack_factor);
    if (!done) return done;
    if (done = staging_.run(*bucket, *bucket, bytes, on_host); !done) return done;
    return move(parts, plan.unpacking, Way::unpack, *bucket, plan.unpack_factor);
}

Done StagedGroup::scatter(const DevicePart& whole, void* recv, std::span<const std::size_t> counts,
                          const StagedPlan& plan, mpib_op op) {
    if (whole.count == 0) return {};
    const std::size_t wire_bytes = shape_of(plan.packing).wire_bytes;
    const std::size_t own = counts[static_cast<std::size_t>(options_.rank)];
    const std::size_t out = whole.count * wire_bytes;
    const std::size_t in_at = rounded_up(out);
    auto bucket = bucket_.take(*outbound_, in_at + own * wire_bytes);
    if (!bucket) return pass_on(std::move(bucket));
    auto done = move(std::span(&whole, 1), plan.packing, Way::pack, *bucket, plan.pack_factor);
    if (!done) return done;
    const Staging::Whole way{in_at + own * wire_bytes, *bucket, 0, out, *bucket + in_at, in_at,
                             own * wire_bytes};
    done = staging_.run_whole(way, [&](std::span<std::byte> all) {
        return options_.host.reduce_scatter(all.data(), all.data() + in_at, counts, plan.datatype,
                                            op);
    });
    if (!done) return done;
    const DevicePart part{nullptr, recv, own};
    return move(std::span(&part, 1), plan.unpacking, Way::unpack, *bucket + in_at,
                plan.unpack_factor);
}

Done StagedGroup::spread(std::span<const DevicePart> parts, int root) {
    if (parts.empty()) return {};
    const bool sends = options_.rank == root;
    const auto on_host = [&](std::span<std::byte> chunk) {
        return options_.host.broadcast(chunk, root);
    };
    const std::size_t bytes = lay_out(parts).elements;
    auto bucket = bucket_.take(*outbound_, bytes);
    if (!bucket) return pass_on(std::move(bucket));
    if (sends) {
        auto done = move(parts, Codec::copy8, Way::pack, *bucket, 1);
        if (!done) return done;
    }
    // The root gets its own bytes back too, so that its recv is written like any other.
    auto done = staging_.run(sends ? *bucket : nullptr, *bucket, bytes, on_host);
    if (!done) return done;
    return move(parts, Codec::copy8, Way::unpack, *bucket, 1);
}

}  // namespace mpi_bridge
