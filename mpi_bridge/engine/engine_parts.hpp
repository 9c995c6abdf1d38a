// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "collectives/communicator.hpp"
#include "core/failure.hpp"
#include "core/failure_token.hpp"
#include "core/group.hpp"
#include "engine/engine_settings.hpp"
#include "trace/trace.hpp"

namespace mpi_bridge {

class Transport;
class OpenOperations;
class Waits;

// What the engine is built on.
struct EngineParts {
    Group world;
    // Opens a communicator, which watches `failure`: without shared memory for Lane::control, with
    // it for the others. The third argument is the id of the process set. Called from any of the
    // engine's threads.
    std::function<Outcome<std::unique_ptr<Communicator>>(const Group&, Channel::Lane, unsigned)>
        open;
    // Calls Transport::wake().
    std::function<void()> wake;
    // What messages between two ranks need; must outlive the engine. A null transport: a job
    // without peers.
    Transport* transport = nullptr;
    Waits* waits = nullptr;
    OpenOperations* operations = nullptr;  // must outlive the engine; null: they are not shown
    // Tells a rank that this one has closed a process set; the engine sets it.
    std::function<Done(int to, int process_set)> tell_closed;
    // Allocates and frees memory for buckets, aligned for every datatype; preferably memory that
    // communicators reduce without copies. The span is empty if there is none left.
    std::function<Bytes(std::size_t)> allocate;
    std::function<void(Bytes)> free;
    // How long a collective may wait for a peer without progress; asked before each wait.
    std::function<Seconds()> timeout;
    // The engine watches this token, and fails it from any of its threads and within shutdown().
    // The owner must watch it too and break all connections, so that every blocked collective of
    // this process returns and the peers notice.
    FailureToken* failure = nullptr;
    Trace* trace = nullptr;
    EngineSettings settings;
    // From which the handles of a request are numbered; tests of their end choose it.
    std::uint32_t first_generation = 0;
};

}  // namespace mpi_bridge
