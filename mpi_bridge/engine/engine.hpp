// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/failure.hpp"
#include "engine/engine_parts.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

class Messenger;
class ProcessSets;

// The named, asynchronous operations of mpi_bridge_engine.h; the contracts are documented there.
// Any thread may call any function.
//
// An operation becomes a request in negotiation/requests/, and requests become buckets in
// negotiation/, by rounds or by the plan: state machines without threads. execute/ runs a bucket's
// collectives on tensors, in host memory or on the device. The files here have the threads.
//
// Each process set is served by a ProcessSetEngine. The engine finds it, assigns process set ids,
// and keeps what all process sets share: the first failure, and the shutdown. The first submission
// starts the threads, or start().
class Engine {
  public:
    explicit Engine(EngineParts parts);
    ~Engine();  // shuts down; waits for the threads without a limit
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    [[nodiscard]] Outcome<mpib_handle> submit(const mpib_operation& operation);
    // Returns nullopt if the handle is unknown.
    [[nodiscard]] std::optional<bool> poll(mpib_handle handle);
    // With seconds <= 0 it waits as long as the engine's deadlines allow.
    [[nodiscard]] Done wait(mpib_handle handle, double seconds);
    [[nodiscard]] Outcome<mpib_result> result(mpib_handle handle);
    [[nodiscard]] Done release(mpib_handle handle);
    [[nodiscard]] Done call(const mpib_operation& operation);
    // Returns the rank that joined last.
    [[nodiscard]] Outcome<int> join();

    // The device of this process's tensors: CUDA's ordinal, -1 for host memory, -2 if not known
    // yet.
    [[nodiscard]] Done set_device(int device);
    [[nodiscard]] int device();
    // The place of an operation under way in the order of its device; 0 if it has none.
    [[nodiscard]] std::int64_t device_mark(mpib_handle handle);
    // Returns nullopt if the mark is unknown or its process set has failed.
    [[nodiscard]] std::optional<bool> device_reached(std::int64_t mark);

    [[nodiscard]] Outcome<int> add_process_set(std::span<const int> ranks);
    [[nodiscard]] Done remove_process_set(int id);
    // Sets that only their members know; see ProcessSets::open().
    [[nodiscard]] Done open_process_set(std::span<const int> ranks, int id);
    [[nodiscard]] Done close_process_set(int id);
    // Returns nullopt if the set is unknown, -1 if this rank is not a member, else its index.
    [[nodiscard]] std::optional<int> process_set_rank(int id) const;
    [[nodiscard]] std::optional<std::vector<int>> process_set_ranks(int id) const;
    [[nodiscard]] std::vector<int> process_set_ids() const;
    // Whether a set that only its members know can be opened with this id.
    [[nodiscard]] bool process_set_is_free(int id);

    // Starts to take part in the negotiations of all process sets, as the first submission to each
    // does. So the other members hear what this rank has not submitted, even if it never submits
    // anything.
    void start();

    // The messages between two ranks, which end with the engine.
    [[nodiscard]] Messenger& messenger() { return *messenger_; }

    // Fails what is in flight, with a text that says so, and joins the threads. Running operations
    // get a short time to finish; then EngineParts::failure ends them. Idempotent. Returns whether
    // all threads have ended; if not, neither the engine nor its parts may be destroyed.
    [[nodiscard]] bool shutdown();

  private:
    std::unique_ptr<ProcessSets> sets_;
    std::unique_ptr<Messenger> messenger_;
};

}  // namespace mpi_bridge
