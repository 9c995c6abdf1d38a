// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include <sys/types.h>

#include "bootstrap/bootstrap.hpp"
#include "collectives/conversation.hpp"
#include "core/settings.hpp"
#include "select/selection.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge {

// The library's state in this process: not initialised, initialised, broken by a failed collective
// call, or finalised. All functions may be called from any thread.
class Library {
  public:
    // Never destroyed, because other threads may call in while the process ends.
    [[nodiscard]] static Library& instance();

    [[nodiscard]] Done initialize();
    [[nodiscard]] Done finalize();
    void set_timeout(Seconds timeout) { timeout_override_ = timeout.count(); }
    [[noreturn]] void abort(int code, std::string_view message);

    // nullptr when not initialised. What it points to stays valid for good.
    [[nodiscard]] const Topology* topology() const { return topology_.load(); }

    // What a collective call is, for its messages and for the check that all ranks make the same.
    struct Identity {
        std::string_view name;
        std::uint64_t agreement = 0;
    };
    using Body = std::function<Done(Conversation&)>;

    // Runs one collective call, alone. A failure breaks the library for good.
    [[nodiscard]] Done run(const Identity& identity, const Body& body);

    // The algorithm for a vector of that many bytes; the built-in one before initialize().
    [[nodiscard]] AllreduceAlgorithm choose_allreduce(std::size_t bytes);

  private:
    Library() = default;
    [[nodiscard]] Done join_step();
    [[nodiscard]] Seconds timeout() const;
    void leave_step();
    static void at_exit();

    std::timed_mutex mutex_;
    std::unique_ptr<Bootstrap> bootstrap_;
    std::unique_ptr<Transport> transport_;
    Scratch scratch_;
    Settings settings_;
    AllreduceTable allreduce_;
    std::uint32_t sequence_ = 0;
    std::optional<Failure> broken_;
    bool left_for_good_ = false;
    bool exit_handler_set_ = false;
    pid_t owner_ = 0;  // the process that initialised; a forked child must not speak for it
    std::atomic<double> timeout_override_{0};
    // Of every initialisation, kept for good: a thread may read one while another finalises.
    std::deque<Topology> topologies_;
    std::atomic<const Topology*> topology_{nullptr};
    std::atomic<Bootstrap*> launcher_{nullptr};
};

}  // namespace mpi_bridge
