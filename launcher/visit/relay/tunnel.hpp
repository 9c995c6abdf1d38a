// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "visit/relay/frames.hpp"
#include "visit/relay/listening.hpp"

namespace batchai::visit {

// The connections of one side, and the two descriptors that lead to the other side. A connection
// that nobody reads, or a slow other side, holds up no other connection: see frames.hpp.
class Tunnel {
  public:
    Tunnel(int input, int output, FrameReader::Begin begin);
    Tunnel(const Tunnel&) = delete;
    Tunnel& operator=(const Tunnel&) = delete;
    virtual ~Tunnel() = default;

    enum class Turn { goes_on, other_side_ended, failed };
    // Moves what can be moved. Waits for that no longer than `longest`, or until one of `others` is
    // readable.
    [[nodiscard]] Turn turn(std::chrono::milliseconds longest, const std::vector<int>& others = {});
    // Why the tunnel has failed.
    [[nodiscard]] const std::string& fault() const { return reader_.fault(); }

  protected:
    enum class Stage {
        waiting,     // at the node, for something that listens
        connecting,  // at the node
        opening,     // at the command, for the node
        open,
    };
    struct Channel {
        base::FileDescriptor socket{};
        Stage stage = Stage::open;
        std::uint16_t port = 0;
        std::string arrived{};       // for the socket
        std::size_t arrived_at = 0;  // what is before it has been written
        std::uint32_t may_send = window;
        std::uint32_t owed = 0;     // bytes written to the socket, without credit for them
        bool socket_ended = false;  // the socket's data has ended, and the other side knows
        bool other_side_ended = false;
        bool shut = false;      // the socket knows, too
        Listening listening{};  // when the connection was begun
    };
    using Channels = std::map<std::uint32_t, Channel>;

    // Handles the frames that only one side gets.
    virtual void handle(const Frame& frame) = 0;
    // Called when a socket in the stage `connecting` can be written to.
    virtual void connected(std::uint32_t number, Channel& channel) = 0;
    // Returns whether a channel that is not open yet is given up when its socket's data ends.
    [[nodiscard]] virtual bool is_given_up(const Channel& channel) const = 0;

    void reset(std::uint32_t number);  // tells the other side, and forgets the channel
    // Moves what has arrived for the channel, and forgets the channel once it has ended.
    void write_to_socket(std::uint32_t number);

    Channels channels_;
    std::string outgoing_;

  private:
    void add_sockets(std::vector<pollfd>& waiting, std::vector<std::uint32_t>& numbers) const;
    void move_sockets(const std::vector<pollfd>& waiting, std::size_t first,
                      const std::vector<std::uint32_t>& numbers);
    void read_from_socket(std::uint32_t number);
    bool read_frames();
    bool write_frames();
    void take(Frame frame);
    void take_data(std::uint32_t number, Channel& channel, const std::string& bytes);
    void forget_if_ended(std::uint32_t number);

    int input_;
    int output_;
    FrameReader reader_;
    std::size_t outgoing_at_ = 0;
    std::size_t first_served_ = 0;  // so that no channel is always the last one
    std::string chunk_;
};

// A port of this host that leads to a port of the node.
struct Forward {
    // On 127.0.0.1 and, if this host has it, on ::1, to which "localhost" may lead as well.
    std::vector<base::FileDescriptor> listeners{};
    std::uint16_t here = 0;
    std::uint16_t there = 0;
};

// Listens on the loopback addresses, on all of them or on none: another user could listen on the
// other, and get what is meant for this one. The port 0 stands for any free port.
[[nodiscard]] base::Result<Forward> listen_here(std::uint16_t here, std::uint16_t there);

// The side of the command. It accepts only connections of processes of its own user.
class CommandSide final : public Tunnel {
  public:
    struct Events {
        std::function<void(std::uint16_t port, PortState state)> port_state;
        std::function<void(std::optional<uid_t> user)> refused;
        // A connection waits, because this process cannot have another one; an errno.
        std::function<void(int code)> waits;
    };

    CommandSide(std::vector<Forward> forwards, int input, int output, Events events);

    // As Tunnel::turn does, and accepts connections.
    [[nodiscard]] Turn turn(std::chrono::milliseconds longest, std::vector<int> others);

  private:
    void handle(const Frame& frame) override;
    void connected(std::uint32_t number, Channel& channel) override;
    [[nodiscard]] bool is_given_up(const Channel& channel) const override;
    // Returns whether others may be accepted, too.
    bool accept_all(const base::FileDescriptor& listener, std::uint16_t there);
    // Whether this error of a descriptor says that there are no more; begins a pause then.
    bool must_wait(int code);

    std::vector<Forward> forwards_;
    std::chrono::steady_clock::time_point accepts_from_{};
    Events events_;
    std::map<std::uint16_t, PortState> states_;
    std::uint32_t next_channel_ = 1;
};

// The side of the node: connects to the ports of this host that the command names, as far as
// processes of the user's listen there. Returns when the command is gone.
[[nodiscard]] base::Result<void> serve_node(int input, int output);

}  // namespace batchai::visit
