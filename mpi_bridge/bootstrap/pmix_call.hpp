// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include <pmix.h>

#include "core/deadline.hpp"

namespace mpi_bridge {

// The reply to a non-blocking PMIx call, awaited with a deadline of our own because servers differ
// in whether they honour PMIX_TIMEOUT. The callback owns a reference, so a reply that comes after
// the deadline still finds this object and is dropped. The object also owns the question, because
// PMIx_Get_nb keeps pointers to its arguments until it calls back (seen with OpenPMIx 4.2.2).
template <typename Question, typename Value>
class PmixReply {
  public:
    explicit PmixReply(Question question) : question_(std::move(question)) {}

    // Valid for as long as this object exists.
    [[nodiscard]] const Question& question() const { return question_; }

    // What to pass as cbdata; the callback must hand it to deliver() exactly once.
    [[nodiscard]] static void* ticket(const std::shared_ptr<PmixReply>& reply) {
        return new std::shared_ptr<PmixReply>(reply);
    }

    // Frees a ticket that the callback will never see because the call was refused.
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

    // Returns PMIX_ERR_TIMEOUT when nothing came before the deadline or before `given_up` returned
    // true.
    [[nodiscard]] pmix_status_t wait(Deadline deadline,
                                     const std::function<bool()>& given_up = {}) {
        constexpr std::chrono::milliseconds between_questions{50};
        std::unique_lock lock(mutex_);
        while (!delivered_ && !deadline.passed() && !(given_up && given_up())) {
            const auto look = given_up ? Clock::now() + between_questions : deadline.when();
            arrived_.wait_until(lock, std::min(look, deadline.when()));
        }
        return delivered_ ? status_ : PMIX_ERR_TIMEOUT;
    }

    // May be called after wait() has returned PMIX_SUCCESS.
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
