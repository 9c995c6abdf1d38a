// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/stored.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/timestamp.hpp"
#include "node/volumes/volumes.hpp"
#include "record/node_notes.hpp"

namespace batchai::run {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// For the nodes to say how long they will go on storing: they do before the step is over, unless
// their part of the step was killed.
constexpr seconds to_say_until{2};
// Beyond that time, for clocks that differ and file systems that cache.
constexpr seconds grace{20};

}  // namespace

std::optional<int> wait_until_stored(const Context& context) {
    if (!node::has_remote_mounts(context.plan)) return std::nullopt;
    const record::JobFiles files = context.files();
    const auto begin = base::now();
    milliseconds pause{20};
    while (true) {
        if (const auto signal = context.steps.stopped_by()) return signal;
        bool storing = false;
        for (const record::StorageNote& note :
             record::storage_notes(files, context.granted.job_id)) {
            const auto now = base::now();
            if (!note.until) {
                // Also a step that somebody has started beside ours.
                storing = storing || now < begin + to_say_until;
            } else if (now < *note.until + grace) {
                storing = true;
            } else {
                record::write_failure_note(
                    files, {.code = record::data_not_written,
                            .text = "the process that stores what the job wrote does not answer; "
                                    "the clean-up after the job saves what its storage has not",
                            .node = note.node});
                record::remove_storage_note(note);
            }
        }
        if (!storing) return std::nullopt;
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, milliseconds(500));
    }
}

}  // namespace batchai::run
