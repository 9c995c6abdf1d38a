// SPDX-License-Identifier: Apache-2.0
#include "pending.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include <ATen/Functions.h>

#include "arguments.hpp"
#include "backend.hpp"
#include "streams.hpp"

namespace mpi_bridge::torch {

namespace {

/// The library takes the caller's word for where and what recv is.
void require_alike(const Operation& operation) {
    const auto& send = operation.send;
    const auto& recv = operation.recv;
    TORCH_CHECK_VALUE(send.device() == recv.device(), "the input is on ", send.device(),
                      ", the output on ", recv.device(), "; both must be on the same");
    TORCH_CHECK_VALUE(!operation.reduction || send.scalar_type() == recv.scalar_type(),
                      "the input has elements of ", send.scalar_type(), ", the output of ",
                      recv.scalar_type());
    const auto is_in_place = operation.kind == MPIB_ALLREDUCE || operation.kind == MPIB_BROADCAST;
    TORCH_CHECK_VALUE(!is_in_place || send.nbytes() == recv.nbytes(), "the input has ",
                      send.nbytes(), " bytes, the output ", recv.nbytes());
}

/// Whether two plain tensors share memory.
bool overlap(const at::Tensor& first, const at::Tensor& second) {
    const auto* const one = static_cast<const std::byte*>(first.data_ptr());
    const auto* const other = static_cast<const std::byte*>(second.data_ptr());
    const std::less<const std::byte*> before;
    return before(one, other + second.nbytes()) && before(other, one + first.nbytes());
}

bool divides_rows(mpib_kind kind) {
    return kind == MPIB_ALLGATHER || kind == MPIB_ALLTOALL;
}

}  // namespace

Signature signature_of(const Operation& operation) {
    Signature found{.kind = operation.kind};
    // The lengths of these differ from rank to rank.
    if (operation.send.defined() && !divides_rows(operation.kind)) {
        found.scalar_type = static_cast<int>(operation.send.scalar_type());
        found.elements = operation.send.numel();
    }
    if (operation.reduction) {
        found.op = operation.reduction->op;
    }
    if (operation.root) {
        found.root = *operation.root;
    }
    return found;
}

Description::Description(const Operation& operation, const std::string& name, int process_set,
                         bool is_waited_for) {
    described_.struct_bytes = sizeof described_;
    described_.kind = operation.kind;
    described_.name = name.c_str();
    described_.process_set = process_set;
    described_.flags = is_waited_for ? MPIB_WAITED_FOR : 0;
    if (operation.reduction) {
        described_.op = operation.reduction->op;
        described_.prescale = operation.reduction->prescale;
    }
    if (operation.root) {
        described_.root = *operation.root;
    }
    if (!operation.splits.empty()) {
        described_.splits = operation.splits.data();
    }
    const auto& send = operation.send;
    if (!send.defined()) {
        return;
    }
    const auto datatype = datatype_of(send.scalar_type());
    TORCH_CHECK(datatype, "mpi_bridge moves other elements than its own as bytes");
    described_.datatype = *datatype;
    described_.send = send.data_ptr();
    described_.shape = send.sizes().data();
    described_.dimensions = static_cast<int>(send.dim());
    TORCH_CHECK_VALUE(described_.prescale != 0 || !operation.reduction,
                      "a scale factor of 0 would make every result 0");
    if (operation.recv.defined()) {
        require_alike(operation);
        described_.recv = operation.recv.data_ptr();
        const auto bytes = operation.recv.nbytes();
        described_.recv_bytes = bytes == 0 ? MPIB_NO_BYTES : bytes;
    }
    if (send.is_cuda()) {
        described_.flags |= MPIB_DEVICE;
        // Memory without elements says nothing about its device.
        described_.place = MPIB_ON_DEVICE(send.get_device());
        described_.stream = current_cuda_stream(send.device());
    }
}

Pending::Pending(EngineBackend& group, std::vector<at::Tensor> result, bool is_waited_for)
    : group_(group), is_waited_for_(is_waited_for) {
    parts_.result = std::move(result);
    parts_.limit = group.limit();
    parts_.group = group.group_name();
    parts_.completer = group.completer();
}

at::Tensor Pending::in_place(const at::Tensor& tensor) {
    if (is_plain(tensor)) {
        return tensor.detach();
    }
    auto copied = plain(tensor);
    copy_when_done(copied, tensor);
    return copied;
}

at::Tensor Pending::target(const at::Tensor& tensor, const at::Tensor& send) {
    if (is_plain(tensor) && !(send.defined() && overlap(tensor, send))) {
        return tensor.detach();
    }
    auto made = at::empty(tensor.sizes(), tensor.options());
    copy_when_done(made, tensor);
    return made;
}

void Pending::copy_when_done(at::Tensor source, const at::Tensor& target) {
    when_done([source = std::move(source), place = target.detach()](const auto&) {
        place.copy_(source);
    });
}

void Pending::when_done(std::function<void(const std::vector<InFlight>&)> action) {
    parts_.finish.push_back(std::move(action));
}

void Pending::expect(const char* operation, std::size_t submitted,
                     std::vector<std::int64_t> sizes) {
    parts_.checks.emplace_back([operation, submitted, sizes = std::move(sizes),
                                ranks = group_.ranks_in_engine_order()](const auto& all) {
        require_received(operation, all[submitted], sizes, ranks);
    });
}

void Pending::note_stream(const at::Tensor& tensor) {
    const auto device = tensor.device();
    const auto is_of_device = [&](const c10::Stream& each) { return each.device() == device; };
    std::erase_if(parts_.streams, is_of_device);
    parts_.streams.push_back(current_stream(device));
}

std::size_t Pending::submit(Operation operation) {
    if (operation.send.defined() && operation.send.is_cuda()) {
        note_stream(operation.send);
    }
    auto name = group_.next_name(signature_of(operation), names_);
    // Where the caller waits, nothing goes on beside the reduction, and the copies do not pay.
    if (operation.kind == MPIB_ALLREDUCE && !is_waited_for_) {
        if (const auto place = group_.place_for(name, operation.send); place.defined()) {
            place.copy_(operation.send);
            // This copy must come before the one to a tensor that is not contiguous.
            parts_.finish.insert(parts_.finish.begin(),
                                 [place, own = operation.send](const auto&) { own.copy_(place); });
            operation.send = operation.recv = place;
        }
    }
    // What the engine refuses has used up its name, as in Python.
    const Description description(operation, name, group_.process_set(), is_waited_for_);
    std::vector<at::Tensor> memory{operation.send};
    if (operation.recv.defined()) {
        memory.push_back(operation.recv);
    }
    parts_.in_flight.push_back(InFlight::submit(description.get(), std::move(memory)));
    names_.push_back(std::move(name));
    return parts_.in_flight.size() - 1;
}

c10::intrusive_ptr<c10d::Work> Pending::work() {
    auto work = c10::make_intrusive<EngineWork>(std::move(parts_));
    group_.remember(work, std::move(names_));
    return work;
}

}  // namespace mpi_bridge::torch
