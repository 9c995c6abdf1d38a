// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "core/file_descriptor.hpp"
#include "transport/tcp_address.hpp"

namespace mpi_bridge {

// Makes one connection between each two ranks that talk. Nothing here blocks; step() moves on.
// Needs the transport's lock.
//
// Whoever wants to talk first calls: it connects and says hello, who it is and whom it means, with
// the secret that rank published. The other says welcome. Whoever says anything else, or nothing
// for long, is a stranger and is dropped. When two ranks call each other, the call of the lower
// rank counts: it answers the other's hello with "I have called you", and the higher one welcomes
// its call and forgets its own.
class TcpMeeting {
  public:
    struct Events {
        std::function<void(int rank, FileDescriptor socket)> met;
        std::function<void(int rank, std::string why)> missed;
        // A socket that step() wants to look at, when something happens to it.
        std::function<void(int socket)> watch;
        std::function<Outcome<std::vector<std::byte>>(int rank)> address_of;
    };

    TcpMeeting(int rank, int size, Events events)
        : rank_(rank), size_(size), events_(std::move(events)) {}

    // Opens a port at each of the addresses; one that cannot be had is left out if another can.
    [[nodiscard]] Done listen(const std::vector<std::string>& addresses);
    [[nodiscard]] const TcpAddress& address() const { return address_; }

    // Calls a rank that was neither met nor called before. Asks for its address.
    [[nodiscard]] Done call(int rank);

    // True when something moved.
    bool step();
    // Someone may call, and somebody who did has not yet been met.
    [[nodiscard]] bool busy() const { return !calls_.empty() || !visitors_.empty(); }

    void abandon();

  private:
    static constexpr std::uint64_t magic = 0x6d706962'74637001;  // its last byte is the version

    struct Hello {
        std::uint64_t mark = magic;
        std::uint32_t from = 0;
        std::uint32_t to = 0;
        TcpSecret secret{};
    };
    enum class Word : std::uint64_t { welcome = magic + 0x100, called_you = magic + 0x200 };

    struct Call {
        TcpAddress address;
        std::size_t endpoint = 0;  // the one that is tried
        FileDescriptor socket;
        std::size_t said = 0;   // of the hello
        std::size_t heard = 0;  // of the answer
        std::array<std::byte, sizeof(Word)> answer{};
        bool yields = false;  // the other's call counts, and will come
    };
    struct Visitor {
        FileDescriptor socket;
        std::size_t heard = 0;
        std::array<std::byte, sizeof(Hello)> hello{};
        Clock::time_point since;
    };
    enum class Progress { waits, moved, ended };

    void reach(int rank, Call& call, std::string why);
    [[nodiscard]] Progress advance(int rank, Call& call);
    [[nodiscard]] Progress conclude(int rank, Call& call);
    [[nodiscard]] bool accept_all(const FileDescriptor& listener);
    [[nodiscard]] Progress advance(Visitor& visitor);
    void receive(Visitor& visitor, const Hello& hello);

    int rank_;
    int size_;
    Events events_;
    TcpAddress address_;
    std::vector<FileDescriptor> listeners_;
    std::unordered_map<int, Call> calls_;
    std::list<Visitor> visitors_;
    std::vector<bool> met_;
};

}  // namespace mpi_bridge
