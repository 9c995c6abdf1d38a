// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/failure.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge {

// A transport over TCP: one connection between each two ranks that talk, made when they first do.
// Messages go from the sender's memory into a socket and from there into the receiver's, with no
// copy but the kernel's own; only what nobody has asked for yet is kept in between.
class TcpTransport : public Transport {
  public:
    struct Options {
        int rank = 0;
        int size = 1;
        int local_size = 1;  // ranks on this host, which may have to share its processors
        std::vector<std::string> addresses;  // own ones to listen at, in numbers, best first
        // Asked once per peer, when the first message to or from it is posted.
        std::function<Outcome<std::vector<std::byte>>(int rank)> address_of;
        // Of what one peer sent before it was asked for, so much is kept; the rest waits on its
        // side, unless something else is wanted from it.
        std::size_t most_kept_bytes = 16UL * 1024 * 1024;
        int send_buffer_bytes = 0;  // of a socket; 0: as the system sees fit
    };

    [[nodiscard]] static Outcome<std::unique_ptr<TcpTransport>> open(Options options);

    // What peers must know to reach this rank.
    [[nodiscard]] virtual std::vector<std::byte> address() const = 0;
};

}  // namespace mpi_bridge
