// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include <pmix.h>

#include "core/deadline.hpp"

namespace mpi_bridge {

// The reply to a non-blocking PMIx call, awaited with a deadline of our own: servers differ in
// whether they keep PMIX_TIMEOUT. The callback owns a reference, so a reply that comes after the
// deadline finds its place and is dropped. It also owns the question: PMIx_Get_nb keeps pointers to
// its arguments until it calls back (seen with OpenPMIx 4.2.2).
template <typename Question, typename Value>
class PmixReply {
  public:
    explicit PmixReply(Question question) : question_(std::move(question)) {}

    // Valid as long as the reply is awaited.
    [[nodiscard]] const Question& question() const { return question_; }

    // What to pass as cbdata; the callback must hand it to deliver() exactly once.
    [[nodiscard]] static void* ticket(const std::shared_ptr<PmixReply>& reply) {
        return new std::shared_ptr<PmixReply>(reply);
    }

    // Gives back a ticket that the callback will never see, because the call was refused.
    static void discard(void* ticket) {
        const std::unique_ptr<std::shared_ptr<PmixReply>> owned(
            static_cast<std::shared_ptr<PmixReply>*>(ticket));
    }

    static void deliver(void* ticket, pmix_status_t status, Value value) {
        const std::unique_ptr<std::shared_ptr<PmixReply>> owned(
            static_cast<std::shared_ptr<PmixReply>*>(ticket));
        PmixReply& reply = **owned;
        const std::lock_guard lock(reply.mutex_);
        reply.status_ = status;
        reply.value_ = std::move(value);
        reply.delivered_ = true;
        reply.arrived_.notify_one();
    }

    // PMIX_ERR_TIMEOUT when nothing came in time.
    [[nodiscard]] pmix_status_t wait(Deadline deadline) {
        std::unique_lock lock(mutex_);
        const bool came = arrived_.wait_until(lock, deadline.when(), [this] { return delivered_; });
        return came ? status_ : PMIX_ERR_TIMEOUT;
    }

    // After wait() returned PMIX_SUCCESS.
    [[nodiscard]] Value take() {
        const std::lock_guard lock(mutex_);
        return std::move(value_);
    }

  private:
    const Question question_;
    std::mutex mutex_;
    std::condition_variable arrived_;
    pmix_status_t status_ = PMIX_ERR_TIMEOUT;
    Value value_{};
    bool delivered_ = false;
};

}  // namespace mpi_bridge
