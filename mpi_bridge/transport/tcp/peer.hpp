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
#include "transport/tcp/inbox.hpp"
#include "transport/tcp/message.hpp"

namespace mpi_bridge {

// The connection to one peer: it splits the incoming byte stream of the socket into messages, and
// writes messages to it. Sockets never block. Needs the transport's lock.
class TcpPeer {
  public:
    // The state of the other side. A peer that left has said goodbye; one that is lost has not.
    enum class Presence { there, left, lost };

    // `memory` is for messages that nobody waits for yet, and must outlive the peer.
    explicit TcpPeer(KeptMemory& memory) : inbox_(memory) {}

    // Messages that are sent before this call wait for it.
    void connect(FileDescriptor socket) { socket_ = std::move(socket); }
    [[nodiscard]] bool connected() const { return static_cast<bool>(socket_); }
    [[nodiscard]] int socket() const { return socket_.number(); }

    // Sends at once as much as the socket takes, unless another message follows at once, with which
    // this one then leaves. The data must stay until `send` is done.
    void send(TcpOperation& send, Tag tag, std::span<const std::byte> data, bool another_follows);
    void say_goodbye();

    // Both return true when something moved.
    bool write();
    bool read();

    [[nodiscard]] TcpInbox& inbox() { return inbox_; }
    [[nodiscard]] const TcpInbox& inbox() const { return inbox_; }
    [[nodiscard]] bool sends() const { return !outgoing_.empty(); }
    // The socket may hold more than was read.
    [[nodiscard]] bool readable() const { return readable_; }
    // An event may be older than the end of the connection: another thread has read to the end
    // since. Nothing can be read any more then.
    void set_readable() { readable_ = connected(); }
    // The other side has closed the connection: read() will reach the end after the data that is
    // still there.
    void set_ending() { readable_ = ending_ = connected(); }
    [[nodiscard]] bool ending() const { return ending_; }

    [[nodiscard]] Presence presence() const { return presence_; }
    // The reason why the peer is gone, for a message.
    [[nodiscard]] const std::string& end() const { return end_; }
    void lose(std::string why);
    // The peer has said goodbye elsewhere.
    void leave();

    [[nodiscard]] const Participation& participation() const { return participation_; }

    // Drops everything under way, and the connection in such a way that the other side notices at
    // once.
    void abandon();

  private:
    struct Outgoing {
        TcpHeader header;
        std::span<const std::byte> data;
        TcpOperation* operation = nullptr;  // nullptr: no operation waits for it
    };
    // Messages up to this length are read together with their headers and copied once more.
    static constexpr std::size_t staging_bytes = 8192;

    void sent(std::size_t bytes);
    void parse();
    void end_of_stream(int error);
    void say_left();
    [[nodiscard]] std::size_t take_staged(std::span<std::byte> target);

    FileDescriptor socket_;
    TcpInbox inbox_;
    std::deque<Outgoing> outgoing_;
    std::size_t sent_of_first_ = 0;  // header included
    bool is_full_ = false;           // the socket has not taken all of it
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
