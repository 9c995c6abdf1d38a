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

// The endpoints to this rank's peers. Endpoints are made when they are first needed: a ring needs
// two, however many ranks there are.
class UcxPeers {
  public:
    using AddressOf = std::function<Outcome<std::vector<std::byte>>(int rank)>;

    UcxPeers(ucp_worker_h worker, AddressOf address_of)
        : worker_(worker), address_of_(std::move(address_of)) {}

    [[nodiscard]] Outcome<ucp_ep_h> endpoint(int rank);

    // The time at which UCX reported the connection to this peer as broken. What the peer sent
    // before may still be on its way over another connection, so receives get some extra time after
    // it.
    [[nodiscard]] std::optional<Clock::time_point> lost_since(int rank) const;

    // Both are for peers with an endpoint.
    void note_sent(int rank, Tag tag) { peers_.at(rank)->participation.note(tag); }
    [[nodiscard]] bool took_part(int rank, Tag tag) const {
        return peers_.at(rank)->participation.in_call_of(tag);
    }
    // All peers whose connection is broken.
    [[nodiscard]] const std::vector<int>& lost() const { return lost_; }

    // Sends an empty message to every peer whose connection works.
    void say_to_all(ucp_tag_t tag, Deadline deadline);

    // Closes all endpoints. Those that work first deliver what they hold, unless `force` is set. An
    // endpoint that is not closed by the deadline is ended with the worker.
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
    // Makes progress until all requests are complete or the deadline has passed, and frees them.
    // Returns true when all are complete.
    [[nodiscard]] bool finish(std::vector<void*>& requests, Deadline deadline) const;
    [[nodiscard]] void* start_close(ucp_ep_h endpoint, bool force) const;

    ucp_worker_h worker_;
    AddressOf address_of_;
    std::vector<int> lost_;
    // UCX holds pointers to the peers, so they must keep their addresses.
    std::unordered_map<int, std::unique_ptr<Peer>> peers_;
};

}  // namespace mpi_bridge
