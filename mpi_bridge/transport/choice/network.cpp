// SPDX-License-Identifier: Apache-2.0
#include "transport/choice/network.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace mpi_bridge {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    return line;
}

// Returns "" for link-local addresses, which mean nothing without their interface, and for other
// families.
std::string in_numbers(const sockaddr* address) {
    char text[INET6_ADDRSTRLEN] = "";
    if (address->sa_family == AF_INET) {
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
        constexpr std::uint32_t link_local = 0xa9fe0000;  // 169.254.0.0/16
        if ((ntohl(v4->sin_addr.s_addr) & 0xffff0000U) == link_local) return {};
        inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
    } else if (address->sa_family == AF_INET6) {
        const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
        if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) return {};
        inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
    }
    return text;
}

// /proc/net/route holds the interface's name, then destination and gateway in hexadecimal.
std::set<std::string> interfaces_with_default_route() {
    std::set<std::string> names;
    std::ifstream routes("/proc/net/route");
    std::string line;
    std::getline(routes, line);
    while (std::getline(routes, line)) {
        std::istringstream fields(line);
        std::string name;
        std::string destination;
        std::string gateway;
        std::string flags;
        std::string skipped;
        std::string mask;
        fields >> name >> destination >> gateway >> flags >> skipped >> skipped >> skipped >> mask;
        if (destination == "00000000" && mask == "00000000") names.insert(name);
    }
    return names;
}

// A card has a device. A bond or a VLAN of cards has lower interfaces, but so has a bridge.
bool is_hardware(const fs::path& directory) {
    std::error_code fault;
    if (fs::exists(directory / "device", fault)) return true;
    if (fs::exists(directory / "bridge", fault)) return false;
    const auto entries = fs::directory_iterator(directory, fault);
    if (fault) return false;
    return std::any_of(begin(entries), end(entries), [](const auto& entry) {
        return entry.path().filename().string().starts_with("lower_");
    });
}

std::vector<NetworkInterface> interfaces_of_this_host() {
    std::vector<NetworkInterface> interfaces;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return interfaces;
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, freeifaddrs);
    const auto routed = interfaces_with_default_route();
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
        const std::string name = entry->ifa_name;
        auto known = std::find_if(interfaces.begin(), interfaces.end(),
                                  [&](const auto& each) { return each.name == name; });
        if (known == interfaces.end()) {
            NetworkInterface found;
            found.name = name;
            found.up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
            found.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
            found.default_route = routed.contains(name);
            const auto directory = fs::path("/sys/class/net") / name;
            found.hardware = is_hardware(directory);
            // The file holds -1 or nothing where the driver does not know the speed.
            const std::string speed = first_line(directory / "speed");
            found.speed_mbps = std::max(0L, std::strtol(speed.c_str(), nullptr, 10));
            known = interfaces.insert(interfaces.end(), std::move(found));
        }
        if (entry->ifa_addr == nullptr) continue;
        auto address = in_numbers(entry->ifa_addr);
        if (!address.empty()) known->addresses.push_back(std::move(address));
    }
    return interfaces;
}

std::vector<std::string> active_rdma_ports() {
    std::vector<std::string> ports;
    std::error_code fault;
    for (const auto& device : fs::directory_iterator("/sys/class/infiniband", fault)) {
        for (const auto& port : fs::directory_iterator(device.path() / "ports", fault)) {
            if (first_line(port.path() / "state") != "4: ACTIVE") continue;
            ports.push_back(device.path().filename().string() + ":" +
                            port.path().filename().string());
        }
    }
    std::sort(ports.begin(), ports.end());
    return ports;
}

// The local address that the system would use to reach `other`. Connecting a datagram socket
// chooses the route and sends nothing.
std::string own_address_towards(const std::string& other) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(9);  // any port will do
    if (inet_pton(AF_INET, other.c_str(), &to.sin_addr) != 1) return {};
    const int probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) return {};
    sockaddr_in own{};
    socklen_t length = sizeof own;
    const bool known = connect(probe, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
                       getsockname(probe, reinterpret_cast<sockaddr*>(&own), &length) == 0;
    close(probe);
    return known ? in_numbers(reinterpret_cast<const sockaddr*>(&own)) : std::string();
}

// The IPv4 address of a host in numbers, "" if it has none.
std::string address_of(const char* host) {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    addrinfo* found = nullptr;
    if (getaddrinfo(host, nullptr, &hints, &found) != 0) return {};
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, freeaddrinfo);
    return in_numbers(found->ai_addr);
}

}  // namespace

Network network_of_this_host() {
    if (const char* const launcher = std::getenv("SLURM_LAUNCH_NODE_IPADDR"))
        return network_of_this_host(launcher, Network().launcher);
    // Ranks that Slurm has not started, but torchrun or a script, usually have this variable.
    if (const char* const master = std::getenv("MASTER_ADDR"))
        return network_of_this_host(address_of(master), std::string("MASTER_ADDR, ") + master);
    return network_of_this_host("", Network().launcher);
}

Network network_of_this_host(const std::string& address, std::string words) {
    Network network;
    network.interfaces = interfaces_of_this_host();
    network.rdma_ports = active_rdma_ports();
    network.address_to_launcher = own_address_towards(address);
    network.launcher = std::move(words);
    return network;
}

}  // namespace mpi_bridge
