// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "transport/transport.hpp"

namespace mpi_bridge_test {

// A transport between threads: messages are queued in mailboxes, and matched and checked by the
// rules that transport.hpp states.
class Post {
  public:
    struct Letter {
        std::uint32_t agreement;
        std::vector<std::byte> data;
    };
    // From, to, channel, sequence, step.
    using Address = std::tuple<int, int, std::uint32_t, std::uint32_t, std::uint32_t>;

    void put(const Address& address, Letter letter) {
        const std::lock_guard lock(mutex_);
        boxes_[address].push_back(std::move(letter));
        changed_.notify_all();
    }

    // False when nothing came in time.
    bool take(const Address& address, mpi_bridge::Deadline deadline, Letter& out) {
        std::unique_lock lock(mutex_);
        auto& box = boxes_[address];
        if (!changed_.wait_until(lock, deadline.when(), [&] { return !box.empty(); })) return false;
        out = std::move(box.front());
        box.pop_front();
        return true;
    }

    // True when a message of that call is in the mailbox of `to`; false at the deadline, or when
    // `stop` says so after a wake().
    bool await(int to, std::uint32_t channel, std::uint32_t sequence,
               const std::function<bool()>& stop, mpi_bridge::Deadline deadline, bool& stopped) {
        std::unique_lock lock(mutex_);
        const auto arrived = [&] {
            for (const auto& [address, box] : boxes_) {
                if (!box.empty() && std::get<1>(address) == to && std::get<2>(address) == channel &&
                    std::get<3>(address) == sequence) {
                    return true;
                }
            }
            return false;
        };
        while (!arrived()) {
            stopped = stop();
            if (stopped) return false;
            if (changed_.wait_until(lock, deadline.when()) == std::cv_status::timeout) {
                return arrived();
            }
        }
        return true;
    }

    void wake() {
        const std::lock_guard lock(mutex_);
        changed_.notify_all();
    }

    // Messages nobody received.
    std::size_t left_over() {
        std::size_t letters = 0;
        for (const auto& [address, box] : boxes_)
            letters += box.size();
        return letters;
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<Address, std::deque<Letter>> boxes_;
};

class InProcessTransport final : public mpi_bridge::Transport {
  public:
    using Bytes = std::span<std::byte>;
    using ConstBytes = std::span<const std::byte>;

    InProcessTransport(Post& post, int rank, int size) : post_(post), rank_(rank), size_(size) {}

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }

    [[nodiscard]] mpi_bridge::Outcome<mpi_bridge::Request> post_send(int to, mpi_bridge::Tag tag,
                                                                     ConstBytes data) override {
        post_.put({rank_, to, tag.channel, tag.sequence, tag.step},
                  {tag.agreement, {data.begin(), data.end()}});
        return add({false, 0, tag, {}});
    }

    [[nodiscard]] mpi_bridge::Outcome<mpi_bridge::Request> post_receive(int from,
                                                                        mpi_bridge::Tag tag,
                                                                        Bytes data) override {
        return add({true, from, tag, data});
    }

    bool progress() override { return false; }

    [[nodiscard]] mpi_bridge::Done wait(mpi_bridge::Request request,
                                        mpi_bridge::Deadline deadline) override {
        // Messages with equal tags belong to the receives in the order these were posted.
        const Operation awaited = operations_[request];
        for (mpi_bridge::Request id = 0; id <= request; ++id) {
            Operation& operation = operations_[id];
            if (!operation.receives || operation.from != awaited.from ||
                operation.tag.step != awaited.tag.step) {
                continue;
            }
            operation.receives = false;
            if (auto done = take(operation, deadline); !done) return done;
        }
        return {};
    }

    [[nodiscard]] mpi_bridge::Outcome<Arrival> await_message(
        std::uint32_t channel, std::uint32_t sequence, const std::function<bool()>& stop,
        mpi_bridge::Deadline deadline) override {
        bool stopped = false;
        if (post_.await(rank_, channel, sequence, stop, deadline, stopped)) return Arrival::message;
        return stopped ? Arrival::stopped : Arrival::late;
    }
    void wake() override { post_.wake(); }
    void abandon() override {}
    void close(mpi_bridge::Deadline /*deadline*/) override {}

  private:
    struct Operation {
        bool receives;
        int from;
        mpi_bridge::Tag tag;
        Bytes data;
    };
    mpi_bridge::Done take(const Operation& operation, mpi_bridge::Deadline deadline) {
        const auto& tag = operation.tag;
        Post::Letter letter;
        const Post::Address address{operation.from, rank_, tag.channel, tag.sequence, tag.step};
        if (!post_.take(address, deadline, letter)) {
            return mpi_bridge::fail(MPIB_ERROR_TIMEOUT, "nothing came");
        }
        if (letter.agreement != tag.agreement || letter.data.size() != operation.data.size()) {
            return mpi_bridge::fail(MPIB_ERROR_MISMATCH, "another call");
        }
        if (!letter.data.empty()) {
            std::memcpy(operation.data.data(), letter.data.data(), letter.data.size());
        }
        return {};
    }
    mpi_bridge::Request add(const Operation& operation) {
        operations_.push_back(operation);
        return static_cast<mpi_bridge::Request>(operations_.size() - 1);
    }

    Post& post_;
    int rank_;
    int size_;
    std::vector<Operation> operations_;
};

}  // namespace mpi_bridge_test
