// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"

namespace batchai::base {

// Returns the node's IPv4 address, else its IPv6 address, as this node resolves it. Returns the
// name itself if it does not resolve, or resolves only to this node's loopback, where no other node
// would find it. Every program that takes an address also takes a name.
[[nodiscard]] std::string address_of(const std::string& node);

// Returns whether the name resolves, but only to this node's loopback: Debian and Ubuntu give a
// host that name for itself (127.0.1.1 in /etc/hosts).
[[nodiscard]] bool is_loopback_only(const std::string& node);

// Returns the address with which this node reaches another one, whose address is a number. Nothing
// is sent. Returns nothing if there is no way to it but the loopback.
[[nodiscard]] std::optional<std::string> own_address_towards(const std::string& address);

// Returns "ADDRESS:PORT", with brackets around an IPv6 address.
[[nodiscard]] std::string host_and_port(const std::string& address, int port);

// Where a program listens.
struct Endpoint {
    std::string address;  // or a name
    int port = 0;

    bool operator==(const Endpoint&) const = default;
};

// Returns the endpoint with each address of its host; none if the name does not resolve. May wait
// for a name server.
[[nodiscard]] std::vector<Endpoint> resolved(const Endpoint& endpoint);

enum class Knock {
    open,     // somebody listens
    refused,  // the host lives, and nobody listens
    silent,   // no answer in time, or no host
    unknown,  // this host could not ask
};

// Connects to all of them at once, for at most `patience`, and sends nothing. The addresses must be
// numbers.
[[nodiscard]] std::vector<Knock> knock(const std::vector<Endpoint>& endpoints,
                                       std::chrono::milliseconds patience);

// A TCP port that stays ours as long as the object exists. Its socket is bound with SO_REUSEADDR
// but does not listen. So a rank on this node can still bind the port with SO_REUSEADDR and listen,
// as torch and gloo do, while no other process is given it as an ephemeral port.
class ReservedPort {
  public:
    [[nodiscard]] static std::optional<ReservedPort> reserve();
    [[nodiscard]] int number() const { return number_; }

  private:
    FileDescriptor socket_;
    int number_ = 0;
};

}  // namespace batchai::base
