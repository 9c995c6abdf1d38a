// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "core/deadline.hpp"
#include "engine/engine.hpp"

namespace mpi_bridge {

// The engine, which is lent to the calls of the C API. It lives as long as each of them, and so
// does all that ends after it, even if another thread finalises the library meanwhile.
class LentEngine {
  public:
    class Loan {
      public:
        explicit Loan(LentEngine& lender) : lender_(lender) {
            lender_.loans_.fetch_add(1);
            engine_ = lender_.lent_.load();
        }
        ~Loan() { lender_.loans_.fetch_sub(1); }
        Loan(const Loan&) = delete;
        Loan& operator=(const Loan&) = delete;

        // Null when the library is not initialised.
        [[nodiscard]] Engine* engine() const { return engine_; }

      private:
        LentEngine& lender_;
        Engine* engine_ = nullptr;
    };

    void lend(std::unique_ptr<Engine> engine) {
        engine_ = std::move(engine);
        lent_ = engine_.get();
    }

    // Ends the engine's threads and the calls that have a loan. Returns false if the calls take
    // longer than this, or the threads too long.
    [[nodiscard]] bool end(Seconds longest) {
        lent_ = nullptr;
        if (engine_ == nullptr) return true;
        if (!engine_->shutdown()) return false;
        // With the engine, everything that these calls wait for has ended.
        const Deadline deadline = Deadline::in(longest);
        while (loans_ != 0) {
            if (deadline.passed()) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return true;
    }
    // Requires that end() has returned true.
    void reset() { engine_.reset(); }

  private:
    std::unique_ptr<Engine> engine_;
    std::atomic<Engine*> lent_{nullptr};
    std::atomic<int> loans_{0};
};

}  // namespace mpi_bridge
