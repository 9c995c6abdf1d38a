// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include <sys/types.h>

#include "bootstrap/pmi2_wire.hpp"
#include "bootstrap/topology.hpp"
#include "core/deadline.hpp"
#include "core/failure.hpp"

namespace mpi_bridge {

// This process's conversation with Slurm's mpi/pmi2 in slurmstepd, over a socket that only the two
// of them have: slurmstepd made it before it started the task, and PMI_FD names it. A process opens
// the session once, because the server starts a conversation once only, so it outlives
// mpib_finalize(). It ends at exit(), or when the process ends in another way: Slurm takes neither
// for a crash.
//
// Another library that speaks PMI on the same socket, such as that of an MPI, does not go together
// with this one.
class Pmi2Session {
  public:
    // Starts the conversation on this socket, or returns the session that was opened before. Fails
    // with MPIB_ERROR_BOOTSTRAP, or with MPIB_ERROR_TIMEOUT if slurmstepd does not answer; then no
    // further attempt is possible. One thread at a time may call.
    [[nodiscard]] static Outcome<Pmi2Session*> open(int socket, Deadline deadline);

    // Does the same without being the session of this process.
    [[nodiscard]] static Outcome<std::unique_ptr<Pmi2Session>> start(int socket, Deadline deadline);

    [[nodiscard]] const Topology& topology() const { return topology_; }

    // Sends a request and returns its answer. After a failure the two no longer understand each
    // other, so all later requests fail. Any thread may call; the requests of several go one after
    // the other. `given_up`, if it is set, is called several times a second; when it returns true,
    // the wait stops.
    [[nodiscard]] Outcome<pmi2::Answer> ask(const std::string& command, const pmi2::Pairs& pairs,
                                            Deadline deadline,
                                            const std::function<bool()>& given_up = {});

    // Sends a request that has no answer, also while another thread waits for one.
    [[nodiscard]] Done tell(const std::string& command, const pmi2::Pairs& pairs,
                            Deadline deadline);

    // Tells slurmstepd that this process leaves; takes two seconds at most. Only the first call
    // acts, and none does in a forked child.
    void leave();

  private:
    explicit Pmi2Session(int socket);

    [[nodiscard]] Done greet(Deadline deadline);
    [[nodiscard]] Done send(const std::string& text, Deadline deadline);
    [[nodiscard]] Outcome<std::string> receive(std::size_t bytes, Deadline deadline,
                                               const std::function<bool()>& given_up) const;
    // The text up to and with a newline, of at most that many bytes.
    [[nodiscard]] Outcome<std::string> receive_line(std::size_t most, Deadline deadline) const;
    [[nodiscard]] Outcome<pmi2::Answer> exchange(const std::string& command,
                                                 const pmi2::Pairs& pairs, Deadline deadline,
                                                 const std::function<bool()>& given_up);

    int socket_;  // not closed here: the kernel does it when the process ends
    pid_t owner_;
    Topology topology_;
    std::mutex sending_;
    std::mutex asking_;
    bool broken_ = false;  // guarded by asking_
    std::atomic<bool> left_{false};
};

}  // namespace mpi_bridge
