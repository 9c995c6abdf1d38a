// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>

#include "transport/transport.hpp"

namespace mpi_bridge {

// The transport of a rank without peers. A collective of one rank sends nothing, so posting
// anything is an error in the collective.
class AloneTransport final : public Transport {
  public:
    [[nodiscard]] int rank() const override { return 0; }
    [[nodiscard]] int size() const override { return 1; }
    [[nodiscard]] Outcome<Request> post_send(int /*to*/, Tag /*tag*/,
                                             std::span<const std::byte> /*data*/) override {
        return fail(MPIB_ERROR_INTERNAL, "a rank without peers sent a message");
    }
    [[nodiscard]] Outcome<Request> post_receive(int /*from*/, Tag /*tag*/,
                                                std::span<std::byte> /*data*/) override {
        return fail(MPIB_ERROR_INTERNAL, "a rank without peers awaited a message");
    }
    bool progress() override { return false; }
    [[nodiscard]] Done wait(Request /*request*/, Deadline /*deadline*/) override {
        return fail(MPIB_ERROR_INTERNAL, "a rank without peers awaited a message");
    }
    // No message will come, but the caller may be told to stop.
    [[nodiscard]] Outcome<Arrival> await_message(std::uint32_t /*channel*/,
                                                 std::uint32_t /*sequence*/,
                                                 const std::function<bool()>& stop,
                                                 Deadline deadline) override {
        std::unique_lock lock(mutex_);
        const bool stopped = woken_.wait_until(lock, deadline.when(), stop);
        return stopped ? Arrival::stopped : Arrival::late;
    }
    [[nodiscard]] std::optional<int> sender_of(std::uint32_t /*channel*/,
                                               std::uint32_t /*sequence*/) override {
        return std::nullopt;
    }
    [[nodiscard]] bool is_gone(int /*rank*/) override { return false; }
    void wake() override {
        const std::lock_guard lock(mutex_);
        woken_.notify_all();
    }
    void abandon() override {}
    void close(Deadline /*deadline*/) override {}

  private:
    std::mutex mutex_;
    std::condition_variable woken_;
};

}  // namespace mpi_bridge
