// SPDX-License-Identifier: Apache-2.0
// Whoever reaches the port of a rank can send it anything. Only a caller that knows the secret may
// be proven, whatever it changes in what it sends. The input is added to a genuine caller's hello
// and response by exclusive or: where it has zeros, the caller is genuine.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include <sys/socket.h>

#include "tests/fuzz/promise.hpp"
#include "transport/tcp/address.hpp"
#include "transport/tcp/handshake.hpp"
#include "transport/tcp/pending_handshakes.hpp"

namespace {

using batchai::fuzz::promise;
using namespace mpi_bridge;

constexpr TcpSecret secret{std::byte{1}, std::byte{2}, std::byte{3}};
constexpr int callee = 0;
constexpr int caller = 1;
constexpr int size_of_world = 3;

// Sends `part`, changed by the next bytes of the input. Returns whether it is unchanged.
template <typename Part>
bool send_changed(int socket, const Part& part, std::span<const std::uint8_t>& input) {
    std::array<std::uint8_t, sizeof part> bytes{};
    std::memcpy(bytes.data(), &part, sizeof part);
    const std::size_t count = std::min(input.size(), bytes.size());
    bool unchanged = true;
    for (std::size_t i = 0; i < count; ++i) {
        bytes[i] ^= input[i];
        unchanged = unchanged && input[i] == 0;
    }
    input = input.subspan(count);
    static_cast<void>(::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    return unchanged;
}

void shake_hands(std::span<const std::uint8_t> input) {
    std::array<int, 2> ends{};
    promise(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    FileDescriptor near(ends[0]);
    const FileDescriptor far(ends[1]);

    int proven = 0;
    int proven_caller = -1;
    TcpPendingHandshakes pending(callee, TcpLinks(size_of_world),
                                 {.watch = [](int) {},
                                  .proven =
                                      [&](const FileDescriptor&, const TcpHandshake& handshake) {
                                          ++proven;
                                          proven_caller = handshake.caller();
                                      }});
    pending.set_secret(secret);
    pending.admit(std::move(near));

    auto handshake = TcpHandshake::call(secret, caller, callee);
    promise(handshake.has_value());
    bool genuine = send_changed(far.number(), handshake->hello(), input);
    while (pending.step()) {
    }
    TcpHandshake::Challenge challenge;
    if (::recv(far.number(), &challenge, sizeof challenge, MSG_DONTWAIT) == sizeof challenge) {
        // A rank with a wrong secret gets an answer, too, so that it notices.
        promise(handshake->accepts(challenge) || !genuine);
        genuine = send_changed(far.number(), handshake->response(), input) && genuine;
        // Bytes that no caller sends break off the handshake.
        if (!input.empty()) {
            static_cast<void>(
                ::send(far.number(), input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
            genuine = false;
        }
        while (pending.step()) {
        }
        promise(proven == (genuine ? 1 : 0));
        promise(proven == 0 || proven_caller == caller);
    } else {
        promise(!genuine && proven == 0);
    }
}

void read_address(std::span<const std::uint8_t> input) {
    const auto address = TcpAddress::parse(std::as_bytes(input));
    if (!address) return;
    const auto again = TcpAddress::parse(address->bytes());
    promise(again.has_value() && again->secret == address->secret &&
            again->endpoints.size() == address->endpoints.size());
    for (const TcpEndpoint& endpoint : address->endpoints)
        promise(!endpoint.text().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::uint8_t> input(data, size);
    shake_hands(input);
    read_address(input);
    return 0;
}
