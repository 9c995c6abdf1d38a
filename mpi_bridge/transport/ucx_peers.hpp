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

    // Closes all endpoints; those that work deliver first what they hold, unless `force`. What is
    // not closed at the deadline is closed by force then.
    void close(bool force, Deadline deadline);

  private:
    struct Peer {
        ucp_ep_h endpoint = nullptr;
        std::optional<Clock::time_point> lost_since;
    };
    static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);
    [[nodiscard]] void* start_close(ucp_ep_h endpoint, bool force) const;

    ucp_worker_h worker_;
    AddressOf address_of_;
    // Peers are referred to by UCX, so they keep their place.
    std::unordered_map<int, std::unique_ptr<Peer>> peers_;
};

}  // namespace mpi_bridge
