// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/nccl_ras.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "node/stacks/proc_text.hpp"
#include "node/usage/processes.hpp"
#include "visit/relay/listening.hpp"
#include "visit/relay/socket_table.hpp"

namespace batchai::node {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint16_t usual_port = 28028;
// So long RAS waits for its threads on other hosts, which may have died.
constexpr std::string_view timeout_command = "TIMEOUT 2\n";
constexpr std::size_t most_status = 64UL << 10U;

// The numbers of the sockets that the processes have.
std::set<std::uint64_t> sockets_of(const std::vector<pid_t>& processes) {
    std::set<std::uint64_t> sockets;
    constexpr std::string_view before = "socket:[";
    for (const pid_t process : processes) {
        std::error_code error;
        const std::filesystem::directory_iterator all(fmt::format("/proc/{}/fd", process), error);
        if (error) continue;
        for (auto at = begin(all); at != end(all) && !error; at.increment(error)) {
            std::error_code gone;
            const std::string link = std::filesystem::read_symlink(at->path(), gone).string();
            if (!link.starts_with(before) || !link.ends_with(']')) continue;
            const auto digits = std::string_view(link).substr(before.size());
            const auto number = base::number_in<std::uint64_t>(digits.substr(0, digits.size() - 1));
            if (number) sockets.insert(*number);
        }
    }
    return sockets;
}

// Who gets a connection to the port, if it is one of the processes in any case.
std::optional<visit::Listening> listener(std::uint16_t port, const std::vector<pid_t>& processes) {
    const auto rows = visit::socket_table();
    if (!rows) return std::nullopt;
    auto found = visit::listening_on(port, *rows, geteuid());
    if (found.state != visit::PortState::listens) return std::nullopt;
    const auto own = sockets_of(processes);
    const bool is_ours = std::all_of(found.inodes.begin(), found.inodes.end(),
                                     [&](std::uint64_t inode) { return own.contains(inode); });
    return is_ours ? std::optional(std::move(found)) : std::nullopt;
}

// A conversation in lines.
class Conversation {
  public:
    explicit Conversation(Clock::time_point deadline) : deadline_(deadline) {}

    bool open(const visit::Endpoint& place) {
        sockaddr_storage address{};
        const socklen_t length = visit::socket_address(place, address);
        socket_.reset(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!socket_.valid()) return false;
        if (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0)
            return true;
        int error = 0;
        socklen_t size = sizeof error;
        return errno == EINPROGRESS && wait(POLLOUT) &&
               getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
    }

    // The commands are so short that the socket takes them as a whole.
    [[nodiscard]] bool say(std::string_view command) const {
        return send(socket_.get(), command.data(), command.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(command.size());
    }

    [[nodiscard]] std::optional<std::string> line() {
        std::size_t newline = 0;
        while ((newline = text_.find('\n')) == std::string::npos) {
            if (!read_more()) return std::nullopt;
        }
        std::string line = text_.substr(0, newline);
        text_.erase(0, newline + 1);
        return line;
    }

    struct Rest {
        std::string text;
        std::string_view why_cut;  // empty: it is all
    };

    // All that comes until it ends, up to a length.
    [[nodiscard]] Rest rest() {
        while (text_.size() <= most_status) {
            if (!wait(POLLIN)) return {std::move(text_), "NCCL has not said more in time"};
            if (!base::drain(socket_.get(), text_)) return {std::move(text_), {}};
        }
        text_.resize(most_status);
        return {std::move(text_), "NCCL says more than is shown"};
    }

  private:
    bool wait(short event) const {
        while (true) {
            const auto left =
                std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
            pollfd poll_event{.fd = socket_.get(), .events = event, .revents = 0};
            const int count =
                poll(&poll_event, 1, static_cast<int>(std::max<long>(left.count(), 0)));
            if (count < 0 && errno == EINTR) continue;
            return count > 0;
        }
    }

    bool read_more() {
        return text_.size() < most_status && wait(POLLIN) && base::drain(socket_.get(), text_);
    }

    Clock::time_point deadline_;
    base::FileDescriptor socket_{-1};
    std::string text_;
};

}  // namespace

std::uint16_t port_of_ras(std::string_view address) {
    const std::size_t colon = address.rfind(':');
    if (colon == std::string_view::npos) return 0;
    return base::number_in<std::uint16_t>(address.substr(colon + 1)).value_or(0);
}

std::uint16_t port_of_ras(const std::vector<pid_t>& processes) {
    for (const pid_t process : processes) {
        const std::string environment = proc_text(process, "environ");
        if (const auto address = variable_in(environment, "NCCL_RAS_ADDR"))
            return port_of_ras(*address);
    }
    return usual_port;
}

std::vector<std::string> nccl_status(const std::vector<pid_t>& processes, std::uint16_t port,
                                     std::chrono::milliseconds longest) {
    const auto before = listener(port, processes);
    if (!before) return {};
    Conversation connection(Clock::now() + longest);
    if (!connection.open(before->place)) return {};
    // If the same socket still listens, it has done so all the time, and has got the connection.
    if (listener(port, processes) != before) return {};
    if (!connection.say(timeout_command) || connection.line() != "OK") return {};
    if (!connection.say("STATUS\n")) return {};
    const auto said = connection.rest();
    std::vector<std::string> lines;
    for (const std::string_view line : base::split(base::trim(said.text), '\n'))
        lines.push_back(base::printable_line(line));
    if (!said.why_cut.empty()) lines.push_back(fmt::format("(not all: {})", said.why_cut));
    return lines;
}

}  // namespace batchai::node
