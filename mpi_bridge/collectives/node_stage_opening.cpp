// SPDX-License-Identifier: Apache-2.0
#include "collectives/node_stage_opening.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "collectives/algorithms/collectives.hpp"

namespace mpi_bridge {
namespace {

// The leader sends its members a ticket, and each answers whether it could attach.
enum OpeningStep : std::uint32_t { ticket_step = 0, answer_step = 1 };

constexpr std::size_t longest_ticket = 256;
using Offer = std::array<std::byte, longest_ticket + 1>;  // length (0: there is no stage), ticket

using MaybeStage = std::unique_ptr<NodeStage>;

Outcome<MaybeStage> lead(Conversation& talk, const Layout& layout,
                         const NodeStage::Options& options, std::string& why) {
    Offer offer{};
    MaybeStage stage;
    auto created = NodeStage::create(options);
    if (created) {
        stage = std::move(*created);
        const auto ticket = stage->ticket();
        if (ticket.size() > longest_ticket) {
            return fail(MPIB_ERROR_INTERNAL, "a ticket to shared memory is too long");
        }
        offer[0] = static_cast<std::byte>(ticket.size());
        std::copy(ticket.begin(), ticket.end(), offer.begin() + 1);
    } else {
        why = created.error().text;
    }
    bool all = stage != nullptr;
    for (std::size_t local_rank = 1; local_rank < layout.local().size(); ++local_rank) {
        auto sent = TRY(talk.send(layout.local()[local_rank], ticket_step, offer));
        TRY(talk.wait(sent));
    }
    for (std::size_t local_rank = 1; local_rank < layout.local().size(); ++local_rank) {
        std::array<std::byte, 1> answer{};
        auto received = TRY(talk.receive(layout.local()[local_rank], answer_step, answer));
        TRY(talk.wait(received));
        all = all && answer[0] != std::byte{0};
    }
    if (!all) stage.reset();
    if (stage != nullptr) stage->all_attached();
    return stage;
}

Outcome<MaybeStage> follow(Conversation& talk, const Layout& layout,
                           const NodeStage::Options& options, std::string& why) {
    Offer offer{};
    auto received = TRY(talk.receive(layout.local().front(), ticket_step, offer));
    TRY(talk.wait(received));

    MaybeStage stage;
    const auto length = static_cast<std::size_t>(offer[0]);
    if (length != 0) {
        auto attached = NodeStage::attach(options, ConstBytes(offer).subspan(1, length));
        if (attached) {
            stage = std::move(*attached);
        } else {
            why = attached.error().text;
        }
    }
    const std::array answer{stage == nullptr ? std::byte{0} : std::byte{1}};
    auto sent = TRY(talk.send(layout.local().front(), answer_step, answer));
    TRY(talk.wait(sent));
    return stage;
}

}  // namespace

Outcome<std::unique_ptr<NodeStage>> open_node_stage(const OpeningCalls& calls, const Layout& layout,
                                                    NodeStage::Options options, std::string& why) {
    options.rank = layout.own_local_rank;
    options.size = layout.local_size();
    auto stage = TRY(layout.leads() ? lead(calls.on_node, layout, options, why)
                                    : follow(calls.on_node, layout, options, why));

    std::byte worst = stage == nullptr ? std::byte{0} : std::byte{1};
    const Reduction& minimum = *find_reduction(MPIB_UINT8, MPIB_MIN);
    TRY(allreduce_recursive_doubling(calls.everywhere, minimum, &worst, &worst, 1));
    if (worst == std::byte{0}) stage.reset();
    return stage;
}

}  // namespace mpi_bridge
