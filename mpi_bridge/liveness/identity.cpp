// SPDX-License-Identifier: Apache-2.0
#include "liveness/identity.hpp"

#include <climits>
#include <cstring>

#include <unistd.h>

#include "core/process_stat.hpp"
#include "core/this_host.hpp"

namespace mpi_bridge {
namespace {

// Both ends have the same byte order, or the handshake fails.
struct Head {
    std::uint64_t start = 0;
    std::int32_t process = 0;
    std::uint32_t host_bytes = 0;
};

}  // namespace

RankIdentity RankIdentity::own() {
    RankIdentity identity;
    identity.host = host_name();
    identity.process = getpid();
    if (const auto text = read_process_stat("self")) {
        if (const auto stat = parse_process_stat(*text)) identity.start = stat->start;
    }
    return identity;
}

std::vector<std::byte> HeartbeatAddress::bytes() const {
    const Head head{.start = identity.start,
                    .process = identity.process,
                    .host_bytes = static_cast<std::uint32_t>(identity.host.size())};
    std::vector<std::byte> bytes(sizeof head + identity.host.size() + endpoint.size());
    std::memcpy(bytes.data(), &head, sizeof head);
    std::byte* end = bytes.data() + sizeof head;
    if (!identity.host.empty()) std::memcpy(end, identity.host.data(), identity.host.size());
    end += identity.host.size();
    if (!endpoint.empty()) std::memcpy(end, endpoint.data(), endpoint.size());
    return bytes;
}

Outcome<HeartbeatAddress> HeartbeatAddress::parse(std::span<const std::byte> bytes) {
    Head head;
    if (bytes.size() < sizeof head)
        return fail(MPIB_ERROR_BOOTSTRAP, "a heartbeat's address is cut");
    std::memcpy(&head, bytes.data(), sizeof head);
    bytes = bytes.subspan(sizeof head);
    if (head.host_bytes > HOST_NAME_MAX || head.host_bytes > bytes.size())
        return fail(MPIB_ERROR_BOOTSTRAP, "a heartbeat's address is cut");
    HeartbeatAddress address;
    const auto host = bytes.first(head.host_bytes);
    address.identity = {.host = {reinterpret_cast<const char*>(host.data()), host.size()},
                        .process = head.process,
                        .start = head.start};
    const auto endpoint = bytes.subspan(head.host_bytes);
    address.endpoint.assign(endpoint.begin(), endpoint.end());
    return address;
}

char state_of(const RankIdentity& identity) {
    const auto text = read_process_stat(std::to_string(identity.process));
    if (!text) return process_state::ended;
    const auto stat = parse_process_stat(*text);
    if (!stat || stat->start != identity.start) return process_state::unknown;
    return stat->state;
}

}  // namespace mpi_bridge
