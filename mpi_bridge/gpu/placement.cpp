// SPDX-License-Identifier: Apache-2.0
#include "gpu/placement.hpp"

#include <optional>

#include <fmt/format.h>

#include "gpu/nccl/library.hpp"

namespace mpi_bridge {
namespace {

// Whether NCCL regards the two as one GPU: on one host they have the same UUID, or the same PCI
// address, which the instances of a GPU (MIG) share. It does not look for one GPU on several hosts,
// so ranks with an NCCL_HOSTID each may share a GPU.
bool one_gpu(const DeviceCard& a, const DeviceCard& b) {
    return a.host == b.host && (a.uuid == b.uuid || a.bus_id == b.bus_id);
}

// Returns why NCCL cannot serve these ranks, or nullopt if it can.
std::optional<std::string> obstacle(std::span<const DeviceCard> cards) {
    for (std::size_t rank = 0; rank < cards.size(); ++rank) {
        const DeviceCard& card = cards[rank];
        if (card.has_device == 0)
            return fmt::format("the tensors of rank {} are on the host", rank);
        if (card.nccl_version == 0) return fmt::format("on rank {}, {}", rank, card.no_nccl.data());
        if (card.nccl_version != cards[0].nccl_version) {
            return fmt::format("rank 0 has NCCL {} but rank {} has {}",
                               nccl::version_text(cards[0].nccl_version), rank,
                               nccl::version_text(card.nccl_version));
        }
    }
    for (std::size_t rank = 1; rank < cards.size(); ++rank) {
        const DeviceCard& card = cards[rank];
        const bool allowed =
            card.shared_gpu_enabled != 0 && card.nccl_version >= nccl::shared_gpu_version;
        for (std::size_t other = 0; other < rank && !allowed; ++other) {
            if (one_gpu(card, cards[other])) {
                return fmt::format("ranks {} and {} share GPU {}", other, rank, card.bus_id.data());
            }
        }
    }
    return std::nullopt;
}

}  // namespace

Outcome<Placement> place(std::span<const DeviceCard> cards) {
    for (std::size_t rank = 0; rank < cards.size(); ++rank) {
        if (cards[rank].fault.front() != '\0') {
            return fail(MPIB_ERROR_INTERNAL,
                        fmt::format("rank {}: {}", rank, cards[rank].fault.data()));
        }
    }
    const auto wanted = static_cast<DevicePath>(cards[0].wanted_path);
    for (std::size_t rank = 1; rank < cards.size(); ++rank) {
        if (cards[rank].wanted_path != cards[0].wanted_path) {
            return fail(MPIB_ERROR_MISMATCH,
                        fmt::format("ranks 0 and {} ask for different paths between GPUs; set the "
                                    "same on all ranks",
                                    rank));
        }
    }
    if (wanted == DevicePath::ucx) {
        return invalid(
            "sending device memory through UCX is not supported yet; take the NCCL or the "
            "host-staged path");
    }
    if (wanted == DevicePath::staged) return Placement{DevicePath::staged, "asked for"};
    auto why = obstacle(cards);
    if (!why) return Placement{DevicePath::nccl, {}};
    if (wanted == DevicePath::nccl) {
        return invalid(fmt::format("NCCL was asked for, but {}", *why));
    }
    return Placement{DevicePath::staged, std::move(*why)};
}

}  // namespace mpi_bridge
