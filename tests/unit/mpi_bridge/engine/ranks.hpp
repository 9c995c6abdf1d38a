// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "tests/unit/mpi_bridge/in_process_transport.hpp"

namespace mpi_bridge_test {

struct Wishes {
    mpi_bridge::EngineSettings settings;
    mpi_bridge::Seconds timeout{60};
    std::uint32_t first_generation = 0;
};

// Ranks as threads of this process, each with an engine over real communicators.
class Ranks {
  public:
    class Rank {
      public:
        Rank(Post& post, int rank, int size, const Wishes& wishes)
            : transport_(post, rank, size), timeout_(wishes.timeout) {
            mpi_bridge::EngineParts parts;
            parts.world.ranks.resize(static_cast<std::size_t>(size));
            std::iota(parts.world.ranks.begin(), parts.world.ranks.end(), 0);
            parts.world.hosts = parts.world.ranks;
            parts.world.own = rank;
            parts.open = [this](const mpi_bridge::Group& group, mpi_bridge::Channel::Lane lane,
                                unsigned id) {
                mpi_bridge::Communicator::Options options;
                options.group = group;
                options.channel = {lane, id};
                options.shared_memory = false;
                options.failure = &failure_;
                return mpi_bridge::Communicator::open(transport_, std::move(options));
            };
            parts.wake = [this] { transport_.wake(); };
            parts.transport = &transport_;
            parts.allocate = [](std::size_t bytes) {
                return mpi_bridge::Bytes(new std::byte[bytes], bytes);
            };
            parts.free = [](mpi_bridge::Bytes memory) { delete[] memory.data(); };
            parts.timeout = [this] { return timeout_; };
            parts.failure = &failure_;
            parts.trace = &trace_;
            parts.settings = wishes.settings;
            parts.first_generation = wishes.first_generation;
            engine_ = std::make_unique<mpi_bridge::Engine>(std::move(parts));
            watch_.emplace(failure_, [this](const mpi_bridge::Failure& failure) {
                {
                    const std::lock_guard lock(mutex_);
                    failures_.push_back(failure.text);
                }
                transport_.abandon();
            });
        }

        [[nodiscard]] int rank() const { return transport_.rank(); }
        [[nodiscard]] int size() const { return transport_.size(); }
        mpi_bridge::Engine& engine() { return *engine_; }
        mpi_bridge::FailureToken& failure() { return failure_; }
        InProcessTransport& transport() { return transport_; }
        mpi_bridge::Trace& trace() { return trace_; }
        [[nodiscard]] mpib_counters counters() const {
            mpib_counters counters{};
            counters.struct_bytes = sizeof counters;
            EXPECT_TRUE(trace_.counters.read(counters));
            return counters;
        }
        std::vector<std::string> failures() {
            const std::lock_guard lock(mutex_);
            return failures_;
        }

      private:
        InProcessTransport transport_;
        mpi_bridge::Seconds timeout_;
        mpi_bridge::Trace trace_;
        std::mutex mutex_;
        std::vector<std::string> failures_;
        mpi_bridge::FailureToken failure_;
        std::unique_ptr<mpi_bridge::Engine> engine_;
        std::optional<mpi_bridge::FailureToken::Watch> watch_;
    };

    explicit Ranks(int size, const Wishes& wishes = {}) {
        for (int rank = 0; rank < size; ++rank)
            ranks_.push_back(std::make_unique<Rank>(post_, rank, size, wishes));
    }

    // Runs `body` as every rank, a thread each.
    void run(const std::function<void(Rank&)>& body) {
        std::vector<std::thread> threads;
        for (auto& rank : ranks_)
            threads.emplace_back([&body, &rank] { body(*rank); });
        for (auto& thread : threads)
            thread.join();
    }

    Rank& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
    Post& post() { return post_; }

  private:
    Post post_;
    std::vector<std::unique_ptr<Rank>> ranks_;
};

// An operation on a vector of floats, changed as the test wishes.
struct Floats {
    explicit Floats(std::string its_name, std::vector<float> values)
        : name(std::move(its_name)),
          send(std::move(values)),
          recv(send.size(), -1),
          shape{static_cast<std::int64_t>(send.size())} {
        operation.struct_bytes = sizeof operation;
        operation.kind = MPIB_ALLREDUCE;
        operation.datatype = MPIB_FLOAT32;
        operation.op = MPIB_SUM;
    }
    Floats(const Floats&) = delete;
    Floats& operator=(const Floats&) = delete;

    // With its pointers as they are now.
    const mpib_operation& made() {
        operation.name = name.c_str();
        operation.send = send.data();
        operation.recv = recv.data();
        operation.recv_bytes = recv.size() * sizeof(float);
        operation.shape = shape.data();
        operation.dimensions = static_cast<int>(shape.size());
        return operation;
    }

    std::string name;
    std::vector<float> send;
    std::vector<float> recv;
    std::vector<std::int64_t> shape;
    mpib_operation operation{};
};

// The operation's status and text, after waiting for it and releasing it.
inline mpi_bridge::Done finish(mpi_bridge::Engine& engine, mpib_handle handle) {
    auto done = engine.wait(handle, 0);
    const auto released = engine.release(handle);
    EXPECT_TRUE(released) << released.error().text;
    return done;
}

inline mpib_handle submit(mpi_bridge::Engine& engine, const mpib_operation& operation) {
    const auto handle = engine.submit(operation);
    EXPECT_TRUE(handle) << handle.error().text;
    return handle.value_or(0);
}

}  // namespace mpi_bridge_test
