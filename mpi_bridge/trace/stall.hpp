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
    // Bit r % 64 of word r / 64 is set if global rank r has not submitted it. Empty or all zero if
    // it is not known which ranks are missing.
    std::span<const std::uint64_t> missing;
};

// One line without newline, such as
//   mpi_bridge: rank 0: 2 operations have waited for 75 s: "grad/layer1" (allreduce, 4.0 MiB):
//   missing on ranks 3, 5-7; "grad/layer2" (allreduce, 1.0 KiB): missing on rank 3
// The oldest come first. The line has at most `longest` bytes, or 256 if `longest` is less;
// operations that do not fit are counted. Names are printed so that they cannot disturb a terminal,
// and long ones are shortened. Empty when nothing is pending.
[[nodiscard]] std::string stall_report(int rank, std::span<const Pending> pending,
                                       std::size_t longest = 2000);

// "0, 2-4, 9": the bits that are set, in ascending order, in at most about `longest` bytes,
// followed by "and 12 more" if there are more.
[[nodiscard]] std::string rank_ranges(std::span<const std::uint64_t> bits,
                                      std::size_t longest = 200);

// Decides when to report: when something has waited for StallSettings::report, again after two,
// four and eight times that time, and then each time that eight times as long has passed. Pure: the
// caller passes the time. One thread at a time may call.
class StallWatch {
  public:
    explicit StallWatch(const StallSettings& settings) : settings_(settings) {}

    enum class Verdict {
        quiet,
        report,     // something has waited for too long, and there was no report lately
        shut_down,  // something has waited for so long that the job must fail
    };

    // `oldest`: the age of the oldest pending operation; zero when there is none.
    [[nodiscard]] Verdict look(Seconds oldest, Clock::time_point now);

    // How long from `now` until look() can say something new if nothing completes; nullopt: never.
    [[nodiscard]] std::optional<Seconds> next_look(Seconds oldest, Clock::time_point now) const;

  private:
    [[nodiscard]] bool was_reported(Seconds oldest, Clock::time_point now) const;

    static constexpr int longest_pause = 8;  // of StallSettings::report

    StallSettings settings_;
    std::optional<Clock::time_point> reported_;
    int pause_ = 1;  // from the latest report to the next, in units of StallSettings::report
};

}  // namespace mpi_bridge
