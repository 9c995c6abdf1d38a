// SPDX-License-Identifier: Apache-2.0
//
// The PMIx library against servers that are not there, or not what they should be. Each case needs
// a process of its own, because libpmix keeps what it read from the environment.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/bootstrap.hpp"

namespace {

using mpi_bridge::Deadline;
using mpi_bridge::Seconds;

// A socket that accepts connections and never says a word, as a stopped server does.
int silent_port() {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        listen(listener, 1) != 0 ||
        getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
        std::_Exit(99);
    }
    return ntohs(address.sin_port);
}

// Exits with the status that connecting fails with, and prints why.
void join_server_at(const std::string& uri) {
    for (const char* generation : {"", "2", "21", "3", "4", "41", "5", "51", "6", "61"})
        unsetenv((std::string("PMIX_SERVER_URI") + generation).c_str());
    setenv("PMIX_NAMESPACE", "slurm.pmix.1.0", 1);
    setenv("PMIX_RANK", "0", 1);
    setenv("PMIX_VERSION", "9.8.7", 1);
    setenv("PMIX_SECURITY_MODE", "native", 1);
    setenv("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC", 1);
    if (!uri.empty()) setenv("PMIX_SERVER_URI41", uri.c_str(), 1);
    const auto connected = mpi_bridge::connect_pmix(Deadline::in(Seconds(3)));
    if (connected) std::_Exit(98);
    std::fprintf(stderr, "%s\n", connected.error().text.c_str());
    std::_Exit(connected.error().status);
}

TEST(PmixSessionDeathTest, NamesBothVersionsWhenNoServerIsNamed) {
    EXPECT_EXIT(join_server_at(""), testing::ExitedWithCode(MPIB_ERROR_BOOTSTRAP),
                "PMIx client library [0-9.a-z]+, server 9.8.7.*versions differ.*names no server");
}

TEST(PmixSessionDeathTest, NamesTheAddressWhereNobodyListens) {
    EXPECT_EXIT(join_server_at("pmix-server.1;tcp4://127.0.0.1:1"),
                testing::ExitedWithCode(MPIB_ERROR_BOOTSTRAP),
                "server 9.8.7.*tcp4://127.0.0.1:1: .*network namespace");
}

TEST(PmixSessionDeathTest, FailsOnAnAddressThatIsNone) {
    EXPECT_EXIT(join_server_at("garbage"), testing::ExitedWithCode(MPIB_ERROR_BOOTSTRAP),
                "hold no address");
}

TEST(PmixSessionDeathTest, GivesUpOnAServerThatNeverAnswers) {
    const auto join = [] {
        join_server_at("pmix-server.1;tcp4://127.0.0.1:" + std::to_string(silent_port()));
    };
    EXPECT_EXIT(join(), testing::ExitedWithCode(MPIB_ERROR_TIMEOUT),
                "PMIx_Init failed: .*server 9.8.7");
}

}  // namespace
