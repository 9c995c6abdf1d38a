// SPDX-License-Identifier: GPL-2.0-or-later
// A stand-in for the thread of NCCL that answers: it speaks the protocol of ncclras, which is lines
// of text. NCCL itself needs a GPU to start it.
#include "node/stacks/nccl_ras.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"

namespace {

using batchai::base::FileDescriptor;
using batchai::node::nccl_status;
using batchai::node::port_of_ras;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr milliseconds longest{20000};

// Listens on a free port of the loopback address.
class Listener {
  public:
    Listener() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        auto* const generic = reinterpret_cast<sockaddr*>(&address);
        if (bind(socket_.get(), generic, length) != 0 || listen(socket_.get(), 5) != 0 ||
            getsockname(socket_.get(), generic, &length) != 0)
            abort();
        port_ = ntohs(address.sin_port);
    }
    [[nodiscard]] std::uint16_t port() const { return port_; }
    [[nodiscard]] FileDescriptor next() const {
        return FileDescriptor(accept(socket_.get(), nullptr, nullptr));
    }
    [[nodiscard]] bool has_been_called() const {
        pollfd event{.fd = socket_.get(), .events = POLLIN, .revents = 0};
        return poll(&event, 1, 0) == 1;
    }
    void close() { socket_.reset(-1); }

  private:
    FileDescriptor socket_;
    std::uint16_t port_ = 0;
};

void say(const FileDescriptor& caller, std::string_view text) {
    (void)!send(caller.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

std::string line_from(const FileDescriptor& caller) {
    std::string line;
    char byte = 0;
    while (read(caller.get(), &byte, 1) == 1 && byte != '\n')
        line += byte;
    return line;
}

// Answers one caller, as NCCL does, and says `status`.
void answer(const Listener& listener, std::string_view status) {
    const FileDescriptor caller = listener.next();
    for (std::string line = line_from(caller); !line.empty(); line = line_from(caller)) {
        if (line == "STATUS") {
            say(caller, status);
            return;
        }
        say(caller, line.starts_with("TIMEOUT ") ? "OK\n" : "ERROR: Unknown command\n");
    }
}

TEST(NcclRas, IsAskedForItsStatus) {
    const Listener listener;
    std::thread nccl([&] {
        answer(listener, "NCCL version 2.30\n\nCommunicators...\n  1 with \033[31merrors\n");
    });
    EXPECT_THAT(nccl_status({getpid()}, listener.port(), longest),
                ElementsAre("NCCL version 2.30", "", "Communicators...",
                            "  1 with \xef\xbf\xbd[31merrors"));
    nccl.join();
}

// Breaks when something is sent to a port on which another job, or another user, has come first.
TEST(NcclRas, IsNotAskedWhereItIsNotOfTheJob) {
    std::array<int, 2> look{};
    ASSERT_EQ(pipe(look.data()), 0);
    Listener listener;
    const pid_t other = fork();
    if (other == 0) {
        char byte = 0;
        (void)!read(look[0], &byte, 1);
        _exit(listener.has_been_called() ? 1 : 0);
    }
    const std::uint16_t port = listener.port();
    listener.close();
    EXPECT_THAT(nccl_status({getpid()}, port, longest), IsEmpty());
    (void)!write(look[1], "l", 1);
    int status = 0;
    ASSERT_EQ(waitpid(other, &status, 0), other);
    EXPECT_EQ(status, 0);
    for (const int end : look)
        close(end);
    EXPECT_THAT(nccl_status({getpid()}, port, longest), IsEmpty());
}

// Breaks when a thread of NCCL that hangs holds up everything else.
TEST(NcclRas, IsNotWaitedForEndlessly) {
    const Listener listener;
    EXPECT_THAT(nccl_status({getpid()}, listener.port(), milliseconds(100)), IsEmpty());
    // What it has said until then is shown.
    const Listener slow;
    std::thread nccl([&] {
        const FileDescriptor caller = slow.next();
        line_from(caller);
        say(caller, "OK\n");
        line_from(caller);
        say(caller, "Job summary\n");
        line_from(caller);
    });
    EXPECT_THAT(nccl_status({getpid()}, slow.port(), milliseconds(3000)),
                ElementsAre("Job summary", "(not all: NCCL has not said more in time)"));
    nccl.join();
}

TEST(NcclRas, DoesNotFillTheAnswer) {
    const Listener listener;
    std::thread nccl([&] { answer(listener, std::string(1UL << 20U, 'x')); });
    const auto lines = nccl_status({getpid()}, listener.port(), longest);
    nccl.join();
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_EQ(lines[1], "(not all: NCCL says more than is shown)");
    EXPECT_LE(lines[0].size(), 64UL << 10U);
}

TEST(NcclRas, HasThePortOfTheVariable) {
    EXPECT_EQ(port_of_ras("localhost:12345"), 12345);
    EXPECT_EQ(port_of_ras("[::1]:8"), 8);
    EXPECT_EQ(port_of_ras("localhost"), 0);
    EXPECT_EQ(port_of_ras("localhost:99999"), 0);
    EXPECT_EQ(port_of_ras(std::vector<pid_t>{}), 28028);
}

}  // namespace
