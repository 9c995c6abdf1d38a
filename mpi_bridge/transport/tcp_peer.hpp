// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "core/file_descriptor.hpp"
#include "transport/participation.hpp"
#include "transport/tcp_inbox.hpp"
#include "transport/tcp_message.hpp"

namespace mpi_bridge {

// The conversation with one peer: messages are cut out of the stream that its socket is, and put
// into it. Sockets never block. Needs the transport's lock.
class TcpPeer {
  public:
    // What became of the other side. Whoever left said goodbye first.
    enum class Presence { there, left, lost };

    // Before this, what is sent waits.
    void connect(FileDescriptor socket) { socket_ = std::move(socket); }
    [[nodiscard]] bool connected() const { return static_cast<bool>(socket_); }
    [[nodiscard]] int socket() const { return socket_.number(); }

    // As much as the socket takes goes out at once. The data must stay until `send` is done.
    void send(TcpOperation& send, Tag tag, std::span<const std::byte> data);
    void say_goodbye();

    // True when something moved.
    bool write();
    bool read();

    [[nodiscard]] TcpInbox& inbox() { return inbox_; }
    [[nodiscard]] const TcpInbox& inbox() const { return inbox_; }
    [[nodiscard]] bool sends() const { return !outgoing_.empty(); }
    // The socket may hold more than was read.
    [[nodiscard]] bool readable() const { return readable_; }
    void set_readable() { readable_ = true; }
    // The other side has closed the connection: read() finds its end behind what is still there.
    void set_ending() { readable_ = ending_ = true; }
    [[nodiscard]] bool ending() const { return ending_; }

    [[nodiscard]] Presence presence() const { return presence_; }
    // Why, for a message.
    [[nodiscard]] const std::string& end() const { return end_; }
    void lose(std::string why);

    [[nodiscard]] const Participation& participation() const { return participation_; }

    // Drops the connection, so that the other side notices at once, and everything under way.
    void abandon();

  private:
    struct Outgoing {
        TcpHeader header;
        std::span<const std::byte> data;
        TcpOperation* operation = nullptr;  // nullptr: nobody waits for it
    };
    // Messages up to this length are read together with their headers, and copied once more.
    static constexpr std::size_t staging_bytes = 8192;

    void sent(std::size_t bytes);
    void parse();
    void end_of_stream(int error);
    [[nodiscard]] std::size_t take_staged(std::span<std::byte> target);

    FileDescriptor socket_;
    TcpInbox inbox_;
    std::deque<Outgoing> outgoing_;
    std::size_t sent_of_first_ = 0;  // header included
    std::array<std::byte, staging_bytes> staging_{};
    std::size_t staged_begin_ = 0;
    std::size_t staged_end_ = 0;
    bool readable_ = false;
    bool ending_ = false;
    Presence presence_ = Presence::there;
    std::string end_;
    Participation participation_;
};

}  // namespace mpi_bridge
