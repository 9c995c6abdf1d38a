// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/communicator.hpp"
#include "tests/unit/mpi_bridge/in_process_transport.hpp"

// Communicators of ranks that are threads, on hosts that a test makes up: ranks of one host really
// share memory, and messages between hosts are counted.
namespace mpi_bridge_test {

// The host of each rank.
using Placement = std::vector<int>;

// What went over the network between hosts.
class Traffic {
  public:
    explicit Traffic(Placement hosts)
        : hosts_(std::move(hosts)), links_(hosts_.size() * hosts_.size()) {}

    void count(int from, int to, std::size_t bytes) {
        const int from_host = hosts_[static_cast<std::size_t>(from)];
        const int to_host = hosts_[static_cast<std::size_t>(to)];
        if (from_host == to_host) return;
        Link& link = links_[index(from_host, to_host)];
        link.bytes += bytes;
        ++link.messages;
    }
    void forget() {
        for (Link& link : links_) {
            link.bytes = 0;
            link.messages = 0;
        }
    }

    [[nodiscard]] std::size_t bytes(int from_host, int to_host) const {
        return links_[index(from_host, to_host)].bytes;
    }
    [[nodiscard]] std::size_t bytes_from(int host) const {
        std::size_t sum = 0;
        for (std::size_t other = 0; other < hosts_.size(); ++other)
            sum += bytes(host, static_cast<int>(other));
        return sum;
    }
    [[nodiscard]] std::size_t bytes_to(int host) const {
        std::size_t sum = 0;
        for (std::size_t other = 0; other < hosts_.size(); ++other)
            sum += bytes(static_cast<int>(other), host);
        return sum;
    }
    [[nodiscard]] std::size_t bytes() const {
        return std::accumulate(links_.begin(), links_.end(), std::size_t{0},
                               [](std::size_t sum, const Link& link) { return sum + link.bytes; });
    }
    [[nodiscard]] std::size_t messages() const {
        return std::accumulate(
            links_.begin(), links_.end(), std::size_t{0},
            [](std::size_t sum, const Link& link) { return sum + link.messages; });
    }

  private:
    struct Link {
        std::atomic<std::size_t> bytes{0};
        std::atomic<std::size_t> messages{0};
    };
    [[nodiscard]] std::size_t index(int from_host, int to_host) const {
        return static_cast<std::size_t>(from_host) * hosts_.size() +
               static_cast<std::size_t>(to_host);
    }

    Placement hosts_;
    std::vector<Link> links_;
};

class CountingTransport final : public mpi_bridge::Transport {
  public:
    CountingTransport(Post& post, Traffic& traffic, int rank, int size)
        : messages_(post, rank, size), traffic_(traffic) {}

    [[nodiscard]] int rank() const override { return messages_.rank(); }
    [[nodiscard]] int size() const override { return messages_.size(); }
    [[nodiscard]] mpi_bridge::Outcome<mpi_bridge::Request> post_send(
        int to, mpi_bridge::Tag tag, std::span<const std::byte> data) override {
        traffic_.count(rank(), to, data.size());
        return messages_.post_send(to, tag, data);
    }
    [[nodiscard]] mpi_bridge::Outcome<mpi_bridge::Request> post_receive(
        int from, mpi_bridge::Tag tag, std::span<std::byte> data) override {
        return messages_.post_receive(from, tag, data);
    }
    bool progress() override { return messages_.progress(); }
    [[nodiscard]] mpi_bridge::Done wait(mpi_bridge::Request request,
                                        mpi_bridge::Deadline deadline) override {
        return messages_.wait(request, deadline);
    }
    [[nodiscard]] mpi_bridge::Outcome<Arrival> await_message(
        std::uint32_t channel, std::uint32_t sequence, const std::function<bool()>& stop,
        mpi_bridge::Deadline deadline) override {
        return messages_.await_message(channel, sequence, stop, deadline);
    }
    [[nodiscard]] std::optional<int> sender_of(std::uint32_t channel,
                                               std::uint32_t sequence) override {
        return messages_.sender_of(channel, sequence);
    }
    [[nodiscard]] bool is_gone(int rank) override { return messages_.is_gone(rank); }
    void wake() override { messages_.wake(); }
    void abandon() override { messages_.abandon(); }
    void close(mpi_bridge::Deadline deadline) override { messages_.close(deadline); }

  private:
    InProcessTransport messages_;
    Traffic& traffic_;
};

class Hosts {
  public:
    struct Options {
        bool shared_memory = true;
        std::size_t segment_bytes = 4096;
        std::size_t share_bytes = mpi_bridge::Communicator::Options().share_bytes;
        std::string model = "tcp";
    };

    explicit Hosts(const Placement& hosts) : Hosts(hosts, Options()) {}
    Hosts(const Placement& hosts, const Options& how)
        : placement_(hosts),
          traffic_(hosts),
          host_count_(1 + *std::max_element(hosts.begin(), hosts.end())) {
        for (int rank = 0; rank < size(); ++rank) {
            transports_.push_back(
                std::make_unique<CountingTransport>(post_, traffic_, rank, size()));
            mpi_bridge::Communicator::Options options;
            options.group.ranks.resize(hosts.size());
            std::iota(options.group.ranks.begin(), options.group.ranks.end(), 0);
            options.group.own = rank;
            options.group.hosts = hosts;
            options.shared_memory = how.shared_memory;
            options.share_bytes = how.share_bytes;
            options.settings.model = how.model;
            options.settings.segment_bytes = how.segment_bytes;
            auto opened = mpi_bridge::Communicator::open(*transports_.back(), std::move(options));
            if (!opened) throw std::runtime_error(opened.error().text);
            communicators_.push_back(std::move(*opened));
        }
        // Opens shared memory, whose messages are not to be counted.
        run([](mpi_bridge::Communicator& all) { return all.barrier(call()); });
    }

    [[nodiscard]] int size() const { return static_cast<int>(placement_.size()); }
    [[nodiscard]] int host_count() const { return host_count_; }
    [[nodiscard]] int host_of(int rank) const { return placement_[static_cast<std::size_t>(rank)]; }

    [[nodiscard]] static mpi_bridge::Communicator::Call call(std::uint64_t agreement = 0) {
        return {.name = "test", .agreement = agreement, .patience = mpi_bridge::Seconds(60)};
    }

    // Runs `body` as every rank, a thread each. A rank that fails gives everything up, as the
    // library does.
    using Body = std::function<mpi_bridge::Done(mpi_bridge::Communicator&)>;
    std::vector<mpi_bridge::Done> outcomes(const Body& body) {
        std::vector<mpi_bridge::Done> outcomes(placement_.size());
        std::vector<std::thread> threads;
        for (std::size_t rank = 0; rank < placement_.size(); ++rank) {
            threads.emplace_back([&, rank] {
                outcomes[rank] = body(*communicators_[rank]);
                if (outcomes[rank]) return;
                communicators_[rank]->abandon(outcomes[rank].error());
                transports_[rank]->abandon();
            });
        }
        for (auto& thread : threads)
            thread.join();
        return outcomes;
    }

    // Expects every rank to succeed and every message to be received. What crossed the network.
    const Traffic& run(const Body& body) {
        traffic_.forget();
        for (const auto& outcome : outcomes(body))
            EXPECT_TRUE(outcome) << outcome.error().text;
        EXPECT_EQ(post_.left_over(), 0U);
        return traffic_;
    }

    [[nodiscard]] mpi_bridge::Communicator::Way way() const { return communicators_[0]->way(); }

  private:
    Placement placement_;
    Traffic traffic_;
    int host_count_;
    Post post_;
    std::vector<std::unique_ptr<CountingTransport>> transports_;
    std::vector<std::unique_ptr<mpi_bridge::Communicator>> communicators_;
};

}  // namespace mpi_bridge_test
