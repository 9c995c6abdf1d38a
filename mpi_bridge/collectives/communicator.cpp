// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator.hpp"

#include <cstring>
#include <string>
#include <utility>

#include "collectives/collectives.hpp"
#include "select/selection.hpp"

namespace mpi_bridge {
namespace {

class CommunicatorImplementation final : public Communicator {
  public:
    CommunicatorImplementation(Transport& transport, Options options, AllreduceTable table)
        : transport_(transport), options_(std::move(options)), allreduce_(std::move(table)) {}

    [[nodiscard]] const Group& group() const override { return options_.group; }

    [[nodiscard]] Done allreduce(const Call& call, const Reduction& reduction,
                                 const std::byte* send, std::byte* recv,
                                 std::size_t count) override;
    [[nodiscard]] Done reduce(const Call& call, const Reduction& reduction, const std::byte* send,
                              std::byte* recv, std::size_t count, int root) override;
    [[nodiscard]] Done reduce_scatter(const Call& call, const Reduction& reduction,
                                      const std::byte* send, std::byte* recv,
                                      std::span<const std::size_t> counts) override;
    [[nodiscard]] Done allgather(const Call& call, std::span<const Bytes> parts) override;
    [[nodiscard]] Done broadcast(const Call& call, Bytes data, int root) override;
    [[nodiscard]] Done alltoall(const Call& call, std::span<const ConstBytes> out,
                                std::span<const Bytes> in) override;
    [[nodiscard]] Done barrier(const Call& call) override;
    [[nodiscard]] Outcome<Next> next_call(const std::function<bool()>& stop,
                                          Deadline deadline) override;
    void abandon() override {}

  private:
    [[nodiscard]] Conversation converse(const Call& call);
    [[nodiscard]] Done finished(Done done);

    Transport& transport_;
    Options options_;
    AllreduceTable allreduce_;
    Scratch scratch_;
    Scratch result_;
    std::uint32_t sequence_ = 0;
};

Conversation CommunicatorImplementation::converse(const Call& call) {
    Conversation::Call in_flight;
    in_flight.name = call.name;
    in_flight.sequence = ++sequence_;
    in_flight.agreement = static_cast<std::uint32_t>(call.agreement ^ (call.agreement >> 32));
    in_flight.agreement ^= in_flight.agreement >> 16;
    in_flight.patience = call.patience;
    in_flight.tuning.segment_bytes = options_.settings.segment_bytes;
    in_flight.channel = options_.channel.number();
    in_flight.group = &options_.group;
    return {transport_, scratch_, in_flight};
}

Done CommunicatorImplementation::finished(Done done) {
    if (!done) return done;
    // Hand to the system what the transport still holds, since nobody may call in for a long time.
    for (int looks = 0; looks < 16 && transport_.progress(); ++looks) {
    }
    return done;
}

Done CommunicatorImplementation::allreduce(const Call& call, const Reduction& reduction,
                                           const std::byte* send, std::byte* recv,
                                           std::size_t count) {
    Conversation talk = converse(call);
    const auto algorithm = allreduce_.choose(count * reduction.element_bytes);
    return finished(algorithm == AllreduceAlgorithm::ring
                        ? allreduce_ring(talk, reduction, send, recv, count)
                        : allreduce_recursive_doubling(talk, reduction, send, recv, count));
}

Done CommunicatorImplementation::reduce(const Call& call, const Reduction& reduction,
                                        const std::byte* send, std::byte* recv, std::size_t count,
                                        int root) {
    if (group().own == root) return allreduce(call, reduction, send, recv, count);
    const Bytes unused = result_.take(count * reduction.element_bytes);
    return allreduce(call, reduction, send, unused.data(), count);
}

Done CommunicatorImplementation::reduce_scatter(const Call& call, const Reduction& reduction,
                                                const std::byte* send, std::byte* recv,
                                                std::span<const std::size_t> counts) {
    Conversation talk = converse(call);
    return finished(reduce_scatter_ring(talk, reduction, send, recv, counts));
}

Done CommunicatorImplementation::allgather(const Call& call, std::span<const Bytes> parts) {
    Conversation talk = converse(call);
    return finished(allgather_ring(talk, parts));
}

Done CommunicatorImplementation::broadcast(const Call& call, Bytes data, int root) {
    Conversation talk = converse(call);
    return finished(broadcast_binomial(talk, data, root));
}

Done CommunicatorImplementation::alltoall(const Call& call, std::span<const ConstBytes> out,
                                          std::span<const Bytes> in) {
    Conversation talk = converse(call);
    return finished(alltoall_pairwise(talk, out, in));
}

Done CommunicatorImplementation::barrier(const Call& call) {
    Conversation talk = converse(call);
    return finished(barrier_dissemination(talk));
}

Outcome<Communicator::Next> CommunicatorImplementation::next_call(const std::function<bool()>& stop,
                                                                  Deadline deadline) {
    auto arrival =
        transport_.await_message(options_.channel.number(), sequence_ + 1, stop, deadline);
    if (!arrival) return pass_on(std::move(arrival));
    switch (*arrival) {
        case Transport::Arrival::message:
            return Next::call;
        case Transport::Arrival::stopped:
            return Next::stopped;
        case Transport::Arrival::late:
            break;
    }
    return Next::late;
}

}  // namespace

Outcome<std::unique_ptr<Communicator>> Communicator::open(Transport& transport, Options options) {
    AllreduceTable table;
    if (!options.settings.allreduce.empty()) {
        auto parsed = AllreduceTable::parse(options.settings.allreduce);
        if (!parsed) return pass_on(std::move(parsed));
        table = std::move(*parsed);
    }
    return std::make_unique<CommunicatorImplementation>(transport, std::move(options),
                                                        std::move(table));
}

}  // namespace mpi_bridge
