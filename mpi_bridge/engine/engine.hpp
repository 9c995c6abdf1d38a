// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/communicator.hpp"
#include "core/failure.hpp"
#include "core/group.hpp"
#include "engine/engine_settings.hpp"
#include "mpi_bridge_engine.h"
#include "trace/trace.hpp"

namespace mpi_bridge {

class ProcessSets;

// What the engine stands on.
struct EngineParts {
    Group world;
    // Opens a communicator: without shared memory for Lane::control, with it for the others. The
    // third argument is the group's id. Called from any of the engine's threads.
    std::function<Outcome<std::unique_ptr<Communicator>>(const Group&, Channel::Lane, unsigned)>
        open;
    // Transport::wake().
    std::function<void()> wake;
    // Memory for buckets, aligned for every datatype, and its return. Should be memory that
    // communicators reduce without copies. An empty span where there is none.
    std::function<Bytes(std::size_t)> allocate;
    std::function<void(Bytes)> free;
    // How long a collective may wait for a peer without progress; asked each time.
    std::function<Seconds()> timeout;
    // Called once, without any lock of the engine, from any thread (within shutdown() too, for
    // operations that would not end), when the engine has failed: must break all connections, so
    // that every blocked collective of this process returns and the peers notice. Must neither
    // destroy the engine nor wait for its threads.
    std::function<void(const Failure&)> on_failure;
    Trace* trace = nullptr;
    EngineSettings settings;
};

// The named, asynchronous operations of mpi_bridge_engine.h, whose contracts hold here. Any thread
// may call any function.
//
// Each process set is served by a ProcessSetEngine; the engine finds it, hands out process set
// ids, and keeps what all engines share: the first failure, and the end. Threads are started by the
// first submission.
class Engine {
  public:
    explicit Engine(EngineParts parts);
    ~Engine();  // shuts down; waits for threads without a limit
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    [[nodiscard]] Outcome<mpib_handle> submit(const mpib_operation& operation);
    // nullopt: the handle is unknown.
    [[nodiscard]] std::optional<bool> poll(mpib_handle handle);
    // seconds <= 0: as long as the engine's deadlines allow.
    [[nodiscard]] Done wait(mpib_handle handle, double seconds);
    [[nodiscard]] Outcome<mpib_result> result(mpib_handle handle);
    [[nodiscard]] Done release(mpib_handle handle);
    [[nodiscard]] Done call(const mpib_operation& operation);
    // The rank that joined last.
    [[nodiscard]] Outcome<int> join();

    [[nodiscard]] Outcome<int> add_process_set(std::span<const int> ranks);
    [[nodiscard]] Done remove_process_set(int id);
    // nullopt: the set is unknown. Index of this rank: -1 when it is no member.
    [[nodiscard]] std::optional<int> process_set_rank(int id) const;
    [[nodiscard]] std::optional<std::vector<int>> process_set_ranks(int id) const;
    [[nodiscard]] std::vector<int> process_set_ids() const;

    // Fails everything in flight and later with this failure, unless it has failed before. For a
    // failure seen elsewhere; on_failure is called nevertheless.
    void fail_all(const Failure& failure);
    // What fail_all() will say, whoever calls it first. Does not wait for anything.
    void note_failure(const Failure& failure);

    // Fails what is in flight with a text that says so, and joins the threads. What runs is let
    // finish for a short time; then on_failure is called to end it. Idempotent. Returns whether all
    // threads have ended; if not, neither the engine nor what it stands on may be destroyed.
    [[nodiscard]] bool shutdown();

  private:
    std::unique_ptr<ProcessSets> sets_;
};

}  // namespace mpi_bridge
