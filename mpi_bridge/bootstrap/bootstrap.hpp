// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/topology.hpp"
#include "core/deadline.hpp"
#include "core/failure.hpp"

namespace mpi_bridge {

// How the ranks of a job step find each other. One thread at a time; abort() from any thread.
class Bootstrap {
  public:
    virtual ~Bootstrap() = default;
    Bootstrap() = default;
    Bootstrap(const Bootstrap&) = delete;
    Bootstrap& operator=(const Bootstrap&) = delete;

    [[nodiscard]] virtual const Topology& topology() const = 0;

    // Makes this rank's value known under `key` and returns when every rank has published its own.
    // Collective, once. Every host then has all values.
    [[nodiscard]] virtual Done publish(const std::string& key, std::span<const std::byte> value,
                                       Deadline deadline) = 0;

    // The value that `rank` published; nothing is looked up before it is asked for.
    [[nodiscard]] virtual Outcome<std::vector<std::byte>> fetch(const std::string& key, int rank,
                                                                Deadline deadline) = 0;

    // Asks the launcher to end all ranks, for at most two seconds. May return before they are dead.
    virtual void abort(int code, const std::string& message) = 0;
};

// Joins the step through the launcher's PMIx server. May be called again when the last Bootstrap is
// done with, by all ranks as often: the connection stays, what was published does not.
//
// The connection closes by itself when the process ends, except by _exit() or SIGKILL. Launchers
// take a connection that breaks for a crash and kill the other ranks.
//
// `all_tasks_run`: the caller publishes only after it has heard from every task of the step, so
// that there is no need to wait for nodes that may still be starting theirs (settle.hpp).
[[nodiscard]] Outcome<std::unique_ptr<Bootstrap>> connect_pmix(Deadline deadline,
                                                               bool all_tasks_run = false);

// Rank 0 of 1.
[[nodiscard]] std::unique_ptr<Bootstrap> make_alone_bootstrap();

// connect_pmix() or make_alone_bootstrap(), as detect_launch() finds in the environment.
[[nodiscard]] Outcome<std::unique_ptr<Bootstrap>> connect(Deadline deadline);

// Versions of the PMIx library in use and, as far as the launcher says, of its server.
[[nodiscard]] std::string pmix_versions();

// The file that the PMIx library was loaded from; "" where it cannot be told.
[[nodiscard]] std::string pmix_client_library();

}  // namespace mpi_bridge
