// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

#include "core/try.hpp"
#include "mpi_bridge.h"

// What the other folders are built on. Begin here: what can fail returns an Outcome.
//
//   failure.hpp              why something could not be done
//   try.hpp                  takes the value of an Outcome, or returns its failure
//   catching.hpp             turns exceptions into failures
//   failure_token.hpp        the first failure of this process, which ends all that is under way
//   deadline.hpp             clock, seconds, and the time at which a wait gives up
//   waits.hpp                which ranks the threads of this process wait for
//   open_operations.hpp      which operations of the engine wait
//   visible_state.hpp        both, for other processes of the same user
//   visible_layout.hpp       how those understand it
//   interruption.hpp         lets a program react to signals in a wait
//   bounded_call.hpp         calls that may never return
//   quiet_thread.hpp         threads that receive no signals
//   floating_point.hpp       the floating-point mode in which all ranks calculate
//   ending_signals.hpp       a farewell when a signal ends the process
//   fork_guard.hpp           keeps a forked child from harming its parent
//   file_descriptor.hpp      owns a file descriptor
//   group.hpp                the ranks that take part in a call, and its channel
//   settings.hpp             the settings from the environment
//   environment.hpp          looks up environment variables
//   environment_overlay.hpp  adds variables for a time
//   log.hpp                  lines on standard error
//   process_stat.hpp         what the kernel says about a process
//   this_host.hpp            what tells this host from others
//   settle.hpp               waits while Slurm may still be starting tasks on other nodes
//   sha256.hpp               SHA-256
//   random_bytes.hpp         random bytes from the kernel
//   utf8.hpp                 the characters of a text
//   overlap.hpp              whether two ranges of memory overlap
//   parts.hpp                cuts memory into consecutive parts
namespace mpi_bridge {

// Why something could not be done: the status that the caller of the C API sees, and one line of
// text that says what failed, on which rank and in which step. The text ends without full stop or
// newline.
struct Failure {
    mpib_status status = MPIB_ERROR_INTERNAL;
    std::string text;
    // The rank that was lost, or the rank that reported this failure; -1: it is this rank's own.
    int of_rank = -1;
};

template <typename T>
using Outcome = tl::expected<T, Failure>;
using Done = Outcome<void>;

[[nodiscard]] inline tl::unexpected<Failure> fail(mpib_status status, std::string text) {
    return tl::unexpected<Failure>(Failure{status, std::move(text)});
}

[[nodiscard]] inline tl::unexpected<Failure> invalid(std::string text) {
    return fail(MPIB_ERROR_INVALID_ARGUMENT, std::move(text));
}

// The loss of a rank.
[[nodiscard]] inline tl::unexpected<Failure> lost(int rank, std::string text) {
    return tl::unexpected<Failure>(
        Failure{.status = MPIB_ERROR_PEER_LOST, .text = std::move(text), .of_rank = rank});
}

// The text of a failure that another rank has told of itself, and whether a text is such a one.
[[nodiscard]] inline std::string told_by(int rank, const std::string& text) {
    return "rank " + std::to_string(rank) + " failed: " + text;
}
[[nodiscard]] inline bool is_told_by_another_rank(std::string_view text) {
    constexpr std::string_view before_rank = "rank ";
    if (!text.starts_with(before_rank)) return false;
    text.remove_prefix(before_rank.size());
    const std::size_t end = text.find_first_not_of("0123456789");
    return end != 0 && end != std::string_view::npos && text.substr(end).starts_with(" failed: ");
}

// Passes the failure of one type of outcome on as another type.
template <typename T>
[[nodiscard]] tl::unexpected<Failure> pass_on(Outcome<T>&& outcome) {
    return tl::unexpected<Failure>(std::move(outcome).error());
}

}  // namespace mpi_bridge
