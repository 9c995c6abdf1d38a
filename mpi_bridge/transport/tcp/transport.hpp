// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "core/settings.hpp"
#include "core/waits.hpp"
#include "transport/transport.hpp"

// The transport over the library's own sockets, from the outside in.
//
//   transport.hpp           the transport
//   traffic.hpp             all peers of a rank: makes the connections and moves the data
//   meeting.hpp             makes the connections
//   pending_handshakes.hpp  the callers that have not proved yet who they are
//   handshake.hpp           how two ranks prove to each other that they belong to the same job
//   peer.hpp                the connection to one peer, as a stream of messages
//   host_silence.hpp        how long the host of a peer has acknowledged nothing
//   inbox.hpp               matches the messages of one peer with the receives
//   events.hpp              on which sockets something has happened
//   address.hpp             where a rank listens, and the secret that its callers must know
//   link.hpp                the two connections of a pair of ranks, and their numbers
//   message.hpp             the header of a message, and a posted send or receive
namespace mpi_bridge {

// A transport over TCP, with up to two connections (TcpLinks) for each pair of ranks that exchange
// messages, each made before its first message. Messages go from the sender's memory into a socket
// and from there into the receiver's memory, with no copy except the kernel's own. Only messages
// that have no receive yet are kept in between.
class TcpTransport : public Transport {
  public:
    struct Options {
        int rank = 0;
        int size = 1;
        int local_size = 1;  // ranks on this host, which may have to share its processors
        std::vector<std::string> addresses;  // this rank's, to listen at; numeric, best first
        // Called once per connection, when the first message over it is posted.
        std::function<Outcome<std::vector<std::byte>>(int rank)> address_of;
        // How many bytes are kept of what came over one connection before receives were posted.
        // The rest waits on the other side, unless a receive is posted for something behind it, or
        // await_message() waits for a channel of this connection.
        std::size_t most_kept_bytes = 16UL * 1024 * 1024;
        // How long a rank's host may be silent: acknowledge nothing that was sent, answer no
        // connection that is made, or no question over an idle one. The rank is lost then.
        Seconds host_timeout = default_host_timeout;
        int send_buffer_bytes = 0;  // of a socket; 0: the system's default
        // The interval at which a thread that waits looks for what comes without an event.
        std::chrono::milliseconds longest_sleep{100};
        Waits* waits = nullptr;  // where threads record their waits, or nullptr
        // The loss of a rank concerns only messages to and from it: await_message() goes on, and
        // nobody has to call abandon().
        bool survives_losses = false;
    };

    [[nodiscard]] static Outcome<std::unique_ptr<TcpTransport>> open(Options options);

    // What peers need to know to reach this rank.
    [[nodiscard]] virtual std::vector<std::byte> address() const = 0;
};

}  // namespace mpi_bridge
