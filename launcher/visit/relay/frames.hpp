// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The protocol by which `batchai job port` carries several connections through the standard input
// and output of one step. This part has no sockets: bytes in, frames out.
//
// A frame is a byte for its type, the number of a channel and the length of the payload as 32-bit
// numbers, big endian, and the payload. The command numbers the channels; each stands for one
// connection. Each side may send as many bytes of data on a channel as the other has room for: at
// first `window`, and then what `credit` adds. So a connection that nobody reads stops only itself,
// and no side keeps more than `window` bytes for a channel.
namespace batchai::visit {

// The node's side begins with this text. What comes before it is what a prolog of Slurm has
// printed.
inline constexpr std::string_view preamble{"\0batchai-relay/1\n", 17};
inline constexpr std::size_t longest_noise = 65536;

inline constexpr std::size_t longest_payload = 32768;
inline constexpr std::uint32_t window = 512U << 10U;

enum class FrameType : std::uint8_t {
    watch = 1,   // to the node: a port whose state the command wants to know. Channel 0
    state = 2,   // from the node: a port, and a byte of PortState. Channel 0
    open = 3,    // to the node: connect the channel to a port
    opened = 4,  // from the node: the channel is connected
    data = 5,
    credit = 6,  // the sender has room for so many more bytes
    end = 7,     // no more data follows in this direction
    reset = 8,   // the channel is gone in both directions
};

// What listens on a port of the node.
enum class PortState : std::uint8_t {
    silent = 0,   // nothing
    listens = 1,  // a process of the user's
    foreign = 2,  // a process of somebody else, which is never connected to
    unknown = 3,  // the node does not say
};

struct Frame {
    FrameType type = FrameType::data;
    std::uint32_t channel = 0;
    std::string payload{};

    bool operator==(const Frame&) const = default;
};

void append(std::string& out, FrameType type, std::uint32_t channel, std::string_view payload = {});
void append_port(std::string& out, FrameType type, std::uint32_t channel, std::uint16_t port);
void append_state(std::string& out, std::uint16_t port, PortState state);
void append_credit(std::string& out, std::uint32_t channel, std::uint32_t bytes);

// These read the payload of a frame that FrameReader has returned.
[[nodiscard]] std::uint16_t port_of(const Frame& frame);  // watch, state, open
[[nodiscard]] PortState state_of(const Frame& frame);
[[nodiscard]] std::uint32_t credit_of(const Frame& frame);

// Takes a stream apart. Once the stream is not what this protocol writes, fault() says so, and no
// more frames come.
class FrameReader {
  public:
    enum class Begin { at_once, after_preamble };

    explicit FrameReader(Begin begin) : greeted_(begin == Begin::at_once) {}

    void feed(std::string_view bytes);
    [[nodiscard]] std::optional<Frame> next();
    [[nodiscard]] bool greeted() const { return greeted_; }
    [[nodiscard]] const std::string& fault() const { return fault_; }

  private:
    void look_for_preamble();
    void refuse(std::string why);

    std::string buffer_;
    std::size_t at_ = 0;  // what is before it in the buffer has been read
    std::size_t noise_ = 0;
    bool greeted_;
    std::string fault_;
};

}  // namespace batchai::visit
