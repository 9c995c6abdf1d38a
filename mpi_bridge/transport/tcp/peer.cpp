// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/peer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <sys/socket.h>
#include <sys/uio.h>

namespace mpi_bridge {
namespace {

// The limit per call: what has come in should be worked on while more is coming.
constexpr std::size_t most_read_per_look = 1024UL * 1024;
// This is below what the kernel takes in one call, so that a shorter count means an empty socket.
constexpr std::size_t longest_piece = std::size_t{1} << 30;
constexpr std::size_t most_pieces = 16;

// Pieces of memory for one system call.
class Pieces {
  public:
    // Leaves out the first `skip` bytes, and subtracts the bytes left out from `skip`.
    void add(const void* memory, std::size_t bytes, std::size_t& skip) {
        const std::size_t skipped = std::min(skip, bytes);
        skip -= skipped;
        const std::size_t length = std::min(bytes - skipped, longest_piece);
        if (length == 0) return;
        // iovec serves both directions and so has no const.
        auto* begin = static_cast<std::byte*>(const_cast<void*>(memory)) + skipped;
        pieces_[count_++] = {begin, length};
        bytes_ += length;
    }
    [[nodiscard]] bool full() const { return count_ + 2 > most_pieces || bytes_ >= longest_piece; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    [[nodiscard]] ssize_t send(int socket) {
        const msghdr all = message();
        return sendmsg(socket, &all, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    [[nodiscard]] ssize_t receive(int socket) {
        // Many reads find nothing, and they cost less without a msghdr for the kernel to read
        // first.
        if (count_ == 1) return recv(socket, pieces_[0].iov_base, pieces_[0].iov_len, MSG_DONTWAIT);
        msghdr all = message();
        return recvmsg(socket, &all, MSG_DONTWAIT);
    }

  private:
    [[nodiscard]] msghdr message() {
        msghdr message{};
        message.msg_iov = pieces_.data();
        message.msg_iovlen = count_;
        return message;
    }

    std::array<iovec, most_pieces> pieces_;
    std::size_t count_ = 0;
    std::size_t bytes_ = 0;
};

bool try_again(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

void TcpPeer::send(TcpOperation& send, Tag tag, std::span<const std::byte> data,
                   bool another_follows) {
    participation_.note(tag);
    if (outgoing_.empty()) is_full_ = false;
    outgoing_.push_back({{send.key, tag.agreement, data.size()}, data, &send});
    if (!is_full_ && !another_follows) write();
}

void TcpPeer::say_goodbye() {
    outgoing_.push_back({{TcpHeader::goodbye, 0, 0}, {}, nullptr});
    write();
}

bool TcpPeer::write() {
    bool moved = false;
    while (connected() && !outgoing_.empty()) {
        Pieces pieces;
        std::size_t skip = sent_of_first_;
        for (auto next = outgoing_.begin(); next != outgoing_.end() && !pieces.full(); ++next) {
            pieces.add(&next->header, sizeof next->header, skip);
            pieces.add(next->data.data(), next->data.size(), skip);
            // The rest of a piece that was cut must be sent before anything else.
            if (next->data.size() > longest_piece) break;
        }
        const auto count = pieces.send(socket());
        if (count < 0) {
            if (errno == EINTR) continue;
            // What the other side sent before it went must still be read; the end of the connection
            // is noticed there.
            if (!try_again(errno)) readable_ = true;
            break;
        }
        moved = true;
        sent(static_cast<std::size_t>(count));
        if (static_cast<std::size_t>(count) < pieces.bytes()) break;
    }
    is_full_ = !outgoing_.empty();
    return moved;
}

void TcpPeer::sent(std::size_t bytes) {
    sent_of_first_ += bytes;
    while (!outgoing_.empty()) {
        const Outgoing& first = outgoing_.front();
        const std::size_t whole = sizeof first.header + first.data.size();
        if (sent_of_first_ < whole) break;
        sent_of_first_ -= whole;
        if (first.operation != nullptr) first.operation->done = true;
        outgoing_.pop_front();
    }
}

bool TcpPeer::read() {
    bool moved = false;
    std::size_t total = 0;
    while (connected() && total < most_read_per_look) {
        const auto landing = inbox_.landing();
        Pieces pieces;
        std::size_t none = 0;
        pieces.add(landing.data(), landing.size(), none);
        // If the landing was cut, its rest must come before anything is staged.
        if (landing.size() <= longest_piece) {
            pieces.add(staging_.data() + staged_end_, staging_.size() - staged_end_, none);
        }
        const auto count = pieces.receive(socket());
        if (count <= 0) {
            if (count < 0 && errno == EINTR) continue;
            readable_ = false;
            if (count < 0 && try_again(errno)) break;
            end_of_stream(count == 0 ? 0 : errno);
            return true;
        }
        moved = true;
        const auto bytes = static_cast<std::size_t>(count);
        total += bytes;
        const std::size_t landed = std::min({bytes, landing.size(), longest_piece});
        if (landed != 0) inbox_.landed(landed);
        staged_end_ += bytes - landed;
        parse();
        // This may have been the last event, and the end of the connection may have come with this
        // data.
        readable_ = ending_ || bytes == pieces.bytes();
        if (!readable_) break;
    }
    return moved;
}

std::size_t TcpPeer::take_staged(std::span<std::byte> target) {
    const std::size_t bytes = std::min(target.size(), staged_end_ - staged_begin_);
    if (bytes != 0) std::memcpy(target.data(), staging_.data() + staged_begin_, bytes);
    staged_begin_ += bytes;
    return bytes;
}

void TcpPeer::parse() {
    while (staged_begin_ != staged_end_) {
        if (!inbox_.complete()) {
            inbox_.landed(take_staged(inbox_.landing()));
            continue;
        }
        if (staged_end_ - staged_begin_ < sizeof(TcpHeader)) break;
        TcpHeader header;
        (void)take_staged(std::as_writable_bytes(std::span(&header, 1)));
        if (header.key == TcpHeader::goodbye) {
            say_left();
        } else {
            inbox_.begin(header);
        }
    }
    // At most a part of a header is left over.
    std::memmove(staging_.data(), staging_.data() + staged_begin_, staged_end_ - staged_begin_);
    staged_end_ -= staged_begin_;
    staged_begin_ = 0;
}

void TcpPeer::end_of_stream(int error) {
    const auto why = error == 0 ? std::string("the other side closed it without goodbye")
                                : std::system_category().message(error);
    lose("the connection broke: " + why);
}

void TcpPeer::lose(std::string why) {
    if (presence_ == Presence::there) {
        presence_ = Presence::lost;
        end_ = std::move(why);
    }
    socket_ = FileDescriptor();
    readable_ = ending_ = false;
}

void TcpPeer::leave() {
    say_left();
    socket_ = FileDescriptor();
}

void TcpPeer::say_left() {
    presence_ = Presence::left;
    end_ = "it has left";
}

void TcpPeer::abandon() {
    if (connected()) {
        // With this option, closing the socket sends a reset.
        const linger at_once{1, 0};
        (void)setsockopt(socket(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    socket_ = FileDescriptor();
    inbox_.clear();
    outgoing_.clear();
}

}  // namespace mpi_bridge
