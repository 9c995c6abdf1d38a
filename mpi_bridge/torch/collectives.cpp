// SPDX-License-Identifier: Apache-2.0
//
// What each collective of torch is in operations of the engine.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include <ATen/Functions.h>

#include "arguments.hpp"
#include "backend.hpp"
#include "sparse.hpp"

namespace mpi_bridge::torch {

namespace {

using Tensors = EngineBackend::Tensors;

/// Whether torch waits for the operation as soon as it has been started.
template <typename Options>
bool is_waited_for(const Options& opts) {
    // Older versions of torch do not say.
    if constexpr (requires { opts.asyncOp; }) {
        return !opts.asyncOp;
    } else {
        return false;
    }
}

at::Tensor empty_like(std::int64_t elements, const at::Tensor& like) {
    return at::empty({elements}, like.options());
}

/// Flat memory for all parts, one after the other.
at::Tensor whole_of(const Tensors& parts, const at::Tensor& like) {
    std::int64_t elements = 0;
    for (const auto& part : parts) {
        elements += part.numel();
    }
    return empty_like(elements, like);
}

/// The pieces of flat memory in the parts' shapes.
Tensors split_like(const at::Tensor& whole, const Tensors& parts) {
    Tensors pieces;
    std::int64_t place = 0;
    for (const auto& part : parts) {
        pieces.push_back(whole.narrow(0, place, part.numel()).view(part.sizes()));
        place += part.numel();
    }
    return pieces;
}

Tensors flattened(const std::vector<Tensors>& lists) {
    Tensors all;
    for (const auto& list : lists) {
        std::ranges::copy(list, std::back_inserter(all));
    }
    return all;
}

}  // namespace

template <typename Part>
std::vector<Part> EngineBackend::engine_order(const std::vector<Part>& parts) const {
    std::vector<Part> ordered;
    ordered.reserve(parts.size());
    for (const auto member : in_engine_order_) {
        ordered.push_back(parts[member]);
    }
    return ordered;
}

std::vector<int> EngineBackend::ranks_in_engine_order() const {
    return engine_order(group_.members);
}

int EngineBackend::job_rank(std::int64_t member) const {
    require_member(member, getSize());
    return group_.members[member];
}

Tensors EngineBackend::members_order(const Tensors& parts) const {
    Tensors ordered(parts.size());
    for (std::size_t place = 0; place < parts.size(); ++place) {
        ordered[in_engine_order_[place]] = parts[place];
    }
    return ordered;
}

void EngineBackend::require_one_each(const char* operation, std::size_t parts) const {
    TORCH_CHECK_VALUE(parts == group_.members.size(), operation, ": ", parts, " tensors for ",
                      getSize(), " ranks");
}

// Reductions.

EngineBackend::WorkPtr EngineBackend::allreduce(Tensors& tensors,
                                                const c10d::AllreduceOptions& opts) {
    return allreduce_all(tensors, opts);
}

EngineBackend::WorkPtr EngineBackend::allreduce_sparse(Tensors& tensors,
                                                       const c10d::AllreduceOptions& opts) {
    return allreduce_all(tensors, opts);
}

EngineBackend::WorkPtr EngineBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
    return allreduce_all(tensors, opts);
}

EngineBackend::WorkPtr EngineBackend::allreduce_all(Tensors& tensors,
                                                    const c10d::AllreduceOptions& opts) {
    const auto waits = is_waited_for(opts);
    if (waits && tensors.size() == 1 && !is_xor(opts.reduceOp) &&
        tensors.front().layout() == c10::kStrided && is_plain(tensors.front())) {
        const auto& tensor = tensors.front();
        const auto reduction = reduction_of(opts.reduceOp, tensor.scalar_type());
        const auto flat = reducible(tensor.detach(), reduction);
        if (run_now({.kind = MPIB_ALLREDUCE, .send = flat, .recv = flat, .reduction = reduction})) {
            return work_that_is_done();
        }
    }
    Pending pending(*this, tensors, waits);
    for (const auto& tensor : tensors) {
        if (tensor.layout() != c10::kStrided) {
            submit_sparse(pending, tensor, opts.reduceOp, getSize());
            continue;
        }
        if (is_xor(opts.reduceOp)) {
            xor_all(pending, tensor, tensor);
            continue;
        }
        const auto reduction = reduction_of(opts.reduceOp, tensor.scalar_type());
        const auto flat = reducible(pending.in_place(tensor), reduction);
        pending.submit(
            {.kind = MPIB_ALLREDUCE, .send = flat, .recv = flat, .reduction = reduction});
    }
    return pending.work();
}

EngineBackend::WorkPtr EngineBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
    const auto& tensor = tensors.at(0);
    Pending pending(*this, tensors, is_waited_for(opts));
    const auto root = job_rank(opts.rootRank);
    const auto is_root = opts.rootRank == group_.rank;
    if (is_xor(opts.reduceOp)) {
        xor_all(pending, tensor, is_root ? tensor : at::Tensor());
        return pending.work();
    }
    const auto reduction = reduction_of(opts.reduceOp, tensor.scalar_type());
    const auto source = is_root ? pending.in_place(tensor) : plain(tensor);
    const auto flat = reducible(source, reduction);
    pending.submit({.kind = MPIB_REDUCE,
                    .send = flat,
                    .recv = is_root ? flat : at::Tensor(),
                    .reduction = reduction,
                    .root = root});
    return pending.work();
}

EngineBackend::WorkPtr EngineBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                           const c10d::ReduceScatterOptions& opts) {
    Tensors outputs{output};
    Tensors inputs{input};
    return reduce_scatter_tensor_coalesced(outputs, inputs, opts);
}

EngineBackend::WorkPtr EngineBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& opts) {
    Pending pending(*this, outputs, is_waited_for(opts));
    for (std::size_t place = 0; place < std::min(outputs.size(), inputs.size()); ++place) {
        const auto& output = outputs[place];
        const auto& source = inputs[place];
        TORCH_CHECK_VALUE(source.numel() == output.numel() * getSize(),
                          "reduce_scatter: the input has ", source.numel(), " elements, not ",
                          getSize(), " times the output's ", output.numel());
        const auto flat = plain(source).view({-1});
        if (!is_ascending_ || is_xor(opts.reduceOp)) {
            reduce_scatter_parts(pending, output, flat.chunk(getSize()), opts.reduceOp);
            continue;
        }
        const auto reduction = reduction_of(opts.reduceOp, source.scalar_type());
        pending.submit({.kind = MPIB_REDUCE_SCATTER,
                        .send = reducible(flat, reduction),
                        .recv = reducible(pending.target(output, flat), reduction),
                        .reduction = reduction});
    }
    return pending.work();
}

EngineBackend::WorkPtr EngineBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                     const c10d::ReduceScatterOptions& opts) {
    Pending pending(*this, outputs, is_waited_for(opts));
    for (std::size_t place = 0; place < std::min(outputs.size(), inputs.size()); ++place) {
        require_one_each("reduce_scatter", inputs[place].size());
        require_place_for(outputs[place], inputs[place][group_.rank]);
        Tensors flat;
        for (const auto& part : inputs[place]) {
            flat.push_back(part.detach().reshape({-1}));
        }
        reduce_scatter_parts(pending, outputs[place], flat, opts.reduceOp);
    }
    return pending.work();
}

/// Reduces flat parts, one for each member, and leaves each member its own.
void EngineBackend::reduce_scatter_parts(Pending& pending, const at::Tensor& output,
                                         const Tensors& parts, const c10d::ReduceOp& op) {
    const auto ordered = engine_order(parts);
    const auto own = parts[group_.rank].numel();
    if (is_xor(op)) {
        require_one_type("reduce_scatter", output, parts);
        const auto size = getSize();
        const auto whole = empty_like(own * size, output);
        std::vector<std::int64_t> splits;
        for (const auto& part : ordered) {
            splits.push_back(static_cast<std::int64_t>(part.nbytes()));
        }
        const auto submitted = pending.submit({.kind = MPIB_ALLTOALL,
                                               .send = as_bytes(at::cat(ordered)),
                                               .recv = as_bytes(whole),
                                               .splits = std::move(splits)});
        const auto expected = static_cast<std::int64_t>(parts[group_.rank].nbytes());
        pending.expect("reduce_scatter", submitted, std::vector<std::int64_t>(size, expected));
        pending.when_done([whole, size, place = output.detach()](const auto&) {
            place.copy_(xor_of(whole.chunk(size)).view(place.sizes()));
        });
        return;
    }
    const auto whole = at::cat(ordered);
    const auto reduction = reduction_of(op, whole.scalar_type());
    const auto flat = reducible(whole, reduction);
    const auto is_equal = std::ranges::all_of(
        parts, [&](const auto& part) { return part.numel() == parts.front().numel(); });
    if (is_equal) {
        pending.submit({.kind = MPIB_REDUCE_SCATTER,
                        .send = flat,
                        .recv = reducible(pending.target(output), reduction),
                        .reduction = reduction});
        return;
    }
    // The engine divides only into equal parts.
    pending.submit({.kind = MPIB_ALLREDUCE, .send = flat, .recv = flat, .reduction = reduction});
    std::int64_t place = 0;
    for (int before = 0; before < engine_rank_; ++before) {
        place += ordered[before].numel();
    }
    pending.copy_when_done(whole.narrow(0, place, own).view(output.sizes()), output);
}

/// Gathers all members' tensors, and combines them in the target if there is one.
void EngineBackend::xor_all(Pending& pending, const at::Tensor& source, const at::Tensor& target) {
    const auto flat = plain(source).view({-1});
    TORCH_CHECK_VALUE(!flat.is_floating_point() && !flat.is_complex(), "BXOR of ",
                      flat.scalar_type(), ": it is for integers and truth values");
    const auto size = getSize();
    const auto whole = empty_like(flat.numel() * size, flat);
    pending.submit({.kind = MPIB_ALLGATHER, .send = as_bytes(flat), .recv = as_bytes(whole)});
    if (!target.defined()) {
        return;
    }
    pending.when_done([whole, size, place = target.detach()](const auto&) {
        place.copy_(xor_of(whole.chunk(size)).view(place.sizes()));
    });
}

// Collectives that move data of any type.

EngineBackend::WorkPtr EngineBackend::broadcast(Tensors& tensors,
                                                const c10d::BroadcastOptions& opts) {
    const auto waits = is_waited_for(opts);
    const auto root = job_rank(opts.rootRank);
    if (waits && tensors.size() == 1 && is_plain(tensors.front())) {
        const auto flat = as_bytes(tensors.front().detach());
        if (run_now({.kind = MPIB_BROADCAST, .send = flat, .recv = flat, .root = root})) {
            return work_that_is_done();
        }
    }
    Pending pending(*this, tensors, waits);
    for (const auto& tensor : tensors) {
        const auto flat = as_bytes(pending.in_place(tensor));
        pending.submit({.kind = MPIB_BROADCAST, .send = flat, .recv = flat, .root = root});
    }
    return pending.work();
}

EngineBackend::WorkPtr EngineBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::AllgatherOptions& opts) {
    Tensors outputs{output};
    Tensors inputs{input};
    return allgather_into_tensor_coalesced(outputs, inputs, opts);
}

EngineBackend::WorkPtr EngineBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
    Pending pending(*this, outputs, is_waited_for(opts));
    for (std::size_t place = 0; place < std::min(outputs.size(), inputs.size()); ++place) {
        const auto& output = outputs[place];
        const auto& source = inputs[place];
        TORCH_CHECK_VALUE(output.numel() == source.numel() * getSize(),
                          "all_gather: the output has ", output.numel(), " elements, not ",
                          getSize(), " times the input's ", source.numel());
        require_one_type("all_gather", source, {output});
        const auto send = as_bytes(plain(source));
        if (is_ascending_) {
            const auto* const first = static_cast<const std::byte*>(output.data_ptr());
            const auto is_in_place = send.data_ptr() == first + group_.rank * send.nbytes();
            const auto target = pending.target(output, is_in_place ? at::Tensor() : send);
            const auto recv = as_bytes(target);
            pending.submit({.kind = MPIB_ALLGATHER, .send = send, .recv = recv});
            continue;
        }
        const auto whole = empty_like(output.numel(), output);
        pending.submit({.kind = MPIB_ALLGATHER, .send = send, .recv = as_bytes(whole)});
        pending.when_done([place = output.detach(),
                           ordered = members_order(whole.chunk(getSize()))](const auto&) {
            place.copy_(at::cat(ordered).view(place.sizes()));
        });
    }
    return pending.work();
}

EngineBackend::WorkPtr EngineBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions& opts) {
    Pending pending(*this, flattened(outputs), is_waited_for(opts));
    for (std::size_t place = 0; place < std::min(outputs.size(), inputs.size()); ++place) {
        const auto& source = inputs[place];
        require_one_each("all_gather", outputs[place].size());
        require_one_type("all_gather", source, outputs[place]);
        const auto whole = whole_of(outputs[place], source);
        const auto submitted = pending.submit(
            {.kind = MPIB_ALLGATHER, .send = as_bytes(plain(source)), .recv = as_bytes(whole)});
        const auto ordered = engine_order(outputs[place]);
        pending.expect("all_gather", submitted, bytes_of(ordered));
        const auto pieces = split_like(whole, ordered);
        for (std::size_t part = 0; part < ordered.size(); ++part) {
            pending.copy_when_done(pieces[part], ordered[part]);
        }
    }
    return pending.work();
}

EngineBackend::WorkPtr EngineBackend::allgather_coalesced(std::vector<Tensors>& outputs,
                                                          Tensors& inputs,
                                                          const c10d::AllgatherOptions& opts) {
    require_one_each("all_gather_coalesced", outputs.size());
    std::vector<Tensors> by_tensor(inputs.size());
    for (const auto& of_rank : outputs) {
        for (std::size_t place = 0; place < std::min(inputs.size(), of_rank.size()); ++place) {
            by_tensor[place].push_back(of_rank[place]);
        }
    }
    return allgather(by_tensor, inputs, opts);
}

EngineBackend::WorkPtr EngineBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                             const c10d::GatherOptions& opts) {
    const auto& source = inputs.at(0);
    require_member(opts.rootRank, getSize());
    const auto is_root = opts.rootRank == group_.rank;
    const auto parts = outputs.empty() ? Tensors() : outputs.front();
    if (is_root) {
        require_one_each("gather", parts.size());
        require_one_type("gather", source, parts);
    }
    Pending pending(*this, parts, is_waited_for(opts));
    const auto send = as_bytes(plain(source));
    std::vector<std::int64_t> splits(group_.members.size(), 0);
    splits.at(opts.rootRank) = send.numel();
    const auto whole = whole_of(is_root ? parts : Tensors(), source);
    const auto submitted = pending.submit({.kind = MPIB_ALLTOALL,
                                           .send = send,
                                           .recv = as_bytes(whole),
                                           .splits = engine_order(splits)});
    if (is_root) {
        const auto ordered = engine_order(parts);
        pending.expect("gather", submitted, bytes_of(ordered));
        const auto pieces = split_like(whole, ordered);
        for (std::size_t part = 0; part < ordered.size(); ++part) {
            pending.copy_when_done(pieces[part], ordered[part]);
        }
    }
    return pending.work();
}

EngineBackend::WorkPtr EngineBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                              const c10d::ScatterOptions& opts) {
    const auto& output = outputs.at(0);
    require_member(opts.rootRank, getSize());
    std::vector<std::int64_t> splits(group_.members.size(), 0);
    auto send = at::empty({0}, output.options().dtype(at::kByte));
    if (opts.rootRank == group_.rank) {
        const auto parts = inputs.empty() ? Tensors() : inputs.front();
        require_one_each("scatter", parts.size());
        require_one_type("scatter", output, parts);
        Tensors pieces;
        splits.clear();
        for (const auto& part : engine_order(parts)) {
            pieces.push_back(as_bytes(plain(part)));
            splits.push_back(pieces.back().numel());
        }
        send = at::cat(pieces);
    }
    Pending pending(*this, outputs, is_waited_for(opts));
    const auto recv = as_bytes(pending.target(output));
    const auto submitted = pending.submit(
        {.kind = MPIB_ALLTOALL, .send = send, .recv = recv, .splits = std::move(splits)});
    std::vector<std::int64_t> expected(group_.members.size(), 0);
    expected[opts.rootRank] = static_cast<std::int64_t>(output.nbytes());
    pending.expect("scatter", submitted, engine_order(expected));
    return pending.work();
}

EngineBackend::WorkPtr EngineBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                    std::vector<int64_t>& output_rows,
                                                    std::vector<int64_t>& input_rows,
                                                    const c10d::AllToAllOptions& opts) {
    const auto rows_in = rows_for_each("all_to_all", input_rows, input, getSize());
    const auto rows_out = rows_for_each("all_to_all", output_rows, output, getSize());
    require_one_type("all_to_all", input, {output});
    if (is_ascending_) {
        Pending pending(*this, {output}, is_waited_for(opts));
        const auto send = as_bytes(plain(input));
        const auto recv = as_bytes(pending.target(output, send));
        const auto submitted = pending.submit({.kind = MPIB_ALLTOALL,
                                               .send = send,
                                               .recv = recv,
                                               .splits = bytes_of_rows(rows_in, input)});
        pending.expect("all_to_all", submitted, bytes_of_rows(rows_out, output));
        return pending.work();
    }
    auto outputs = output.split_with_sizes(rows_out);
    auto inputs = input.split_with_sizes(rows_in);
    return alltoall(outputs, inputs, opts);
}

EngineBackend::WorkPtr EngineBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                               const c10d::AllToAllOptions& opts) {
    require_one_each("all_to_all", inputs.size());
    require_one_each("all_to_all", outputs.size());
    require_one_type("all_to_all", inputs.front(), inputs);
    require_one_type("all_to_all", inputs.front(), outputs);
    Pending pending(*this, outputs, is_waited_for(opts));
    const auto ordered = engine_order(outputs);
    const auto whole = whole_of(ordered, inputs.front());
    Tensors pieces;
    std::vector<std::int64_t> splits;
    for (const auto& part : engine_order(inputs)) {
        pieces.push_back(as_bytes(plain(part)));
        splits.push_back(pieces.back().numel());
    }
    const auto submitted = pending.submit({.kind = MPIB_ALLTOALL,
                                           .send = at::cat(pieces),
                                           .recv = as_bytes(whole),
                                           .splits = std::move(splits)});
    pending.expect("all_to_all", submitted, bytes_of(ordered));
    const auto received = split_like(whole, ordered);
    for (std::size_t part = 0; part < ordered.size(); ++part) {
        pending.copy_when_done(received[part], ordered[part]);
    }
    return pending.work();
}

EngineBackend::WorkPtr EngineBackend::barrier(const c10d::BarrierOptions& opts) {
    Pending pending(*this, {}, is_waited_for(opts));
    // Only a barrier can be given a timeout of its own.
    if (opts.timeout.count() > 0) {
        pending.set_limit(std::chrono::duration<double>(opts.timeout).count());
    }
    pending.submit({.kind = MPIB_BARRIER});
    return pending.work();
}

}  // namespace mpi_bridge::torch
