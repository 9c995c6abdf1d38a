// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/failure_token.hpp"
#include "core/settings.hpp"
#include "core/waits.hpp"
#include "trace/stall_settings.hpp"

// Whether the ranks that this one waits for are alive.
//
//   heartbeat.hpp          the thread that asks other ranks, answers them, and spreads failures
//   heartbeat_message.hpp  what it sends and receives
//   liveness_check.hpp     decides whom to ask, and what to report
//   finding.hpp            what is known about a rank, and how a report says it
//   identity.hpp           what a rank publishes about its process and its heartbeat
namespace mpi_bridge {

// Keeps the ranks informed about each other while the program computes or is blocked. It has its
// own thread and its own connections, which are made only when there is something to send:
//
//   - A rank that this one has waited for for more than a second is asked about its state, and told
//     if it is the engine that waits. If it has not answered by the time that a stall is reported,
//     the report says so, with its host, its process, and what the kernel says about it. If its
//     process has ended, this rank fails.
//   - The first failure of any rank is reported to all: each rank that hears of it passes it on to
//     some others (failure_neighbours), so that it arrives even if some of them have died.
//   - A rank whose connection broke is asked why, because it may have broken the connection as a
//     result of an earlier failure (enquire).
//
// Connections are authenticated in the same way as those of TcpTransport.
class Heartbeat {
  public:
    // Returns what a rank published of its address(). Called from the heartbeat's thread.
    using AddressOf = std::function<Outcome<std::vector<std::byte>>(int rank)>;

    struct Options {
        int rank = 0;
        int size = 1;
        int local_size = 1;
        std::vector<int> host_of_rank;
        std::vector<std::string> addresses;           // as for TcpTransport
        Seconds host_timeout = default_host_timeout;  // as for TcpTransport
        AddressOf address_of;
        FailureToken* failure =
            nullptr;                   // watched, and told of failures; must outlive the heartbeat
        const Waits* waits = nullptr;  // read only; must outlive the heartbeat too
        StallSettings stall;
        // Called from the heartbeat's thread when another rank asks about this one because its
        // engine waits for this rank; may be empty.
        std::function<void()> engine_is_awaited;
        std::function<void(const std::string& text)> report;  // lines for standard error
    };

    // Starts to listen. start() starts the thread.
    [[nodiscard]] static Outcome<std::unique_ptr<Heartbeat>> open(Options options);
    virtual ~Heartbeat() = default;  // tells of a failure first, for at most half a second
    Heartbeat(const Heartbeat&) = delete;
    Heartbeat& operator=(const Heartbeat&) = delete;

    // What other ranks need to know to reach this rank.
    [[nodiscard]] virtual std::vector<std::byte> address() const = 0;

    // To be called when the addresses of all ranks are available.
    virtual void start() = 0;

    // Returns the failure of rank `failure.of_rank` if that rank itself has failed and says so
    // within a second; otherwise returns `failure`. Any thread may call.
    [[nodiscard]] virtual Failure enquire(Failure failure) = 0;

  protected:
    Heartbeat() = default;
};

}  // namespace mpi_bridge
