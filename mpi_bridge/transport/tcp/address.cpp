// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/address.hpp"

#include <cerrno>
#include <cstring>
#include <system_error>

#include <arpa/inet.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/random_bytes.hpp"

namespace mpi_bridge {
namespace {

// How many connections may wait until this rank accepts them: all ranks of a job may call at once.
constexpr int backlog = 4096;

sockaddr_in& v4(sockaddr_storage& storage) {
    return reinterpret_cast<sockaddr_in&>(storage);
}
sockaddr_in6& v6(sockaddr_storage& storage) {
    return reinterpret_cast<sockaddr_in6&>(storage);
}

constexpr std::string_view name_begin = "mpi_bridge.";
constexpr std::size_t random_digits = 32;
// The zero byte makes the name an abstract one.
constexpr std::size_t name_length = 1 + name_begin.size() + random_digits;

sockaddr_un& on_host(sockaddr_storage& storage) {
    return reinterpret_cast<sockaddr_un&>(storage);
}

tl::unexpected<Failure> system_failure(const std::string& what) {
    return fail(MPIB_ERROR_INTERNAL, what + ": " + std::system_category().message(errno));
}

void append(std::vector<std::byte>& bytes, const void* from, std::size_t count) {
    const auto* begin = static_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), begin, begin + count);
}

Done draw_name(char* name) {
    std::array<unsigned char, random_digits / 2> random{};
    TRY(fill_random(std::as_writable_bytes(std::span(random))));
    constexpr std::string_view digits = "0123456789abcdef";
    *name++ = '\0';
    name = std::copy(name_begin.begin(), name_begin.end(), name);
    for (const unsigned byte : random) {
        *name++ = digits[byte >> 4];
        *name++ = digits[byte & 15];
    }
    return {};
}

}  // namespace

socklen_t TcpEndpoint::length() const {
    if (storage.ss_family == AF_INET) return sizeof(sockaddr_in);
    if (storage.ss_family == AF_INET6) return sizeof(sockaddr_in6);
    return offsetof(sockaddr_un, sun_path) + name_length;
}

Outcome<TcpEndpoint> TcpEndpoint::parse(const std::string& address) {
    TcpEndpoint endpoint;
    if (address == own_host) {
        endpoint.storage.ss_family = AF_UNIX;
        return endpoint;
    }
    if (inet_pton(AF_INET, address.c_str(), &v4(endpoint.storage).sin_addr) == 1) {
        endpoint.storage.ss_family = AF_INET;
    } else if (inet_pton(AF_INET6, address.c_str(), &v6(endpoint.storage).sin6_addr) == 1) {
        endpoint.storage.ss_family = AF_INET6;
    } else {
        return fail(MPIB_ERROR_INTERNAL, "\"" + address + "\" is no IPv4 or IPv6 address");
    }
    return endpoint;
}

std::string TcpEndpoint::text() const {
    sockaddr_storage copy = storage;
    if (is_on_host()) {
        return "@" + std::string(on_host(copy).sun_path + 1, name_length - 1);
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (copy.ss_family == AF_INET) {
        inet_ntop(AF_INET, &v4(copy).sin_addr, text.data(), text.size());
        return std::string(text.data()) + ":" + std::to_string(ntohs(v4(copy).sin_port));
    }
    inet_ntop(AF_INET6, &v6(copy).sin6_addr, text.data(), text.size());
    return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(v6(copy).sin6_port));
}

// The secret, then for each endpoint its length and its socket address in the system's form.
std::vector<std::byte> TcpAddress::bytes() const {
    std::vector<std::byte> bytes;
    append(bytes, secret.data(), secret.size());
    for (const auto& endpoint : endpoints) {
        bytes.push_back(static_cast<std::byte>(endpoint.length()));
        append(bytes, &endpoint.storage, endpoint.length());
    }
    return bytes;
}

Outcome<TcpAddress> TcpAddress::parse(std::span<const std::byte> bytes) {
    const auto refuse = [] {
        return fail(MPIB_ERROR_BOOTSTRAP,
                    "a rank published an address of another form; do all "
                    "ranks use the same version of mpi_bridge?");
    };
    TcpAddress address;
    if (bytes.size() < address.secret.size()) return refuse();
    std::memcpy(address.secret.data(), bytes.data(), address.secret.size());
    bytes = bytes.subspan(address.secret.size());
    while (!bytes.empty()) {
        TcpEndpoint endpoint;
        const auto length = static_cast<std::size_t>(bytes.front());
        bytes = bytes.subspan(1);
        if (length > sizeof endpoint.storage || length > bytes.size()) return refuse();
        std::memcpy(&endpoint.storage, bytes.data(), length);
        bytes = bytes.subspan(length);
        const auto family = endpoint.storage.ss_family;
        if ((family != AF_INET && family != AF_INET6 && family != AF_UNIX) ||
            endpoint.length() != length) {
            return refuse();
        }
        address.endpoints.push_back(endpoint);
    }
    if (address.endpoints.empty()) return refuse();
    return address;
}

Outcome<TcpSecret> make_tcp_secret() {
    TcpSecret secret{};
    TRY(fill_random(std::as_writable_bytes(std::span(secret))));
    return secret;
}

bool may_be_a_rank(int socket) {
    int domain = 0;
    socklen_t length = sizeof domain;
    if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0) return false;
    if (domain != AF_UNIX) return true;
    ucred other{};
    length = sizeof other;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 &&
           other.uid == geteuid();
}

Outcome<FileDescriptor> listen_at(TcpEndpoint& endpoint) {
    const int family = endpoint.storage.ss_family;
    if (endpoint.is_on_host()) {
        TRY(draw_name(on_host(endpoint.storage).sun_path));
    }
    FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) return system_failure("socket");
    if (::bind(socket.number(), endpoint.generic(), endpoint.length()) != 0 ||
        ::listen(socket.number(), backlog) != 0) {
        return system_failure("listening at " + endpoint.text());
    }
    socklen_t length = sizeof endpoint.storage;
    auto* address = reinterpret_cast<sockaddr*>(&endpoint.storage);
    if (getsockname(socket.number(), address, &length) != 0) return system_failure("getsockname");
    return socket;
}

}  // namespace mpi_bridge
