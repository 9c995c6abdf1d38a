// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/relay/frames.hpp"

#include <utility>

#include <fmt/format.h>

namespace batchai::visit {

namespace {

constexpr std::size_t header_bytes = 9;

void append_number(std::string& out, std::uint32_t number) {
    for (const unsigned int shift : {24U, 16U, 8U, 0U})
        out += static_cast<char>((number >> shift) & 0xFFU);
}

std::uint32_t number_at(std::string_view bytes) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < 4; ++i)
        number = (number << 8U) | static_cast<unsigned char>(bytes[i]);
    return number;
}

struct Length {
    std::size_t least;
    std::size_t most;
};

std::optional<Length> length_of(std::uint8_t type) {
    switch (static_cast<FrameType>(type)) {
        case FrameType::watch:
        case FrameType::open:
            return Length{2, 2};
        case FrameType::state:
            return Length{3, 3};
        case FrameType::credit:
            return Length{4, 4};
        case FrameType::data:
            return Length{1, longest_payload};
        case FrameType::opened:
        case FrameType::end:
        case FrameType::reset:
            return Length{0, 0};
    }
    return std::nullopt;
}

bool is_state(char byte) {
    return static_cast<unsigned char>(byte) <= static_cast<std::uint8_t>(PortState::unknown);
}

}  // namespace

void append(std::string& out, FrameType type, std::uint32_t channel, std::string_view payload) {
    out += static_cast<char>(type);
    append_number(out, channel);
    append_number(out, static_cast<std::uint32_t>(payload.size()));
    out += payload;
}

void append_port(std::string& out, FrameType type, std::uint32_t channel, std::uint16_t port) {
    const std::string bytes{static_cast<char>(port >> 8U), static_cast<char>(port & 0xFFU)};
    append(out, type, channel, bytes);
}

void append_state(std::string& out, std::uint16_t port, PortState state) {
    const std::string bytes{static_cast<char>(port >> 8U), static_cast<char>(port & 0xFFU),
                            static_cast<char>(state)};
    append(out, FrameType::state, 0, bytes);
}

void append_credit(std::string& out, std::uint32_t channel, std::uint32_t bytes) {
    std::string payload;
    append_number(payload, bytes);
    append(out, FrameType::credit, channel, payload);
}

std::uint16_t port_of(const Frame& frame) {
    const auto high = static_cast<unsigned char>(frame.payload[0]);
    const auto low = static_cast<unsigned char>(frame.payload[1]);
    return static_cast<std::uint16_t>((high << 8U) | low);
}

PortState state_of(const Frame& frame) {
    return static_cast<PortState>(frame.payload[2]);
}

std::uint32_t credit_of(const Frame& frame) {
    return number_at(frame.payload);
}

void FrameReader::refuse(std::string why) {
    fault_ = std::move(why);
    buffer_.clear();
    at_ = 0;
}

void FrameReader::look_for_preamble() {
    const std::size_t found = buffer_.find(preamble);
    if (found != std::string::npos) {
        noise_ += found;
        buffer_.erase(0, found + preamble.size());
        greeted_ = true;
    } else if (buffer_.size() > preamble.size()) {
        // The end may be the begin of the preamble.
        noise_ += buffer_.size() - preamble.size();
        buffer_.erase(0, buffer_.size() - preamble.size());
    }
    if (noise_ > longest_noise) refuse("the node prints something else");
}

void FrameReader::feed(std::string_view bytes) {
    if (!fault_.empty()) return;
    if (at_ > 0 && (at_ == buffer_.size() || at_ > longest_payload)) {
        buffer_.erase(0, at_);
        at_ = 0;
    }
    buffer_ += bytes;
    if (!greeted_) look_for_preamble();
}

std::optional<Frame> FrameReader::next() {
    if (!greeted_ || !fault_.empty()) return std::nullopt;
    const std::string_view left = std::string_view(buffer_).substr(at_);
    if (left.size() < header_bytes) return std::nullopt;
    const auto type = static_cast<std::uint8_t>(left[0]);
    const std::uint32_t channel = number_at(left.substr(1));
    const std::size_t length = number_at(left.substr(5));
    const auto allowed = length_of(type);
    if (!allowed || length < allowed->least || length > allowed->most) {
        refuse(fmt::format("a frame of type {} has {} bytes", type, length));
        return std::nullopt;
    }
    if (left.size() < header_bytes + length) return std::nullopt;
    Frame frame{.type = static_cast<FrameType>(type),
                .channel = channel,
                .payload = std::string(left.substr(header_bytes, length))};
    at_ += header_bytes + length;
    if (frame.type == FrameType::state && !is_state(frame.payload[2])) {
        refuse("a port has a state that does not exist");
        return std::nullopt;
    }
    return frame;
}

}  // namespace batchai::visit
