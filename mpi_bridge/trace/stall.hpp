// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/deadline.hpp"
#include "mpi_bridge_engine.h"
#include "trace/stall_settings.hpp"

namespace mpi_bridge {

// An operation that this rank has submitted and that cannot run yet.
struct Pending {
    std::string_view name;
    mpib_kind kind = MPIB_ALLREDUCE;
    std::uint64_t bytes = 0;
    Seconds age{0};  // since its submission on this rank
    int process_set = MPIB_WORLD;
    // Bit r % 64 of word r / 64: global rank r has not submitted it. Empty or all zero: it is not
    // known who is missing.
    std::span<const std::uint64_t> missing;
};

// One line without newline, such as
//   mpi_bridge: rank 0: 2 operations wait since 75 s: "grad/layer1" (allreduce, 4.0 MiB): missing
//   on ranks 3, 5-7; "grad/layer2" (allreduce, 1.0 KiB): missing on rank 3
// The oldest come first. At most `longest` bytes (at least 256 are taken); what does not fit is
// counted. Names are printed so that they cannot disturb a terminal, long ones shortened. Empty
// when nothing is pending.
[[nodiscard]] std::string stall_report(int rank, std::span<const Pending> pending,
                                       std::size_t longest = 2000);

// "0, 2-4, 9": the bits that are set, ascending, at most about `longest` bytes; then "and 12 more".
[[nodiscard]] std::string rank_ranges(std::span<const std::uint64_t> bits,
                                      std::size_t longest = 200);

// Decides when to report. Pure: it is told the time. One thread at a time.
class StallWatch {
  public:
    explicit StallWatch(const StallSettings& settings) : settings_(settings) {}

    enum class Verdict {
        quiet,
        report,     // something has waited for too long, and it was not said lately
        shut_down,  // ... for so long that the job is to fail
    };

    // `oldest`: the age of the oldest pending operation; zero when there is none. After a report it
    // is quiet for as long again.
    [[nodiscard]] Verdict look(Seconds oldest, Clock::time_point now);

    // How long from `now` until look() can say something new if nothing completes; nullopt: never.
    [[nodiscard]] std::optional<Seconds> next_look(Seconds oldest, Clock::time_point now) const;

  private:
    StallSettings settings_;
    std::optional<Clock::time_point> reported_;
};

}  // namespace mpi_bridge
