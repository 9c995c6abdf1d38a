// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hindered_transport.hpp"
#include "messages/messenger.hpp"
#include "tests/unit/mpi_bridge/transport/mesh.hpp"

namespace mpi_bridge_test {

// Ranks of this process, each with a messenger of its own.
class Ranks {
    using Deadline = mpi_bridge::Deadline;
    using Failure = mpi_bridge::Failure;
    using FailureToken = mpi_bridge::FailureToken;
    using Messenger = mpi_bridge::Messenger;
    using Seconds = mpi_bridge::Seconds;

  public:
    explicit Ranks(Kind kind, int size = 2, Seconds timeout = mpi_bridge::no_limit)
        : mesh_(kind, size), timeout_(timeout), failures_(static_cast<std::size_t>(size)) {
        for (int rank = 0; rank < size; ++rank) {
            FailureToken& failure = failures_[static_cast<std::size_t>(rank)];
            HinderedTransport& transport = transports_.emplace_back(mesh_[rank]);
            // Watchers are told in the order in which they began to watch.
            watches_.push_back(std::make_unique<FailureToken::Watch>(
                failure, [this](const Failure&) { std::this_thread::sleep_for(news_takes_); }));
            messengers_.push_back(std::make_unique<Messenger>(
                Messenger::Parts{.transport = &transport,
                                 .waits = &waits_,
                                 .failure = &failure,
                                 .timeout = [this] { return timeout_.load(); },
                                 .between_looks = Seconds(0.02),
                                 .closed = nullptr}));
            watches_.push_back(std::make_unique<FailureToken::Watch>(
                failure, [this, rank](const Failure&) { mesh_[rank].abandon(); }));
        }
    }
    ~Ranks() {
        for (std::size_t rank = 0; rank < messengers_.size(); ++rank) {
            const Failure over{MPIB_ERROR_NOT_INITIALIZED, "the test is over"};
            messengers_[rank]->shutdown(over);
            if (messengers_[rank]->ended(Deadline::in(Seconds(1)))) continue;
            failures_[rank].fail(over);
            EXPECT_TRUE(messengers_[rank]->ended(soon()));
        }
        // The watches use the mesh, and the messengers the tokens.
        watches_.clear();
        messengers_.clear();
    }

    Messenger& operator[](int rank) { return *messengers_[static_cast<std::size_t>(rank)]; }
    HinderedTransport& transport(int rank) { return transports_[static_cast<std::size_t>(rank)]; }
    // How long it takes from a failure until the messenger is told of it.
    void delay_news_of_failures(std::chrono::milliseconds delay) { news_takes_ = delay; }
    // Of what is waited for from now on. A busy machine may need a second for a message that comes.
    void set_timeout(Seconds timeout) { timeout_ = timeout; }
    FailureToken& failure(int rank) { return failures_[static_cast<std::size_t>(rank)]; }

  private:
    Mesh mesh_;
    std::atomic<Seconds> timeout_;
    std::deque<HinderedTransport> transports_;
    mpi_bridge::Waits waits_;
    std::chrono::milliseconds news_takes_{0};
    std::deque<FailureToken> failures_;
    std::vector<std::unique_ptr<Messenger>> messengers_;
    std::vector<std::unique_ptr<FailureToken::Watch>> watches_;
};

// The shortest message whose data does not travel with its offer.
inline constexpr std::size_t not_carried = mpi_bridge::Note::most_carried + 1;

inline std::string end_of(mpi_bridge::Messenger& messenger, mpi_bridge::Messenger::Id id) {
    const auto done = messenger.wait(id, long_enough.count());
    EXPECT_TRUE(messenger.release(id));
    return text_of(done);
}

}  // namespace mpi_bridge_test
