// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "transport/transport.hpp"

namespace mpi_bridge_test {

// A transport between threads: messages are queued in mailboxes, and matched and checked by the
// rules that transport.hpp states. Any number of threads and channels.
class Post {
  public:
    struct Letter {
        std::uint32_t agreement = 0;
        std::vector<std::byte> data;
    };
    // To, channel, sequence, from, step: so that the letters of one call lie side by side.
    using Address = std::tuple<int, std::uint32_t, std::uint32_t, int, std::uint32_t>;

    void put(const Address& address, Letter letter) {
        const std::lock_guard lock(mutex_);
        Box& box = boxes_[address];
        box.letters.emplace(box.arrived++, std::move(letter));
        changed_[std::get<0>(address)].notify_all();
    }

    // The letter that a receive posted now will get: they are served in the order they come.
    std::uint64_t expect(const Address& address) {
        const std::lock_guard lock(mutex_);
        return boxes_[address].expected++;
    }

    enum class Taken { letter, late, lost };
    // Lost: the sender, or the receiver itself, has been cut off.
    Taken take(const Address& address, std::uint64_t number, mpi_bridge::Deadline deadline,
               Letter& out) {
        const int to = std::get<0>(address);
        std::unique_lock lock(mutex_);
        const auto ready = [&] {
            return boxes_[address].letters.contains(number) || cut_off_[to] ||
                   cut_off_[std::get<3>(address)];
        };
        if (!changed_[to].wait_until(lock, deadline.when(), ready)) return Taken::late;
        Box& box = boxes_[address];
        const auto letter = box.letters.find(number);
        if (letter == box.letters.end()) return Taken::lost;
        out = std::move(letter->second);
        box.letters.erase(letter);
        if (box.letters.empty() && box.arrived == box.expected) boxes_.erase(address);
        return Taken::letter;
    }

    // Waits for any letter of that call; see Transport::await_message().
    mpi_bridge::Transport::Arrival await(int to, std::uint32_t channel, std::uint32_t sequence,
                                         const std::function<bool()>& stop,
                                         mpi_bridge::Deadline deadline) {
        using Arrival = mpi_bridge::Transport::Arrival;
        std::unique_lock lock(mutex_);
        const auto arrived = [&] { return any_sender(to, channel, sequence).has_value(); };
        for (;;) {
            if (arrived()) return Arrival::message;
            if (stop()) return Arrival::stopped;
            if (changed_[to].wait_until(lock, deadline.when()) == std::cv_status::timeout)
                return arrived() ? Arrival::message : Arrival::late;
        }
    }

    std::optional<int> sender_of(int to, std::uint32_t channel, std::uint32_t sequence) {
        const std::lock_guard lock(mutex_);
        return any_sender(to, channel, sequence);
    }

    void wake(int rank) {
        const std::lock_guard lock(mutex_);
        changed_[rank].notify_all();
    }

    // Nothing comes to or from this rank any more.
    void cut_off(int rank) {
        const std::lock_guard lock(mutex_);
        cut_off_[rank] = true;
        for (auto& [each, changed] : changed_)
            changed.notify_all();
    }
    [[nodiscard]] bool is_cut_off(int rank) {
        const std::lock_guard lock(mutex_);
        return cut_off_[rank];
    }

    // Messages nobody received.
    std::size_t left_over() {
        const std::lock_guard lock(mutex_);
        std::size_t letters = 0;
        for (const auto& [address, box] : boxes_)
            letters += box.letters.size();
        return letters;
    }

  private:
    struct Box {
        std::uint64_t arrived = 0;
        std::uint64_t expected = 0;
        std::map<std::uint64_t, Letter> letters;
    };

    // Needs the lock.
    std::optional<int> any_sender(int to, std::uint32_t channel, std::uint32_t sequence) {
        const Address least{to, channel, sequence, 0, 0};
        for (auto at = boxes_.lower_bound(least); at != boxes_.end(); ++at) {
            const auto& [box_to, box_channel, box_sequence, from, step] = at->first;
            if (box_to != to || box_channel != channel || box_sequence != sequence) break;
            if (!at->second.letters.empty()) return from;
        }
        return std::nullopt;
    }

    std::mutex mutex_;
    std::map<int, std::condition_variable> changed_;
    std::map<int, bool> cut_off_;
    std::map<Address, Box> boxes_;
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
        if (post_.is_cut_off(rank_)) return mpi_bridge::fail(MPIB_ERROR_INTERNAL, "abandoned");
        post_.put({to, tag.channel, tag.sequence, rank_, tag.step},
                  {tag.agreement, {data.begin(), data.end()}});
        return add({});
    }

    [[nodiscard]] mpi_bridge::Outcome<mpi_bridge::Request> post_receive(int from,
                                                                        mpi_bridge::Tag tag,
                                                                        Bytes data) override {
        const Post::Address address{rank_, tag.channel, tag.sequence, from, tag.step};
        return add({true, address, post_.expect(address), tag.agreement, data});
    }

    bool progress() override { return false; }

    [[nodiscard]] mpi_bridge::Done wait(mpi_bridge::Request request,
                                        mpi_bridge::Deadline deadline) override {
        const Operation operation = find(request);
        if (!operation.receives) {
            remove(request);
            return {};
        }
        Post::Letter letter;
        switch (post_.take(operation.address, operation.number, deadline, letter)) {
            case Post::Taken::letter:
                break;
            case Post::Taken::late:
                // It may be waited for again.
                return mpi_bridge::fail(MPIB_ERROR_TIMEOUT, "nothing came");
            case Post::Taken::lost:
                return mpi_bridge::fail(
                    MPIB_ERROR_PEER_LOST,
                    "rank " + std::to_string(std::get<3>(operation.address)) + " (cut off)");
        }
        remove(request);
        if (letter.agreement != operation.agreement ||
            letter.data.size() != operation.data.size()) {
            return mpi_bridge::fail(MPIB_ERROR_MISMATCH, "another call");
        }
        if (!letter.data.empty()) {
            std::memcpy(operation.data.data(), letter.data.data(), letter.data.size());
        }
        return {};
    }

    [[nodiscard]] mpi_bridge::Outcome<Arrival> await_message(
        std::uint32_t channel, std::uint32_t sequence, const std::function<bool()>& stop,
        mpi_bridge::Deadline deadline) override {
        return post_.await(rank_, channel, sequence, stop, deadline);
    }
    [[nodiscard]] std::optional<int> sender_of(std::uint32_t channel,
                                               std::uint32_t sequence) override {
        return post_.sender_of(rank_, channel, sequence);
    }
    [[nodiscard]] bool is_gone(int rank) override { return post_.is_cut_off(rank); }
    void wake() override { post_.wake(rank_); }
    void abandon() override { post_.cut_off(rank_); }
    void close(mpi_bridge::Deadline /*deadline*/) override {}

  private:
    struct Operation {
        bool receives = false;
        Post::Address address;
        std::uint64_t number = 0;
        std::uint32_t agreement = 0;
        Bytes data;
    };

    mpi_bridge::Request add(const Operation& operation) {
        const std::lock_guard lock(mutex_);
        operations_.emplace(++latest_, operation);
        return latest_;
    }
    Operation find(mpi_bridge::Request request) {
        const std::lock_guard lock(mutex_);
        return operations_.at(request);
    }
    void remove(mpi_bridge::Request request) {
        const std::lock_guard lock(mutex_);
        operations_.erase(request);
    }

    Post& post_;
    int rank_;
    int size_;
    std::mutex mutex_;
    std::map<mpi_bridge::Request, Operation> operations_;
    mpi_bridge::Request latest_ = 0;
};

}  // namespace mpi_bridge_test
