// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/failure.hpp"

namespace mpi_bridge {

// The first failure of this process, which ends everything that it has under way with its peers.
//
// Every component whose threads wait for peers watches the token. A watcher is told of the first
// failure once, and must then release its waiting threads. Watchers are told in the order in which
// they began to watch. Any thread may call any function.
class FailureToken {
    struct Told;

  public:
    // Called on the thread that failed, without any lock of the token. It must not wait for threads
    // that may be calling fail().
    using Watcher = std::function<void(const Failure& cause)>;
    // Finds out the reason for the loss of a rank, and returns the failure with the text that users
    // should read. May take a second.
    using Enquiry = std::function<Failure(Failure)>;

    FailureToken() = default;
    FailureToken(const FailureToken&) = delete;
    FailureToken& operator=(const FailureToken&) = delete;

    // Used for failures that say which rank was lost. Must be set before any other thread uses the
    // token.
    void enquire_with(Enquiry enquiry) { enquiry_ = std::move(enquiry); }

    // Only the first call sets the cause. Every call returns the cause, which is this failure or an
    // earlier one, when all watchers have been told (a watcher's own call: at once). So nothing
    // that is under way uses the caller's memory any more. The caller must not hold a lock that a
    // watcher takes.
    const Failure& fail(Failure failure);

    [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }
    // Valid once failed() is true.
    [[nodiscard]] const Failure& cause() const { return *cause_; }

    // Watches for as long as it lives. If the failure was there before, the watcher is told at
    // once. The destructor waits for a call of the watcher that is under way, so the watcher must
    // not cause the destruction.
    class Watch {
      public:
        Watch(FailureToken& token, Watcher watcher);
        ~Watch();
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;

      private:
        FailureToken& token_;
        std::shared_ptr<Told> told_;
    };

  private:
    struct Told {
        Watcher watcher;
        std::mutex telling;
        bool done = false;  // told already, or no longer to be told
    };

    void tell(Told& told) const;
    [[nodiscard]] const Failure& cause_once_all_are_told();

    Enquiry enquiry_;
    std::mutex mutex_;
    std::optional<Failure> cause_;  // written once, before failed_
    std::atomic<bool> failed_{false};
    std::vector<std::shared_ptr<Told>> watchers_;
    std::thread::id teller_;  // set with cause_
    bool all_told_ = false;
    std::condition_variable telling_ended_;
};

}  // namespace mpi_bridge
