// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "spank/options.hpp"

// The submitting side: in sbatch, srun and salloc, as the user.
namespace batchai::spank {

// What the environment of the command says; an empty string where it says nothing.
struct Inherited {
    std::string plan;       // BATCHAI_PLAN
    std::string job_json;   // BATCHAI_JOB_JSON: the file behind that plan, absolute
    std::string option;     // the value of --job-json that came with the environment
    std::string job_image;  // BATCHAI_JOB_IMAGE: what --job-image said for that plan
    bool ignore_container =
        false;  // BATCHAI_IGNORE_CONTAINER=1: --ignore-container was given for it
};

// Whether a new plan has to be made. A plan in the environment is kept for the same file, so that
// the steps of a job all run what was submitted; --job-json with another file, or --job-image with
// another image, asks for its own.
[[nodiscard]] bool needs_hand_over(const Options& options, const Inherited& inherited,
                                   const std::string& resolved_job_json);

struct Marker {
    std::string plan;
    std::string digest;
};

// The two lines that `batchai hand-over` prints; nothing when they are not exactly that.
[[nodiscard]] std::optional<Marker> read_marker(std::string_view output);

// What the command-line filter has left in BATCHAI_HANDED_OVER, if this very process ran the
// filter; nothing when it did not, or when the text is something else.
[[nodiscard]] std::optional<Marker> marker_of_filter(std::string_view text, long process);
// Hands the file over, unless the filter has done so, and puts the marker in the environment, which
// travels with the job. `new_allocation`: what is submitted is a job of its own, even if this
// process is a part of another; a plan in its environment is that job's. -1 refuses the submission,
// after a message to the user.
[[nodiscard]] int hand_over_if_asked(const Settings& settings, bool new_allocation);

}  // namespace batchai::spank
