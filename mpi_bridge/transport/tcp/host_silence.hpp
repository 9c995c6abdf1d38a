// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/deadline.hpp"

namespace mpi_bridge {

// What the kernel says about data that was sent over a connection.
struct TcpAcknowledgement {
    bool missing = false;  // some data was not acknowledged yet
    Seconds latest{0};     // how long ago anything was acknowledged

    // What is known of a socket; nothing is missing where the kernel does not say.
    [[nodiscard]] static TcpAcknowledgement of(int socket);
};

// How long the host at the other end of a connection has acknowledged nothing, although there is
// something to acknowledge. A host whose processes are stopped, or do not read, still acknowledges.
//
// Only the time between looks counts, and of that a little each time: a rank that computes does not
// look, and one that was stopped knows nothing of the time in between.
class HostSilence {
  public:
    // Looks should not be rarer than this while a thread waits.
    static constexpr Seconds longest_step{2};

    // Returns how long the silence lasts.
    Seconds look(const TcpAcknowledgement& seen, Clock::time_point now);

  private:
    Clock::time_point looked_{};
    bool was_missing_ = false;
    Seconds lasting_{0};
};

}  // namespace mpi_bridge
