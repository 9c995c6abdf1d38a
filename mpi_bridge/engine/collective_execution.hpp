// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "core/failure.hpp"
#include "engine/device_work.hpp"
#include "engine/execute/host_execution.hpp"
#include "engine/process_set_state.hpp"

namespace mpi_bridge {

// Runs the collectives of one channel of a process set, on a communicator of its own: in host
// memory, or on the device. The members must make the same sequence of calls. Only one thread at a
// time may use it, without the lock of the state.
class CollectiveExecution {
  public:
    CollectiveExecution(ProcessSetState& state, DeviceWork& devices)
        : state_(state),
          devices_(devices),
          scratch_(state.host.parts().allocate, state.host.parts().free) {}

    [[nodiscard]] Done open(Channel::Lane lane) {
        communicator_ = TRY(state_.open(lane));
        host_.emplace(*communicator_, scratch_, state_.trace(), state_.process_set);
        return {};
    }
    // Frees everything.
    void let_go() {
        host_.reset();
        communicator_.reset();
        scratch_.give_back();
    }

    [[nodiscard]] Communicator& communicator() { return *communicator_; }
    [[nodiscard]] HostExecution& host() { return *host_; }

    // Runs the operations of a group, but no change of process sets. A request is null if this rank
    // takes part without a tensor.
    [[nodiscard]] Done run(const Communicator::Call& call, const FusedGroup& group,
                           std::span<OwnRequest* const> requests) {
        if (group.what.device)
            return devices_.run(*communicator_, call, group.what, requests, group.counts);
        if (group.what.kind != Kind::allreduce) return host_->run_single(call, *requests.front());
        return host_->allreduce(call, group.what, tensors_of(requests, group.counts));
    }

    // The memory of allreduces, valid until the next call; see tensor_of().
    [[nodiscard]] std::span<const Tensor> tensors_of(std::span<OwnRequest* const> requests,
                                                     std::span<const std::size_t> counts) {
        tensors_.clear();
        for (std::size_t at = 0; at < requests.size(); ++at)
            tensors_.push_back(tensor_of(requests[at], counts[at]));
        return tensors_;
    }

  private:
    ProcessSetState& state_;
    DeviceWork& devices_;
    std::unique_ptr<Communicator> communicator_;
    Scratch scratch_;
    std::optional<HostExecution> host_;
    std::vector<Tensor> tensors_;  // kept to reuse its memory
};

}  // namespace mpi_bridge
