// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "naming.hpp"
#include "pending.hpp"
#include "staging.hpp"
#include "work/completer.hpp"
#include "work/works.hpp"

namespace mpi_bridge::torch {

/// One group of torch.distributed, over a process set of the engine.
///
/// Operations of a group are matched by their order, as torch requires; naming.hpp turns the order
/// into the engine's names. The engine numbers the members of a process set by ascending ranks.
/// torch allows any order, so parts that belong to members are brought into the engine's order and
/// back.
class EngineBackend final : public c10d::Backend {
  public:
    struct Group {
        std::string name;
        int process_set = MPIB_WORLD;
        bool is_private = false;  // the set ends with the group
        bool is_of_default_group = false;
        std::vector<int> members;     // ranks of the job, in the group's order
        int rank = 0;                 // of this process, in the group
        std::optional<double> limit;  // seconds, if the group has a timeout of its own
    };

    using Tensors = std::vector<at::Tensor>;
    using WorkPtr = c10::intrusive_ptr<c10d::Work>;

    explicit EngineBackend(Group group);

    const std::string getBackendName() const override { return "mpi_bridge"; }
    c10::intrusive_ptr<Options> getBackendOptions() override;
    bool supportsSplitting() const override { return true; }
    c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                      const std::vector<int>& ranks,
                                      const c10::intrusive_ptr<Options>& opts) override;
    // Older versions of torch do not have these two, and call neither.
    bool supportsShrinking() const { return true; }
    /// Makes the group without these of its ranks; the others call this. Operations that are under
    /// way end with an error, whatever the flags say.
    c10::intrusive_ptr<Backend> shrink(const std::vector<int64_t>& excluded, int shrink_flags,
                                       const c10::intrusive_ptr<Options>& opts);

    // Reductions.
    WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
    WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
    WorkPtr allreduce_coalesced(Tensors& tensors,
                                const c10d::AllreduceCoalescedOptions& opts) override;
    WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
    WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                           const c10d::ReduceScatterOptions& opts) override;
    WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                 const c10d::ReduceScatterOptions& opts) override;
    WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                            const c10d::ReduceScatterOptions& opts) override;

    // Collectives that move data of any type.
    WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
    WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                      const c10d::AllgatherOptions& opts) override;
    WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                            const c10d::AllgatherOptions& opts) override;
    WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                const c10d::AllgatherOptions& opts) override;
    WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                            const c10d::AllgatherOptions& opts) override;
    WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                   const c10d::GatherOptions& opts) override;
    WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                    const c10d::ScatterOptions& opts) override;
    WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_rows,
                          std::vector<int64_t>& input_rows,
                          const c10d::AllToAllOptions& opts) override;
    WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
    WorkPtr barrier(const c10d::BarrierOptions& opts) override;

    // Messages; tags tell those between two members apart.
    WorkPtr send(Tensors& tensors, int to, int tag) override;
    WorkPtr recv(Tensors& tensors, int source, int tag) override;
    WorkPtr recvAnysource(Tensors& tensors, int tag) override;
    /// Waits for all members. Member 0 names those that do not come in time.
    void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

    // What torch calls around operations that it wants to be one.
    void startCoalescing() override;
    WorkPtr endCoalescing() override;

    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override;
    /// Limits how long operations take; the default group's limit is the engine's deadline.
    void setTimeout(std::chrono::milliseconds timeout) override;
    /// Ends the group's thread and its process set.
    void shutdown() override;
    /// Lets go of the group without waiting for any member: the futures of its collectives end.
    /// Operations that are under way, and messages, are left to the engine, and the process set
    /// stays until the job ends.
    void abort() override;

    // For Pending.
    [[nodiscard]] const std::string& group_name() const { return group_.name; }
    [[nodiscard]] int process_set() const { return group_.process_set; }
    [[nodiscard]] std::optional<double> limit() const { return group_.limit; }
    [[nodiscard]] const std::shared_ptr<Completer>& completer() const { return completer_; }
    /// A name that is not among those `taken` by operations of the same call.
    std::string next_name(const Signature& signature, std::span<const std::string> taken);
    /// The shared memory in which to make an allreduce, or none.
    at::Tensor place_for(const std::string& name, const at::Tensor& flat);
    /// The ranks of the job, in the order in which the engine numbers the members.
    [[nodiscard]] std::vector<int> ranks_in_engine_order() const;
    void remember(const c10::intrusive_ptr<EngineWork>& work, std::vector<std::string> names);

    /// The Works that are not known to be done, for tests.
    [[nodiscard]] std::vector<c10::intrusive_ptr<EngineWork>> in_flight() const {
        return works_->all();
    }

  private:
    /// What belongs to the members, in the order in which the engine numbers them.
    template <typename Part>
    [[nodiscard]] std::vector<Part> engine_order(const std::vector<Part>& parts) const;
    /// What the engine has numbered, in the order of the members.
    [[nodiscard]] Tensors members_order(const Tensors& parts) const;
    [[nodiscard]] int job_rank(std::int64_t member) const;
    void require_one_each(const char* operation, std::size_t parts) const;

    WorkPtr allreduce_all(Tensors& tensors, const c10d::AllreduceOptions& opts);
    void xor_all(Pending& pending, const at::Tensor& source, const at::Tensor& target);
    void reduce_scatter_parts(Pending& pending, const at::Tensor& output, const Tensors& parts,
                              const c10d::ReduceOp& op);
    bool run_now(const Operation& operation);

    WorkPtr message(InFlight in_flight, const Tensors& tensors, const at::Tensor& landed,
                    std::function<int(const InFlight&)> source);
    WorkPtr receive(Tensors& tensors, int from_rank, int tag,
                    std::function<int(const InFlight&)> source);
    [[nodiscard]] std::string channel() const { return "torch." + group_.name; }
    InFlight signal(int member, bool receives) const;
    void await_everybody(std::optional<double> seconds, bool all_ranks);
    void report_to_first(std::optional<double> seconds);

    const std::int64_t session_ = session();
    Group group_;
    std::vector<int> in_engine_order_;  // members, by ascending ranks of the job
    bool is_ascending_ = true;
    int engine_rank_ = 0;
    std::mutex order_;  // guards the names, and the memory that goes by them
    Naming naming_;
    Staging staging_;
    std::shared_ptr<Completer> completer_ = std::make_shared<Completer>();
    std::shared_ptr<Works> works_ = std::make_shared<Works>();
    std::optional<std::vector<c10::intrusive_ptr<EngineWork>>> coalesced_;
    int barriers_ = 0;  // monitored ones
    bool is_aborted_ = false;
};

}  // namespace mpi_bridge::torch
