// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator.hpp"

#include <atomic>
#include <numeric>
#include <string>
#include <utility>

#include "collectives/collectives.hpp"
#include "collectives/communicator_registry.hpp"
#include "collectives/hierarchical.hpp"
#include "collectives/layout.hpp"
#include "collectives/node_stage_opening.hpp"
#include "core/log.hpp"
#include "select/measurement.hpp"
#include "select/selected.hpp"
#include "select/selection.hpp"
#include "shm/even_slice.hpp"

namespace mpi_bridge {
namespace {

// From here on the ranks of a node reduce a slice each and all use the network, which takes more
// steps through shared memory but keeps no rank idle.
constexpr std::size_t slices_from_bytes = 64UL * 1024;

std::size_t sum_of(std::span<const std::size_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

class CommunicatorImplementation final : public Communicator {
  public:
    // The model is measured when it is first needed, unless one is given.
    CommunicatorImplementation(Transport& transport, Options options, Selection selection,
                               bool measure)
        : transport_(transport),
          options_(std::move(options)),
          layout_(make_layout(options_.group)),
          leaders_(layout_.leads() ? part_of(options_.group, layout_.leaders) : Group{}),
          across_(part_of(options_.group, layout_.across)),
          selection_(std::move(selection)),
          stage_is_due_(options_.shared_memory && layout_.shared),
          model_is_due_(measure) {
        if (options_.registry != nullptr) options_.registry->enter(*this);
    }
    CommunicatorImplementation(const CommunicatorImplementation&) = delete;
    CommunicatorImplementation& operator=(const CommunicatorImplementation&) = delete;
    ~CommunicatorImplementation() override {
        if (options_.registry != nullptr) options_.registry->leave(*this);
    }

    [[nodiscard]] const Group& group() const override { return options_.group; }
    [[nodiscard]] Way way() const override {
        if (!stage_is_due_ && owned_stage_ == nullptr) return Way::network;
        return layout_.host_count == 1 ? Way::shared_memory : Way::both;
    }

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
    void abandon() override {
        if (NodeStage* stage = stage_.load(); stage != nullptr) stage->abandon();
    }

  private:
    [[nodiscard]] Done prepare(const Call& call) {
        return stage_is_due_ ? open_stage(call) : Done();
    }
    // The same, and sees to it that there is a model to choose algorithms by.
    [[nodiscard]] Done prepare_to_choose(const Call& call) {
        if (auto done = prepare(call); !done || !model_is_due_ || on_one_node()) return done;
        return measure_network(call);
    }
    [[nodiscard]] Done open_stage(const Call& call);
    [[nodiscard]] Done measure_network(const Call& call);
    [[nodiscard]] bool on_one_node() const { return stage_ != nullptr && layout_.host_count == 1; }
    [[nodiscard]] Conversation converse(const Call& call, const Group& group);
    [[nodiscard]] Conversation converse(const Call& call) {
        ++sequence_;
        return converse(call, options_.group);
    }
    [[nodiscard]] Done allreduce_flat(Conversation& talk, const Reducer& reducer,
                                      const std::byte* send, std::byte* recv, std::size_t count);
    template <typename Body>
    [[nodiscard]] Done with_hierarchy(const Call& call, Body&& body);
    [[nodiscard]] Done reduce_scatter_on_node(const Call& call, const Reduction& reduction,
                                              const std::byte* send, std::byte* recv,
                                              std::span<const std::size_t> counts);
    [[nodiscard]] Done finished(Done done);

    Transport& transport_;
    Options options_;
    Layout layout_;
    Group leaders_;
    Group across_;
    Selection selection_;
    bool stage_is_due_;
    bool model_is_due_;
    std::unique_ptr<NodeStage> owned_stage_;
    std::atomic<NodeStage*> stage_{nullptr};  // for abandon(), which any thread may call
    Scratch scratch_;
    Scratch partial_;
    std::uint32_t sequence_ = 0;
};

Done CommunicatorImplementation::open_stage(const Call& call) {
    stage_is_due_ = false;
    Call opening = call;
    opening.name = "opening shared memory";
    opening.agreement = 0;
    Conversation on_node = converse(opening);
    Conversation everywhere = converse(opening);
    NodeStage::Options options;
    options.patience = call.patience;
    options.heap = options_.heap;
    std::string why;
    auto stage = open_node_stage({on_node, everywhere}, layout_, options, why);
    if (!stage) return pass_on(std::move(stage));
    owned_stage_ = std::move(*stage);
    stage_ = owned_stage_.get();
    if (!why.empty()) {
        log(LogLevel::warning, "shared memory is not used between the ranks of a node: " + why);
    }
    return {};
}

Done CommunicatorImplementation::measure_network(const Call& call) {
    model_is_due_ = false;
    Call measuring = call;
    measuring.name = "measuring the network";
    measuring.agreement = 0;
    ++sequence_;
    // What a node's leader measures, with all other leaders, holds for its node.
    Model model = selection_.model();
    if (owned_stage_ == nullptr || layout_.leads()) {
        Conversation talk = converse(measuring, owned_stage_ == nullptr ? group() : leaders_);
        auto measured = measure(talk);
        if (!measured) return pass_on(std::move(measured));
        model = *measured;
    }
    if (owned_stage_ != nullptr) {
        const Bytes bytes = std::as_writable_bytes(std::span(&model, 1));
        auto shown = owned_stage_->broadcast({measuring.name, 0, call.patience}, bytes, 0);
        if (!shown) return shown;
    }
    selection_ = Selection(model, selection_);
    return {};
}

Conversation CommunicatorImplementation::converse(const Call& call, const Group& group) {
    Conversation::Call in_flight;
    in_flight.name = call.name;
    in_flight.sequence = sequence_;
    in_flight.agreement = static_cast<std::uint32_t>(call.agreement ^ (call.agreement >> 32));
    in_flight.agreement ^= in_flight.agreement >> 16;
    in_flight.patience = call.patience;
    in_flight.tuning.segment_bytes = options_.settings.segment_bytes;
    in_flight.channel = options_.channel.number();
    in_flight.group = &group;
    return {transport_, scratch_, in_flight};
}

Done CommunicatorImplementation::finished(Done done) {
    if (!done) return done;
    // Hand to the system what the transport still holds, since nobody may call in for a long time.
    for (int looks = 0; looks < 16 && transport_.progress(); ++looks) {
    }
    return done;
}

Done CommunicatorImplementation::allreduce_flat(Conversation& talk, const Reducer& reducer,
                                                const std::byte* send, std::byte* recv,
                                                std::size_t count) {
    const auto algorithm = selection_.allreduce(count * reducer.value_bytes(), talk.size());
    return run_allreduce(algorithm, talk, reducer, send, recv, count);
}

template <typename Body>
Done CommunicatorImplementation::with_hierarchy(const Call& call, Body&& body) {
    ++sequence_;
    Conversation leaders = converse(call, leaders_);
    Conversation across = converse(call, across_);
    Hierarchy hierarchy{
        layout_,
        *owned_stage_,
        {call.name, call.agreement, call.patience},
        layout_.leads() ? &leaders : nullptr,
        across,
        partial_,
        group().size(),
        [this](Conversation& talk, const Reducer& reducer, std::byte* values, std::size_t count) {
            return allreduce_flat(talk, reducer, values, values, count);
        },
        [this](Conversation& talk, Bytes data, int root) {
            return run_broadcast(selection_.broadcast(data.size(), talk.size()), talk, data, root);
        }};
    return finished(body(hierarchy));
}

Done CommunicatorImplementation::allreduce(const Call& call, const Reduction& reduction,
                                           const std::byte* send, std::byte* recv,
                                           std::size_t count) {
    if (auto done = prepare_to_choose(call); !done) return done;
    if (on_one_node()) {
        return owned_stage_->allreduce({call.name, call.agreement, call.patience}, reduction, send,
                                       recv, count);
    }
    if (owned_stage_ == nullptr) {
        Conversation talk = converse(call);
        return finished(allreduce_flat(talk, reduction, send, recv, count));
    }
    const bool by_slices = layout_.even && count * reduction.element_bytes >= slices_from_bytes;
    return with_hierarchy(call, [&](const Hierarchy& hierarchy) {
        return by_slices ? allreduce_by_slices(hierarchy, reduction, send, recv, count)
                         : allreduce_by_leaders(hierarchy, reduction, send, recv, count);
    });
}

Done CommunicatorImplementation::reduce(const Call& call, const Reduction& reduction,
                                        const std::byte* send, std::byte* recv, std::size_t count,
                                        int root) {
    if (auto done = prepare_to_choose(call); !done) return done;
    if (owned_stage_ == nullptr) {
        Conversation talk = converse(call);
        const auto algorithm = selection_.reduce(count * reduction.element_bytes, talk.size());
        return finished(run_reduce(algorithm, talk, reduction, send, recv, count, root));
    }
    if (on_one_node()) {
        std::byte* sums = nullptr;
        if (group().own == root) sums = partial_.take(count * reduction.accumulator_bytes).data();
        auto done = owned_stage_->reduce({call.name, call.agreement, call.patience}, reduction,
                                         send, sums, count, root);
        if (done && group().own == root) reduction.store(recv, sums, count, group().size());
        return done;
    }
    const auto host = group().hosts[static_cast<std::size_t>(root)];
    const auto seat = layout_.seats[static_cast<std::size_t>(root)];
    return with_hierarchy(call, [&](const Hierarchy& hierarchy) {
        return reduce_by_leaders(hierarchy, reduction, send, recv, count, host, seat);
    });
}

Done CommunicatorImplementation::reduce_scatter(const Call& call, const Reduction& reduction,
                                                const std::byte* send, std::byte* recv,
                                                std::span<const std::size_t> counts) {
    if (auto done = prepare_to_choose(call); !done) return done;
    if (on_one_node()) return reduce_scatter_on_node(call, reduction, send, recv, counts);
    Conversation talk = converse(call);
    const std::size_t bytes = sum_of(counts) * reduction.element_bytes;
    const auto algorithm = selection_.reduce_scatter(bytes, talk.size());
    return finished(run_reduce_scatter(algorithm, talk, reduction, send, recv, counts));
}

Done CommunicatorImplementation::reduce_scatter_on_node(const Call& call,
                                                        const Reduction& reduction,
                                                        const std::byte* send, std::byte* recv,
                                                        std::span<const std::size_t> counts) {
    const shm::Turn turn{call.name, call.agreement, call.patience};
    const int size = group().size();
    const auto own = static_cast<std::size_t>(group().own);
    std::byte* sums = partial_.take(counts[own] * reduction.accumulator_bytes).data();

    const std::size_t total = sum_of(counts);
    bool even = true;
    for (int member = 0; member < size; ++member) {
        const auto length = even_slice(total, size, member).length;
        even = even && counts[static_cast<std::size_t>(member)] == length;
    }
    if (even) {
        auto done = owned_stage_->reduce_scatter(turn, reduction, send, sums, total);
        if (!done) return done;
    } else {
        for (int member = 0; member < size; ++member) {
            const std::size_t count = counts[static_cast<std::size_t>(member)];
            auto done = owned_stage_->reduce(turn, reduction, send, sums, count, member);
            if (!done) return done;
            send += count * reduction.element_bytes;
        }
    }
    reduction.store(recv, sums, counts[own], size);
    return {};
}

Done CommunicatorImplementation::allgather(const Call& call, std::span<const Bytes> parts) {
    if (auto done = prepare_to_choose(call); !done) return done;
    if (on_one_node()) {
        return owned_stage_->allgather({call.name, call.agreement, call.patience}, parts);
    }
    // Neighbours in the ring share a node where they can, so each part crosses the network once
    // for a node.
    std::size_t bytes = 0;
    for (const Bytes part : parts)
        bytes += part.size();
    Conversation talk = converse(call);
    return finished(run_allgather(selection_.allgather(bytes, talk.size()), talk, parts));
}

Done CommunicatorImplementation::broadcast(const Call& call, Bytes data, int root) {
    if (auto done = prepare_to_choose(call); !done) return done;
    if (on_one_node()) {
        return owned_stage_->broadcast({call.name, call.agreement, call.patience}, data, root);
    }
    if (owned_stage_ == nullptr) {
        Conversation talk = converse(call);
        const auto algorithm = selection_.broadcast(data.size(), talk.size());
        return finished(run_broadcast(algorithm, talk, data, root));
    }
    const auto host = group().hosts[static_cast<std::size_t>(root)];
    const auto seat = layout_.seats[static_cast<std::size_t>(root)];
    return with_hierarchy(call, [&](const Hierarchy& hierarchy) {
        return broadcast_by_leaders(hierarchy, data, host, seat);
    });
}

Done CommunicatorImplementation::alltoall(const Call& call, std::span<const ConstBytes> out,
                                          std::span<const Bytes> in) {
    Conversation talk = converse(call);
    return finished(alltoall_pairwise(talk, out, in));
}

Done CommunicatorImplementation::barrier(const Call& call) {
    if (auto done = prepare(call); !done) return done;
    if (on_one_node()) {
        return owned_stage_->barrier({call.name, call.agreement, call.patience});
    }
    if (owned_stage_ == nullptr) {
        Conversation talk = converse(call);
        return finished(barrier_dissemination(talk));
    }
    return with_hierarchy(call, barrier_by_leaders);
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
    const Settings& settings = options.settings;
    Model model = tcp_model();
    if (!settings.model.empty()) {
        auto parsed = Model::parse(settings.model);
        if (!parsed) return pass_on(std::move(parsed));
        model = *parsed;
    }
    Selection selection(model, settings.segment_bytes);
    if (!settings.allreduce.empty()) {
        auto parsed = AllreduceTable::parse(settings.allreduce);
        if (!parsed) return pass_on(std::move(parsed));
        selection.pin(std::move(*parsed));
    }
    // What the engine agrees by is short, whatever the network.
    const bool measure = settings.model.empty() && options.channel.lane != Channel::Lane::control;
    return std::make_unique<CommunicatorImplementation>(transport, std::move(options),
                                                        std::move(selection), measure);
}

}  // namespace mpi_bridge
