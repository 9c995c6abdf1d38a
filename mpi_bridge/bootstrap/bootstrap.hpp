// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/topology.hpp"
#include "core/deadline.hpp"
#include "core/failure.hpp"

// How the ranks of a job step find each other, by whatever launcher started them.
//
//   bootstrap.hpp          the interface, how one is chosen, and that of a process that is alone
//   launch.hpp             by what this process was started
//   topology.hpp           the place of this rank among the others
//   pmix_bootstrap.cpp     the bootstrap by PMIx
//   pmix_session.hpp       the connection to the launcher's PMIx server, of which a process has one
//   pmix_call.hpp          a PMIx call that is waited for with a deadline
//   pmix_offer.hpp         what the environment says about the server, and what PMIx must be told
//   without_pmix.cpp       takes the place of pmix_bootstrap.cpp in a build without PMIx
//   pmi2_bootstrap.cpp     the bootstrap by Slurm's PMI-2
//   pmi2_session.hpp       the conversation with slurmstepd, of which a process has one
//   pmi2_wire.hpp          the texts of that conversation
//   meeting_bootstrap.cpp  the bootstrap by means of the program itself
namespace mpi_bridge {

// How the ranks of a job step find each other. One thread at a time may call, except that any
// thread may call fetch() and abort() at any time.
class Bootstrap {
  public:
    virtual ~Bootstrap() = default;
    Bootstrap() = default;
    Bootstrap(const Bootstrap&) = delete;
    Bootstrap& operator=(const Bootstrap&) = delete;

    [[nodiscard]] virtual const Topology& topology() const = 0;

    // Publishes this rank's value under `key` and returns when every rank has published its own.
    // Collective; called once. Every host then has all values. `given_up`, if it is set, is called
    // several times a second while this rank waits for others; when it returns true, the wait
    // stops.
    [[nodiscard]] virtual Done publish(const std::string& key, std::span<const std::byte> value,
                                       Deadline deadline,
                                       const std::function<bool()>& given_up = {}) = 0;

    // The value that `rank` published. It is looked up only when it is asked for here. `given_up`
    // is called as by publish().
    [[nodiscard]] virtual Outcome<std::vector<std::byte>> fetch(
        const std::string& key, int rank, Deadline deadline,
        const std::function<bool()>& given_up) = 0;

    // Asks the launcher to end all ranks; takes two seconds at most. May return before they are
    // dead.
    virtual void abort(int code, const std::string& message) = 0;
};

// Joins the step through the launcher's PMIx server. May be called again when the last Bootstrap is
// no longer used, provided that all ranks call it equally often: the connection is kept, but
// published values are not.
//
// The connection closes by itself when the process ends, except by _exit() or SIGKILL. Launchers
// take a connection that breaks for a crash and kill the other ranks.
//
// `all_tasks_run` says that the caller publishes only after it has heard from every task of the
// step, so that there is no need to wait for nodes that may still be starting their tasks
// (core/settle.hpp).
[[nodiscard]] Outcome<std::unique_ptr<Bootstrap>> connect_pmix(Deadline deadline,
                                                               bool all_tasks_run = false);

// Joins a step of Slurm through its plugin mpi/pmi2, which every Slurm has, also one without PMIx.
// `socket` is the one that PMI_FD names. What connect_pmix() says about further calls holds here,
// too. Slurm takes the end of such a process for no crash.
[[nodiscard]] Outcome<std::unique_ptr<Bootstrap>> connect_pmi2(int socket, Deadline deadline);

// Joins ranks that have no launcher, by an exchange that the program has; see mpib_init_with().
[[nodiscard]] Outcome<std::unique_ptr<Bootstrap>> connect_by(const mpib_meeting& meeting,
                                                             Deadline deadline);

// The bootstrap of a process that is rank 0 of 1.
[[nodiscard]] std::unique_ptr<Bootstrap> make_alone_bootstrap();

// Calls connect_pmix(), connect_pmi2() or make_alone_bootstrap(), depending on what detect_launch()
// finds in the environment.
[[nodiscard]] Outcome<std::unique_ptr<Bootstrap>> connect(Deadline deadline);

// The versions of the PMIx library in use and, as far as the launcher reveals it, of its server.
[[nodiscard]] std::string pmix_versions();

// The file that the PMIx library was loaded from, or "" where this is not known.
[[nodiscard]] std::string pmix_client_library();

}  // namespace mpi_bridge
