// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reductions.hpp"
#include "work/work.hpp"

namespace mpi_bridge::torch {

class EngineBackend;

/// An operation of the engine on flat tensors.
struct Operation {
    mpib_kind kind = MPIB_BARRIER;
    at::Tensor send{};
    /// Not defined: the engine's own memory, or none (reduce on other ranks than the root).
    at::Tensor recv{};
    std::optional<Reduction> reduction{};
    /// A rank of the job.
    std::optional<int> root{};
    /// For an alltoall: the elements for each member, in the engine's order.
    std::vector<std::int64_t> splits{};
};

/// The operation as the engine takes it; valid as long as what it was made of.
class Description {
  public:
    Description(const Operation& operation, const std::string& name, int process_set,
                bool is_waited_for);

    [[nodiscard]] const mpib_operation& get() const { return described_; }

  private:
    mpib_operation described_{};
};

/// The properties that are equal on all ranks.
Signature signature_of(const Operation& operation);

/// Collects the operations of one call, and what is to be done with their results.
///
/// Results that cannot be received in place (lists of tensors, tensors that are not contiguous,
/// members in another order than the engine's) are copied to their place when the operations are
/// done.
class Pending {
  public:
    Pending(EngineBackend& group, std::vector<at::Tensor> result, bool is_waited_for);

    /// Contiguous memory with the tensor's values, which receives the result.
    at::Tensor in_place(const at::Tensor& tensor);

    /// Contiguous memory that receives the tensor's new values, apart from `send`.
    at::Tensor target(const at::Tensor& tensor, const at::Tensor& send = {});

    /// Copies when the operations are done, after the copies that were asked for before.
    void copy_when_done(at::Tensor source, const at::Tensor& target);

    /// Calls this when the operations have succeeded, after what was asked for before.
    void when_done(std::function<void(const std::vector<InFlight>&)> action);

    /// Hands an operation to the engine; returns its place among those of this call.
    std::size_t submit(Operation operation);

    /// Fails before any copy unless so many bytes come from the members, in the engine's order, in
    /// the submitted operation at this place. It is for allgather and alltoall.
    void expect(const char* operation, std::size_t submitted, std::vector<std::int64_t> sizes);

    /// Limits the wait, in seconds.
    void set_limit(double seconds) { parts_.limit = seconds; }

    /// The Work that stands for all of it.
    c10::intrusive_ptr<c10d::Work> work();

  private:
    void note_stream(const at::Tensor& tensor);

    EngineBackend& group_;
    EngineWork::Parts parts_;
    std::vector<std::string> names_;
    bool is_waited_for_;
};

}  // namespace mpi_bridge::torch
