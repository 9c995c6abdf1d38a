// SPDX-License-Identifier: GPL-2.0-or-later
// The part of an attempt that concerns what nodes report: volumes that could not be mounted, or did
// not take all that was written, containers that could not be made; and logs that belong on a
// volume.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>

#include "node/failure_note.hpp"
#include "node/volumes/volumes.hpp"
#include "run/attempt.hpp"

namespace batchai::run {

namespace {

// Batch AI's own, for a job that never came to run.
constexpr int no_exit_code = -1;
constexpr std::string_view data_not_written = "DataNotWritten";

std::string_view sentence_for(std::string_view code) {
    if (code == "AZFMountError") return "Unable to mount Azure File";
    if (code == "BFSMountError") return "unable to mount blob fuse file system";
    if (code == "FailedStartingContainer") return "unable to start docker container";
    if (code == data_not_written) return "Not all data of the job reached its storage";
    return "Unable to mount a file system";
}

// The error, without its hint and in one line.
std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

}  // namespace

void AttemptRunner::expect_node_failures() const {
    node::forget_failure_notes(plan_.directories.job_directory);
}

std::optional<AttemptRunner::Ending> AttemptRunner::node_failure(const std::string& phase,
                                                                 bool ended_well) const {
    const auto notes = node::failure_notes(plan_.directories.job_directory);
    const auto note = std::find_if(notes.begin(), notes.end(), [&](const auto& candidate) {
        return std::find(nodes_.begin(), nodes_.end(), candidate.node) != nodes_.end() &&
               (!ended_well || candidate.code == data_not_written);
    });
    if (note == notes.end()) return std::nullopt;
    std::fprintf(stderr, "batchai: node %s: %s\n", note->node.c_str(), note->text.c_str());
    return Ending{{note->code,
                   std::string(sentence_for(note->code)),
                   phase,
                   note->node,
                   {},
                   {},
                   no_exit_code,
                   first_line(note->text)},
                  no_exit_code,
                  false};
}

void AttemptRunner::store_logs() {
    const auto& directories = plan_.directories;
    const auto place = plan_.place_of(directories.stdouterr);
    if (place.mount == nullptr || !place.mount->remote) return;
    log_.collect_traces();
    const auto stored = node::store_on_volume(plan_, output_directory_, directories.stdouterr);
    if (stored) return;
    const std::string text =
        fmt::format("the logs stay in {}: {}", output_directory_, stored.error().text());
    log_.master(text);
    std::fprintf(stderr, "batchai: warning: %s\n", text.c_str());
}

}  // namespace batchai::run
