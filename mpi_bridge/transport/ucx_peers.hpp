// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <ucp/api/ucp.h>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "transport/participation.hpp"

namespace mpi_bridge {

// The endpoints to the peers this rank has spoken with. Endpoints are made when first needed: a
// ring needs two, whatever the number of ranks.
class UcxPeers {
  public:
    using AddressOf = std::function<Outcome<std::vector<std::byte>>(int rank)>;

    UcxPeers(ucp_worker_h worker, AddressOf address_of)
        : worker_(worker), address_of_(std::move(address_of)) {}

    [[nodiscard]] Outcome<ucp_ep_h> endpoint(int rank);

    // When UCX reported the connection to this peer as broken. What the peer sent before may still
    // be on its way over another connection, so receives get a moment after it.
    [[nodiscard]] std::optional<Clock::time_point> lost_since(int rank) const;

    // Of peers with an endpoint.
    void note_sent(int rank, Tag tag) { peers_.at(rank)->participation.note(tag); }
    [[nodiscard]] bool took_part(int rank, Tag tag) const {
        return peers_.at(rank)->participation.in_call_of(tag);
    }
    // All peers whose connection is broken.
    [[nodiscard]] const std::vector<int>& lost() const { return lost_; }

    // Sends an empty message to every peer whose connection works.
    void say_to_all(ucp_tag_t tag, Deadline deadline);

    // Closes all endpoints; those that work deliver first what they hold, unless `force`. What is
    // not closed at the deadline is closed by force then.
    void close(bool force, Deadline deadline);

  private:
    struct Peer {
        UcxPeers* owner = nullptr;
        int rank = 0;
        ucp_ep_h endpoint = nullptr;
        std::optional<Clock::time_point> lost_since;
        Participation participation;
    };
    static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);
    // Moves on until all requests are complete, or the deadline has passed; frees them. True when
    // all are complete.
    [[nodiscard]] bool finish(std::vector<void*>& requests, Deadline deadline) const;
    [[nodiscard]] void* start_close(ucp_ep_h endpoint, bool force) const;

    ucp_worker_h worker_;
    AddressOf address_of_;
    std::vector<int> lost_;
    // Peers are referred to by UCX, so they keep their place.
    std::unordered_map<int, std::unique_ptr<Peer>> peers_;
};

}  // namespace mpi_bridge
