// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/device_host.hpp"

#include <cstring>
#include <memory>

#include "reduce/reduction.hpp"

namespace mpi_bridge {
namespace {

// Numbers the calls, so that members that are not at the same one are found out.
class Stage {
  public:
    Stage(Communicator& communicator, std::function<Seconds()> timeout)
        : communicator_(communicator), timeout_(std::move(timeout)) {}

    [[nodiscard]] Communicator& communicator() { return communicator_; }
    [[nodiscard]] Communicator::Call next() {
        return {"a chunk of device memory", ++calls_, timeout_()};
    }
    [[nodiscard]] static Outcome<const Reduction*> reduction(mpib_datatype datatype, mpib_op op) {
        const Reduction* found = find_reduction(datatype, op);
        if (found == nullptr)
            return fail(MPIB_ERROR_INVALID_ARGUMENT, why_no_reduction(datatype, op));
        return found;
    }

  private:
    Communicator& communicator_;
    std::function<Seconds()> timeout_;
    std::uint64_t calls_ = 0;
};

}  // namespace

HostCollectives host_collectives(Communicator& communicator, std::function<Seconds()> timeout) {
    const auto stage = std::make_shared<Stage>(communicator, std::move(timeout));
    HostCollectives host;
    host.allreduce = [stage](std::byte* data, std::size_t count, mpib_datatype datatype,
                             mpib_op op) -> Done {
        auto reduction = Stage::reduction(datatype, op);
        if (!reduction) return pass_on(std::move(reduction));
        return stage->communicator().allreduce(stage->next(), **reduction, data, data, count);
    };
    host.broadcast = [stage](std::span<std::byte> data, int root) {
        return stage->communicator().broadcast(stage->next(), data, root);
    };
    host.allgather = [stage](std::span<const std::span<std::byte>> parts) {
        return stage->communicator().allgather(stage->next(), parts);
    };
    host.reduce_scatter = [stage](const std::byte* send, std::byte* recv,
                                  std::span<const std::size_t> counts, mpib_datatype datatype,
                                  mpib_op op) -> Done {
        auto reduction = Stage::reduction(datatype, op);
        if (!reduction) return pass_on(std::move(reduction));
        return stage->communicator().reduce_scatter(stage->next(), **reduction, send, recv, counts);
    };
    host.alltoall = [stage](std::span<const std::span<const std::byte>> out,
                            std::span<const std::span<std::byte>> in) {
        return stage->communicator().alltoall(stage->next(), out, in);
    };
    return host;
}

}  // namespace mpi_bridge
