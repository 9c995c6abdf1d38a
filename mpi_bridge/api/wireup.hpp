// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bootstrap/bootstrap.hpp"
#include "core/deadline.hpp"
#include "core/failure_token.hpp"
#include "core/settings.hpp"
#include "core/visible_state.hpp"
#include "liveness/heartbeat.hpp"
#include "trace/stall_settings.hpp"
#include "transport/choice/network.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge {

// How this rank reaches the others: the launcher, through which they tell each other their
// addresses, the transport, and the heartbeat. What is connected stays until close().
class Wireup {
  public:
    struct Options {
        std::string network;  // MPI_BRIDGE_NETWORK
        // How long the addresses of others may be waited for; asked before each wait.
        std::function<Seconds()> start_timeout;
        Seconds host_timeout = default_host_timeout;  // as for TcpTransport
        FailureToken* failure = nullptr;              // must outlive the wire-up
        StallSettings stall;
        std::function<void()> engine_is_awaited;  // see Heartbeat::Options
    };

    // Connects to the launcher, or to the other ranks by the means of the program.
    [[nodiscard]] Done connect(const mpib_meeting* meeting, Deadline deadline);
    // Opens the transport and the heartbeat, and publishes their addresses. Comes after connect().
    [[nodiscard]] Done join(const Options& options);
    // To be called when all ranks have joined.
    void start_heartbeat() {
        if (heartbeat_ != nullptr) heartbeat_->start();
    }
    // Leaves what was joined, as far as it was.
    void close();

    [[nodiscard]] Bootstrap& launcher() { return *bootstrap_; }
    [[nodiscard]] const Topology& topology() const { return bootstrap_->topology(); }
    [[nodiscard]] Transport& transport() { return *transport_; }
    // Of threads in the transport and in shared memory.
    [[nodiscard]] Waits& waits() { return visible_->waits(); }
    [[nodiscard]] OpenOperations& operations() { return visible_->operations(); }

  private:
    [[nodiscard]] std::function<bool()> reports_of_absence(const StallSettings& stall) const;
    [[nodiscard]] Done open_heartbeat(const Options& how, const Network& host,
                                      Heartbeat::AddressOf address_of);

    std::unique_ptr<Bootstrap> bootstrap_;
    std::unique_ptr<Transport> transport_;
    // Made when the step is joined for the first time, and kept for threads that do not end.
    std::optional<VisibleState> visible_;
    std::unique_ptr<Heartbeat> heartbeat_;
    std::atomic<Heartbeat*> enquired_{nullptr};  // by the failure token; null before the end of it
};

}  // namespace mpi_bridge
