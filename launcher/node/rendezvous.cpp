// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rendezvous.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace batchai::node {

namespace {

constexpr std::chrono::milliseconds between_looks{20};

base::Result<Rendezvous> host(const RendezvousRequest& request) {
    Rendezvous made;
    made.reserved = base::ReservedPort::reserve();
    std::array<char, 256> name{};
    if (!made.reserved || gethostname(name.data(), name.size() - 1) != 0)
        return base::fail("no TCP port can be reserved");
    made.address = base::address_of(name.data());
    made.port = made.reserved->number();
    if (request.nodes == 1) return made;
    TRY(base::make_directories(request.directory));
    const std::string path = rendezvous_file(request);
    const base::FileDescriptor file(
        open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    // The line is written by a single call, and its newline tells readers that it is complete.
    const std::string line = fmt::format("{} {}\n", made.address, made.port);
    if (!file.valid() || ::write(file.get(), line.data(), line.size()) < 0)
        return base::fail(std::strerror(errno), path);
    return made;
}

std::optional<Rendezvous> parse(std::string_view text) {
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || !text.ends_with('\n')) return std::nullopt;
    Rendezvous out;
    out.address = text.substr(0, space);
    out.port = base::number_in<int>(text.substr(space + 1, text.size() - space - 2)).value_or(0);
    const bool sound = out.port > 0 && out.port < 65536;
    return sound && !out.address.empty() ? std::optional(std::move(out)) : std::nullopt;
}

// Reads the file if it is complete. Opens it anew each time, and with O_CREAT, so that an NFS
// client asks the server. Otherwise the client might assume for half a minute that a file which it
// once did not find is still missing.
std::optional<Rendezvous> look(const std::string& path) {
    const base::FileDescriptor file(
        open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    std::array<char, 512> text{};
    const ssize_t count = file.valid() ? ::read(file.get(), text.data(), text.size()) : -1;
    if (count <= 0) return std::nullopt;
    return parse(std::string_view(text.data(), static_cast<std::size_t>(count)));
}

}  // namespace

std::string rendezvous_file(const RendezvousRequest& request) {
    return fmt::format("{}/master-{}", request.directory, request.step);
}

base::Result<Rendezvous> meet(const RendezvousRequest& request,
                              std::chrono::milliseconds deadline) {
    if (request.node == 0) return host(request);
    TRY(base::make_directories(request.directory));
    const std::string path = rendezvous_file(request);
    const auto end = std::chrono::steady_clock::now() + deadline;
    do {
        if (auto found = look(path)) return std::move(*found);
        std::this_thread::sleep_for(between_looks);
    } while (std::chrono::steady_clock::now() < end);
    return base::fail(
        fmt::format("the step's first node did not announce a port within {} ms", deadline.count()),
        path);
}

}  // namespace batchai::node
