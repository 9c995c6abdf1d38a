// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator.hpp"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/group_layout.hpp"
#include "collectives/hierarchical/hierarchical.hpp"
#include "collectives/node_stage_opening.hpp"
#include "collectives/select/measurement.hpp"
#include "collectives/select/selection.hpp"
#include "core/failure_token.hpp"
#include "core/log.hpp"

namespace mpi_bridge {
namespace {

// From this length on, all ranks of a node use the network, each for a share. This takes more steps
// through shared memory but leaves no rank idle.
constexpr std::size_t shares_from_bytes = 64UL * 1024;

// A leader packs the parts for its node if all parts together have at most this many bytes for each
// of the hosts. Beyond that, the separate calls through shared memory for the parts cost less than
// the copies.
constexpr std::size_t packed_up_to_bytes = 16UL * 1024;

class CommunicatorImplementation final : public Communicator {
  public:
    // Unless a model is given, it is measured when it is first needed.
    CommunicatorImplementation(Transport& transport, Options options, Selection selection,
                               bool measure)
        : transport_(transport),
          options_(std::move(options)),
          layout_(make_layout(options_.group)),
          across_(part_of(options_.group, layout_.across())),
          selection_(std::move(selection)),
          stage_is_due_(options_.shared_memory && layout_.shared()),
          model_is_due_(measure) {
        if (options_.failure != nullptr) {
            watch_.emplace(*options_.failure, [this](const Failure& cause) {
                CommunicatorImplementation::abandon(cause);
            });
        }
    }

    [[nodiscard]] const Group& group() const override { return options_.group; }
    [[nodiscard]] Way way() const override {
        if (!stage_is_due_ && stage_ == nullptr) return Way::network;
        return layout_.host_count() == 1 ? Way::shared_memory : Way::both;
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
                                std::span<const Bytes> in,
                                std::optional<MessageLengths> known) override;
    [[nodiscard]] Done barrier(const Call& call) override;
    [[nodiscard]] Outcome<Next> next_call(const std::function<bool()>& stop,
                                          Deadline deadline) override;
    void abandon(const Failure& cause) override {
        const std::lock_guard lock(abandoning_);
        if (!cause_) cause_ = cause;
        if (stage_ != nullptr) stage_->abandon(cause.text);
    }

  private:
    [[nodiscard]] Done prepare(const Call& call) {
        return stage_is_due_ ? open_stage(call) : Done();
    }
    // Does the same, and ensures that there is a model to choose algorithms by.
    [[nodiscard]] Done prepare_to_choose(const Call& call) {
        if (auto done = prepare(call); !done || !model_is_due_ || on_one_node()) return done;
        return measure_network(call);
    }
    [[nodiscard]] Done open_stage(const Call& call);
    [[nodiscard]] Done measure_network(const Call& call);
    [[nodiscard]] bool on_one_node() const {
        return stage_ != nullptr && layout_.host_count() == 1;
    }
    [[nodiscard]] Conversation converse(const Call& call, const Group& group);
    [[nodiscard]] Conversation converse(const Call& call) {
        ++sequence_;
        return converse(call, options_.group);
    }
    [[nodiscard]] static shm::Turn turn_of(const Call& call) {
        return {call.name, call.agreement, call.patience};
    }
    // The algorithm for all members, without shared memory.
    template <typename Collective>
    [[nodiscard]] const Algorithm<Collective>& choose(std::size_t bytes) {
        return selection_.choose<Collective>(bytes, group().size());
    }
    // Whether the data is long enough for all ranks of a node to use the network, and whether they
    // can.
    [[nodiscard]] bool by_rails(std::size_t bytes) const {
        return layout_.rails > 1 && !on_one_node() && bytes >= shares_from_bytes;
    }
    template <typename Body>
    [[nodiscard]] Done with_hierarchy(const Call& call, Body&& body);
    [[nodiscard]] Done finished(Done done);

    Transport& transport_;
    Options options_;
    Layout layout_;
    Group across_;  // the members with this rank's local rank
    Selection selection_;
    bool stage_is_due_;
    bool model_is_due_;
    std::mutex abandoning_;
    std::optional<Failure> cause_;      // of abandon(); guarded by `abandoning_`
    std::unique_ptr<NodeStage> stage_;  // set under `abandoning_`
    Scratch scratch_;                   // for conversations
    Scratch node_scratch_;
    std::uint32_t sequence_ = 0;
    // Declared last, so that it is called only while everything above exists.
    std::optional<FailureToken::Watch> watch_;
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
    options.waits = options_.waits;
    options.lane =
        options_.channel.lane == Channel::Lane::direct ? Waits::Lane::direct : Waits::Lane::engine;
    for (const int member : layout_.local())
        options.ranks.push_back(options_.group.ranks[static_cast<std::size_t>(member)]);
    // Among all ranks of the job, the stage has all ranks of this host.
    if (options_.group.size() == transport_.size()) {
        options.on_crowded = [this](bool crowded) { transport_.set_crowded(crowded); };
    }
    std::string why;
    auto stage = TRY(open_node_stage({on_node, everywhere}, layout_, options, why));
    {
        // A failure may have come while the shared memory was opened.
        const std::lock_guard lock(abandoning_);
        stage_ = std::move(stage);
        if (stage_ != nullptr && cause_) stage_->abandon(cause_->text);
    }
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
    // The node's leader measures together with all other leaders, and the result holds for its
    // node.
    Model model = selection_.model();
    if (stage_ == nullptr || layout_.leads()) {
        Conversation talk = converse(measuring, stage_ == nullptr ? group() : across_);
        model = TRY(measure(talk));
    }
    if (stage_ != nullptr) {
        const Bytes bytes = std::as_writable_bytes(std::span(&model, 1));
        TRY(stage_->broadcast(turn_of(measuring), bytes, 0));
    }
    selection_ = Selection(model, selection_);
    if (group().own == 0 && logs(LogLevel::info))
        log(LogLevel::info, "measured: MPI_BRIDGE_MODEL=" + model.text());
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
    // Pass to the system what the transport still holds, because it may not be called for a long
    // time.
    for (int looks = 0; looks < 16 && transport_.progress(); ++looks) {
    }
    return done;
}

template <typename Body>
Done CommunicatorImplementation::with_hierarchy(const Call& call, Body&& body) {
    ++sequence_;
    Conversation across = converse(call, across_);
    const Hierarchy hierarchy{.layout = layout_,
                              .stage = *stage_,
                              .turn = turn_of(call),
                              .selection = selection_,
                              .across = across,
                              .scratch = node_scratch_,
                              .share_bytes = options_.share_bytes,
                              .ranks = group().size()};
    return finished(body(hierarchy));
}

Done CommunicatorImplementation::allreduce(const Call& call, const Reduction& reduction,
                                           const std::byte* send, std::byte* recv,
                                           std::size_t count) {
    TRY(prepare_to_choose(call));
    if (on_one_node()) {
        return stage_->allreduce(turn_of(call), reduction, send, recv, count);
    }
    if (stage_ == nullptr) {
        Conversation talk = converse(call);
        return finished(choose<Allreduce>(count * reduction.element_bytes)
                            .run(talk, reduction, send, recv, count));
    }
    return with_hierarchy(call, [&](const Hierarchy& hierarchy) {
        return by_rails(count * reduction.element_bytes)
                   ? allreduce_by_rails(hierarchy, reduction, send, recv, count)
                   : allreduce_by_leaders(hierarchy, reduction, send, recv, count);
    });
}

Done CommunicatorImplementation::reduce(const Call& call, const Reduction& reduction,
                                        const std::byte* send, std::byte* recv, std::size_t count,
                                        int root) {
    TRY(prepare_to_choose(call));
    if (stage_ == nullptr) {
        Conversation talk = converse(call);
        return finished(choose<Reduce>(count * reduction.element_bytes)
                            .run(talk, reduction, send, recv, count, root));
    }
    return with_hierarchy(call, [&](const Hierarchy& hierarchy) {
        return by_rails(count * reduction.element_bytes)
                   ? reduce_by_rails(hierarchy, reduction, send, recv, count, root)
                   : reduce_by_leaders(hierarchy, reduction, send, recv, count, root);
    });
}

Done CommunicatorImplementation::reduce_scatter(const Call& call, const Reduction& reduction,
                                                const std::byte* send, std::byte* recv,
                                                std::span<const std::size_t> counts) {
    TRY(prepare_to_choose(call));
    if (on_one_node()) {
        const std::size_t own = counts[static_cast<std::size_t>(group().own)];
        std::byte* sums = node_scratch_.take(own * reduction.accumulator_bytes).data();
        auto done = stage_->reduce_scatter(turn_of(call), reduction, send, sums, counts);
        if (done) reduction.store(recv, sums, own, group().size());
        return done;
    }
    if (stage_ == nullptr) {
        Conversation talk = converse(call);
        const std::size_t count = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
        return finished(choose<ReduceScatter>(count * reduction.element_bytes)
                            .run(talk, reduction, send, recv, counts));
    }
    return with_hierarchy(call, [&](const Hierarchy& hierarchy) {
        return reduce_scatter_by_rails(hierarchy, reduction, send, recv, counts);
    });
}

Done CommunicatorImplementation::allgather(const Call& call, std::span<const Bytes> parts) {
    TRY(prepare_to_choose(call));
    if (on_one_node()) return stage_->allgather(turn_of(call), parts);
    const std::size_t bytes = total_bytes(parts);
    if (stage_ == nullptr) {
        Conversation talk = converse(call);
        return finished(choose<Allgather>(bytes).run(talk, parts));
    }
    const auto hosts = static_cast<std::size_t>(layout_.host_count());
    return with_hierarchy(call, [&](const Hierarchy& hierarchy) {
        return bytes <= std::min(hosts * packed_up_to_bytes, options_.share_bytes)
                   ? allgather_by_leaders(hierarchy, parts)
                   : allgather_by_rails(hierarchy, parts);
    });
}

Done CommunicatorImplementation::broadcast(const Call& call, Bytes data, int root) {
    TRY(prepare_to_choose(call));
    if (on_one_node()) return stage_->broadcast(turn_of(call), data, root);
    if (stage_ == nullptr) {
        Conversation talk = converse(call);
        return finished(choose<Broadcast>(data.size()).run(talk, data, root));
    }
    return with_hierarchy(call, [&](const Hierarchy& hierarchy) {
        return by_rails(data.size()) ? broadcast_by_rails(hierarchy, data, root)
                                     : broadcast_by_leaders(hierarchy, data, root);
    });
}

Done CommunicatorImplementation::alltoall(const Call& call, std::span<const ConstBytes> out,
                                          std::span<const Bytes> in,
                                          std::optional<MessageLengths> known) {
    TRY(prepare_to_choose(call));
    if (on_one_node()) return stage_->alltoall(turn_of(call), out, in);
    if (stage_ == nullptr) {
        const auto* algorithm = &choose<Alltoall>(0);
        const std::size_t ranks = out.size();
        if (algorithm->sends_through_others) {
            if (!known) {
                Conversation agreeing = converse(call);
                known = TRY(agree_on_lengths(
                    agreeing, {.longest = std::max(longest_of(out), longest_of(in)),
                               .most_in_all = std::max(total_bytes(out), total_bytes(in))}));
            }
            // Padding would take more than the steps that are saved.
            const std::size_t bytes = known->longest * ranks;
            algorithm = known->most_are_shorter(ranks) ? find_algorithm<Alltoall>("pairwise")
                                                       : &choose<Alltoall>(bytes);
        }
        Conversation talk = converse(call);
        return finished(algorithm->run(talk, out, in, known.value_or(MessageLengths())));
    }
    return with_hierarchy(call, [&](const Hierarchy& hierarchy) {
        Conversation everyone = converse(call);
        return alltoall_by_leaders(hierarchy, everyone, out, in);
    });
}

Done CommunicatorImplementation::barrier(const Call& call) {
    TRY(prepare(call));
    if (on_one_node()) return stage_->barrier(turn_of(call));
    if (stage_ == nullptr) {
        Conversation talk = converse(call);
        return finished(barrier_dissemination(talk));
    }
    return with_hierarchy(call, barrier_by_leaders);
}

Outcome<Communicator::Next> CommunicatorImplementation::next_call(const std::function<bool()>& stop,
                                                                  Deadline deadline) {
    const auto arrival =
        TRY(transport_.await_message(options_.channel.number(), sequence_ + 1, stop, deadline));
    switch (arrival) {
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
        model = TRY(Model::parse(settings.model));
    }
    Selection selection(model, settings.segment_bytes);
    if (!settings.allreduce.empty()) {
        auto parsed = TRY(AllreduceTable::parse(settings.allreduce));
        selection.pin(std::move(parsed));
    }
    // The engine's control messages are short on any network, so they need no measured model.
    const bool measure = settings.model.empty() && options.channel.lane != Channel::Lane::control;
    return std::make_unique<CommunicatorImplementation>(transport, std::move(options),
                                                        std::move(selection), measure);
}

}  // namespace mpi_bridge
