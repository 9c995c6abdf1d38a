// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/pmi2_session.hpp"

#include <array>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using mpi_bridge::Deadline;
using mpi_bridge::Pmi2Session;
using mpi_bridge::Seconds;

// The other end of the socket: says what it is told to, after each request that it reads.
class Server {
  public:
    explicit Server(std::vector<std::string> answers) {
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_.data()), 0);
        thread_ = std::thread([this, answers = std::move(answers)] {
            for (const auto& answer : answers) {
                std::array<char, 4096> request{};
                if (read(ends_[1], request.data(), request.size()) <= 0) return;
                if (write(ends_[1], answer.data(), answer.size()) < 0) return;
            }
        });
    }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server() {
        shutdown(ends_[0], SHUT_RDWR);
        thread_.join();
        close(ends_[0]);
        close(ends_[1]);
    }
    [[nodiscard]] int socket() const { return ends_[0]; }
    void close_own_end() { shutdown(ends_[1], SHUT_RDWR); }

  private:
    std::array<int, 2> ends_{};
    std::thread thread_;
};

std::string sized(const std::string& text) {
    std::string length = std::to_string(text.size());
    return length + std::string(6 - length.size(), ' ') + text;
}

// What Slurm 22.05.8 answers to the second of two ranks.
std::vector<std::string> greeting() {
    return {"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n",
            sized("cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=2;"
                  "appnum=-1;debugged=FALSE;pmiverbose=FALSE;"),
            sized("cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,2,1));")};
}

Deadline soon() {
    return Deadline::in(Seconds(10));
}

TEST(Pmi2Session, LearnsItsPlaceAmongTheRanks) {
    Server server(greeting());
    const auto session = Pmi2Session::start(server.socket(), soon());
    ASSERT_TRUE(session) << session.error().text;
    EXPECT_EQ((*session)->topology().rank, 1);
    EXPECT_EQ((*session)->topology().size, 2);
    EXPECT_EQ((*session)->topology().local_size, 1);
    EXPECT_EQ((*session)->topology().cross_rank, 1);
}

TEST(Pmi2Session, SaysWhenAnotherLibraryHasSpokenBefore) {
    Server server({"cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n"});
    const auto session = Pmi2Session::start(server.socket(), soon());
    ASSERT_FALSE(session);
    EXPECT_NE(session.error().text.find("another library"), std::string::npos);
    // After PMI-2, Slurm ends the conversation instead.
    Server closing({});
    closing.close_own_end();
    const auto closed = Pmi2Session::start(closing.socket(), soon());
    ASSERT_FALSE(closed);
    EXPECT_NE(closed.error().text.find("another library"), std::string::npos);
}

// Breaks when a slurmstepd that hangs, or has gone, hangs the rank.
TEST(Pmi2Session, WaitsNoLongerThanItsDeadline) {
    Server server(greeting());
    const auto session = Pmi2Session::start(server.socket(), soon());
    ASSERT_TRUE(session);
    const auto late = (*session)->ask("kvs-fence", {}, Deadline::in(Seconds(0.1)));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().status, MPIB_ERROR_TIMEOUT);
    // What comes after an answer that never came cannot be told from it.
    EXPECT_FALSE((*session)->ask("kvs-get", {{"key", "a"}}, soon()));
}

TEST(Pmi2Session, HearsThatTheServerIsGone) {
    Server server(greeting());
    const auto session = Pmi2Session::start(server.socket(), soon());
    ASSERT_TRUE(session);
    std::thread closer([&] { server.close_own_end(); });
    const auto gone = (*session)->ask("kvs-fence", {}, soon());
    closer.join();
    ASSERT_FALSE(gone);
    EXPECT_EQ(gone.error().status, MPIB_ERROR_BOOTSTRAP);
}

TEST(Pmi2Session, StopsWaitingWhenItIsGivenUp) {
    Server server(greeting());
    const auto session = Pmi2Session::start(server.socket(), soon());
    ASSERT_TRUE(session);
    const auto stopped = (*session)->ask("kvs-get", {{"key", "a"}}, soon(), [] { return true; });
    ASSERT_FALSE(stopped);
    EXPECT_NE(stopped.error().text.find("not waited for any longer"), std::string::npos);
}

// Breaks when exit() waits for another thread that waits for ranks that do not come.
TEST(Pmi2Session, WaitsForAnotherThreadNoLongerThanItsDeadline) {
    Server server(greeting());
    const auto session = Pmi2Session::start(server.socket(), soon());
    ASSERT_TRUE(session);
    std::atomic<bool> asked{false};
    std::atomic<bool> enough{false};
    std::thread waiting([&] {
        (void)(*session)->ask("kvs-fence", {}, soon(), [&] {
            asked = true;
            return enough.load();
        });
    });
    while (!asked)
        std::this_thread::yield();
    const auto busy = (*session)->ask("kvs-get", {{"key", "a"}}, Deadline::in(Seconds(0.05)));
    enough = true;
    waiting.join();
    ASSERT_FALSE(busy);
    EXPECT_NE(busy.error().text.find("busy with another thread's request"), std::string::npos);
}

// Breaks when the text goes to a file or connection of a program that has the variables and not the
// descriptor.
TEST(Pmi2Session, SaysNothingToWhatIsNotSlurmsSocket) {
    std::array<int, 2> pipe_ends{};
    ASSERT_EQ(pipe(pipe_ends.data()), 0);
    const int network = socket(AF_INET, SOCK_STREAM, 0);
    for (const int descriptor : {pipe_ends[1], network, 1 << 20}) {
        const auto session = Pmi2Session::start(descriptor, soon());
        ASSERT_FALSE(session);
        EXPECT_NE(session.error().text.find("is not the socket"), std::string::npos)
            << session.error().text;
    }
    close(pipe_ends[1]);
    std::array<char, 8> nothing{};
    EXPECT_EQ(read(pipe_ends[0], nothing.data(), nothing.size()), 0);
    close(pipe_ends[0]);
    close(network);
}

TEST(Pmi2Session, RefusesLengthsThatAreNone) {
    for (const char* header : {"xxxxxx", "-99999", "      "}) {
        auto answers = greeting();
        answers[1] = header;
        Server server(std::move(answers));
        EXPECT_FALSE(Pmi2Session::start(server.socket(), soon())) << header;
    }
}

}  // namespace
