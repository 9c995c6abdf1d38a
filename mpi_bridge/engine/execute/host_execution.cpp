// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/host_execution.hpp"

#include <algorithm>
#include <cstring>

#include "engine/execute/neutral.hpp"
#include "reduce/reduction.hpp"
#include "trace/bus_bytes.hpp"

namespace mpi_bridge {
namespace {

std::size_t total(std::span<const Tensor> tensors) {
    std::size_t count = 0;
    for (const Tensor& tensor : tensors)
        count += tensor.count;
    return count;
}

// Whether all results, and all inputs, lie side by side in memory.
bool adjacent(std::span<const Tensor> tensors, std::size_t element_bytes) {
    for (std::size_t at = 0; at < tensors.size(); ++at) {
        if (tensors[at].send == nullptr) return false;
        if (at == 0) continue;
        const std::size_t before = tensors[at - 1].count * element_bytes;
        if (tensors[at].send != tensors[at - 1].send + before) return false;
        if (tensors[at].recv != tensors[at - 1].recv + before) return false;
    }
    return true;
}

void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

// Shows one phase of all tensors of a bucket in the timeline, for as long as this object lives.
class Shown {
  public:
    Shown(Timeline& timeline, std::span<const Tensor> tensors, Phase phase, Kind kind, int set)
        : timeline_(timeline), tensors_(tensors), phase_(phase), kind_(kind), set_(set) {
        if (!timeline_.on()) return;
        for (const Tensor& tensor : tensors_)
            timeline_.begin({tensor.name, phase_, shown_kind(kind_), set_});
    }
    ~Shown() {
        if (!timeline_.on()) return;
        for (const Tensor& tensor : tensors_)
            timeline_.end({tensor.name, phase_, shown_kind(kind_), set_});
    }
    Shown(const Shown&) = delete;
    Shown& operator=(const Shown&) = delete;

  private:
    Timeline& timeline_;
    std::span<const Tensor> tensors_;
    Phase phase_;
    Kind kind_;
    int set_;
};

Phase phase_of(Communicator::Way way) {
    switch (way) {
        case Communicator::Way::shared_memory:
            return Phase::shm;
        case Communicator::Way::network:
            return Phase::ucx;
        case Communicator::Way::both:
            break;
    }
    return Phase::shm_ucx;
}

}  // namespace

Tensor tensor_of(const OwnRequest* request, std::size_t count) {
    static const std::byte nothing{};
    if (request == nullptr) return {.name = {}, .send = nullptr, .recv = nullptr, .count = count};
    return {.name = request->name,
            .send = request->send == nullptr ? &nothing : request->send,  // no elements
            .recv = request->recv,
            .count = count};
}

mpib_kind shown_kind(Kind kind) {
    return kind <= Kind::join ? static_cast<mpib_kind>(kind) : MPIB_BARRIER;
}

Clock::time_point HostExecution::transferred(const Descriptor& what, std::size_t bytes,
                                             Clock::time_point began) {
    const mpib_kind kind = shown_kind(what.kind);
    const auto ended = Clock::now();
    trace_.counters.add_collective(kind, bus_bytes(kind, communicator_.group().size(), bytes),
                                   ended - began);
    return ended;
}

int HostExecution::index_of(int global_rank) const {
    const auto& ranks = communicator_.group().ranks;
    return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), global_rank) -
                            ranks.begin());
}

Clock::time_point HostExecution::pack(const Descriptor& what, std::span<const Tensor> tensors,
                                      std::byte* into, Clock::time_point began) {
    const Shown shown(trace_.timeline, tensors, Phase::memcpy_in_fusion_buffer, what.kind,
                      process_set_);
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    std::byte* to = into;
    for (const Tensor& tensor : tensors) {
        const std::size_t bytes = tensor.count * reduction.element_bytes;
        if (tensor.send == nullptr) {
            fill_neutral({to, bytes}, what.datatype, what.op);
        } else {
            copy(to, tensor.send, bytes);
            if (what.prescale != 1) reduction.scale(to, tensor.count, what.prescale);
        }
        to += bytes;
    }
    const auto ended = Clock::now();
    trace_.counters.add_pack(ended - began);
    return ended;
}

void HostExecution::unpack(const Descriptor& what, std::span<const Tensor> tensors,
                           const std::byte* from, Clock::time_point began) {
    const Shown shown(trace_.timeline, tensors, Phase::memcpy_out_fusion_buffer, what.kind,
                      process_set_);
    const std::size_t element_bytes = datatype_bytes(what.datatype);
    for (const Tensor& tensor : tensors) {
        const std::size_t bytes = tensor.count * element_bytes;
        if (tensor.send != nullptr) copy(tensor.recv, from, bytes);
        from += bytes;
    }
    trace_.counters.add_unpack(Clock::now() - began);
}

Outcome<Clock::time_point> HostExecution::transfer(const Communicator::Call& call,
                                                   const Descriptor& what,
                                                   std::span<const Tensor> tensors,
                                                   const Tensor& whole, Clock::time_point began) {
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    const Shown shown(trace_.timeline, tensors, phase_of(communicator_.way()), what.kind,
                      process_set_);
    TRY(communicator_.allreduce(call, reduction, whole.send, whole.recv, whole.count));
    return transferred(what, whole.count * reduction.element_bytes, began);
}

Done HostExecution::allreduce(const Communicator::Call& call, const Descriptor& what,
                              std::span<const Tensor> tensors) {
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    const std::size_t count = total(tensors);
    const std::size_t bytes = count * reduction.element_bytes;
    const bool in_place = adjacent(tensors, reduction.element_bytes);
    const std::byte* send = tensors.front().send;
    std::byte* recv = tensors.front().recv;
    auto at = Clock::now();
    if (!in_place) {
        recv = scratch_.take(bytes).data();
        at = pack(what, tensors, recv, at);
        send = recv;
    } else if (what.prescale != 1) {
        copy(recv, send, bytes);
        reduction.scale(recv, count, what.prescale);
        send = recv;
    }
    at = TRY(transfer(call, what, tensors, {{}, send, recv, count}, at));
    if (what.postscale != 1) reduction.scale(recv, count, what.postscale);
    if (!in_place) unpack(what, tensors, recv, at);
    return {};
}

bool HostExecution::can_check_in_band(const Descriptor& what, std::size_t bytes) const {
    return what.kind == Kind::allreduce && !what.device && bytes <= small_bucket_bytes &&
           communicator_.group().size() <= most_status_ranks(what.datatype);
}

Outcome<bool> HostExecution::allreduce_if_whole(const Communicator::Call& call,
                                                const Descriptor& what,
                                                std::span<const Tensor> tensors, bool whole) {
    const Reduction& reduction = *find_reduction(what.datatype, what.op);
    const std::size_t count = total(tensors);
    const std::size_t bytes = count * reduction.element_bytes;
    const StatusElement status =
        status_element(what.datatype, what.op, communicator_.group().size());
    std::byte* bucket = scratch_.take(bytes + StatusElement::longest).data();
    auto at = pack(what, tensors, bucket, Clock::now());
    std::memcpy(bucket + bytes, whole ? status.good : status.bad, reduction.element_bytes);
    at = TRY(transfer(call, what, tensors, {{}, bucket, bucket, count + 1}, at));
    if (std::memcmp(bucket + bytes, status.good, reduction.element_bytes) != 0) return false;
    if (what.postscale != 1) reduction.scale(bucket, count, what.postscale);
    unpack(what, tensors, bucket, at);
    return true;
}

}  // namespace mpi_bridge
