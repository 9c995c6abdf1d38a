// SPDX-License-Identifier: Apache-2.0
#include "core/fork_guard.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/file_descriptor.hpp"

namespace {

using mpi_bridge::FileDescriptor;
using mpi_bridge::guard_forks;
using mpi_bridge::PrivateInChildren;

std::pair<FileDescriptor, int> make_connection() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {FileDescriptor(ends[0]), ends[1]};
}

int exit_status_of(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Breaks when a forked child, such as a worker that loads data, hides the death of its parent.
TEST(ForkGuard, AChildDoesNotKeepAConnectionOpen) {
    ASSERT_TRUE(guard_forks());
    auto [own, peer] = make_connection();
    const pid_t child = fork();
    if (child == 0) {
        close(peer);
        for (;;)
            pause();
    }
    own = FileDescriptor();
    pollfd end{peer, POLLIN, 0};
    EXPECT_EQ(poll(&end, 1, 10'000), 1);
    char byte = 0;
    EXPECT_EQ(read(peer, &byte, 1), 0);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(peer);
}

TEST(ForkGuard, AChildLeavesTheParentsEpollRegistrationsAlone) {
    ASSERT_TRUE(guard_forks());
    auto [own, peer] = make_connection();
    const FileDescriptor set(epoll_create1(EPOLL_CLOEXEC));
    epoll_event wanted{};
    wanted.events = EPOLLIN;
    ASSERT_EQ(epoll_ctl(set.number(), EPOLL_CTL_ADD, own.number(), &wanted), 0);
    const pid_t child = fork();
    if (child == 0) _exit(0);
    EXPECT_EQ(exit_status_of(child), 0);
    ASSERT_EQ(write(peer, "x", 1), 1);
    epoll_event found{};
    EXPECT_EQ(epoll_wait(set.number(), &found, 1, 10'000), 1);
    close(peer);
}

// Breaks when the destructor of an inherited object closes a file that the child opened since.
TEST(ForkGuard, AnInheritedDescriptorIsNotClosedAgain) {
    ASSERT_TRUE(guard_forks());
    auto [own, peer] = make_connection();
    const int number = own.number();
    const pid_t child = fork();
    if (child == 0) {
        if (fcntl(number, F_GETFD) != -1 || errno != EBADF) _exit(1);
        if (dup2(STDERR_FILENO, number) != number) _exit(2);
        own = FileDescriptor();
        _exit(fcntl(number, F_GETFD) == -1 ? 3 : 0);
    }
    EXPECT_EQ(exit_status_of(child), 0);
    EXPECT_NE(fcntl(number, F_GETFD), -1);
    close(peer);
}

TEST(ForkGuard, AMappingIsPrivateInAChild) {
    ASSERT_TRUE(guard_forks());
    const FileDescriptor file(memfd_create("fork_guard_test", MFD_CLOEXEC));
    constexpr std::size_t bytes = 8192;
    ASSERT_EQ(ftruncate(file.number(), bytes), 0);
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* const data = static_cast<char*>(memory);
    data[5000] = 'p';
    {
        const PrivateInChildren gone(memory, bytes, file.number());
        const PrivateInChildren mapping(memory, bytes, file.number());
        const pid_t child = fork();
        if (child == 0) {
            if (data[5000] != 'p') _exit(1);
            data[5000] = 'c';
            _exit(data[5000] == 'c' ? 0 : 2);
        }
        EXPECT_EQ(exit_status_of(child), 0);
        EXPECT_EQ(data[5000], 'p');
    }
    // No longer, when the object is gone.
    const pid_t child = fork();
    if (child == 0) {
        data[5000] = 'c';
        _exit(0);
    }
    EXPECT_EQ(exit_status_of(child), 0);
    EXPECT_EQ(data[5000], 'c');
    munmap(memory, bytes);
}

}  // namespace
