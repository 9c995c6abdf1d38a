// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>
#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "work/in_flight.hpp"

namespace mpi_bridge::torch {

class Completer;
struct Further;

/// One or several operations of the engine, or a message, that torch sees as one.
///
/// A thread that waits completes the operations itself; only a future, on which torch's own code
/// waits, needs another thread. On CUDA, waiting makes the current stream wait, and the host only
/// until the operations are under way. Any thread may call any function.
class EngineWork final : public c10d::Work {
  public:
    struct Parts {
        std::vector<InFlight> in_flight{};
        std::vector<at::Tensor> result{};
        /// These run first when all have succeeded: they look at what has come.
        std::vector<std::function<void(const std::vector<InFlight>&)>> checks{};
        /// These run once, in order, after that: they put results in their places.
        std::vector<std::function<void(const std::vector<InFlight>&)>> finish{};
        /// The streams whose order the operations follow, one for each device.
        std::vector<c10::Stream> streams{};
        /// The member that a receive has got its message from.
        std::function<int(const InFlight&)> source{};
        /// The group's timeout in seconds if it has one of its own.
        std::optional<double> limit{};
        std::string group{};
        /// What completes the future; without one, a thread for it alone.
        std::shared_ptr<Completer> completer{};
    };

    explicit EngineWork(Parts parts);

    bool wait(std::chrono::milliseconds timeout) override;
    /// torch calls this, and isCompleted(), with the interpreter lock.
    void synchronize() override;
    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    std::vector<at::Tensor> result() override { return parts_.result; }
    int sourceRank() const override { return source_member_; }
    /// A future of the result. An error is a RuntimeError that has the text.
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

    /// Waits for the end and keeps the error, if there is one.
    void complete();

    /// Calls this once complete() has released the operations; to be set before the first use.
    void when_complete(std::function<void(EngineWork&)> action) {
        when_complete_ = std::move(action);
    }

    /// Gives up messages that nobody will wait for; tells whether there were any.
    bool leave_behind();

    /// Waits, and completes the future; called by a completer. Throws nothing.
    void settle();

    /// Ends the future with the result or with an error, unless it has ended already.
    void end_future(const std::exception_ptr& error);

  private:
    friend class Completer;

    void wait_at_most(double seconds, std::chrono::steady_clock::time_point deadline);
    void settle_or_throw();
    void order_current_streams() const;
    void run_finish();
    [[nodiscard]] bool all_have_ended() const;
    [[nodiscard]] bool has_ended() const;

    const std::int64_t session_ = session();
    Parts parts_;
    mutable std::timed_mutex lock_;  // held by the thread that completes the operations
    std::atomic<bool> done_{false};
    std::exception_ptr error_;
    int source_member_ = -1;
    std::function<void(EngineWork&)> when_complete_;

    std::mutex future_lock_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
    bool future_has_ended_ = false;
    std::optional<std::chrono::steady_clock::time_point> future_deadline_;

    // For the completer.
    std::int64_t place_ = 0;  // the group's operation after which callbacks of the future may begin
    c10::intrusive_ptr<EngineWork> started_by_;  // the work in whose callback this one was started
    std::shared_ptr<Further> further_;           // what callbacks have started, while they run
};

/// Several Works that torch sees as one: what was started between two calls.
class WorkOfSeveral final : public c10d::Work {
  public:
    explicit WorkOfSeveral(std::vector<c10::intrusive_ptr<EngineWork>> works)
        : works_(std::move(works)) {}

    bool wait(std::chrono::milliseconds timeout) override;
    void synchronize() override { wait(kNoTimeout); }
    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    std::vector<at::Tensor> result() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

  private:
    std::vector<c10::intrusive_ptr<EngineWork>> works_;
};

/// Stands for an operation that was over before its function returned.
c10::intrusive_ptr<c10d::Work> work_that_is_done();

}  // namespace mpi_bridge::torch
