// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"
#include "record/job_files.hpp"

// Which tasks of a step have started, by the word of the plugin in each of them. Each node has one
// note for a step: the numbers of its tasks, in one line such as "4 5 6 7". A note that is missing
// or not whole says nothing: the tasks may have started on a node that could not write it.
namespace batchai::record {

// Written by batchai-node. The file is opened before batchai-node enters namespaces in which its
// path may not exist.
class StartNote {
  public:
    // `node` is the index of this node among those of the step, which has `tasks` tasks here.
    [[nodiscard]] static base::Result<StartNote> open(const JobFiles& job, std::string_view step,
                                                      int node, std::size_t tasks);
    // Writes the note once all tasks of the node have started.
    void started(std::uint32_t task);

  private:
    StartNote(base::FileDescriptor file, std::size_t tasks)
        : file_(std::move(file)), expected_(tasks) {}

    base::FileDescriptor file_;
    std::size_t expected_;
    std::set<std::uint32_t> started_;
};

// Returns the tasks that the note of one node names.
[[nodiscard]] std::set<int> started_tasks(const JobFiles& job, std::string_view step, int node);

// Removes the notes of a step on so many nodes.
void forget_start_notes(const JobFiles& job, std::string_view step, int nodes);

}  // namespace batchai::record
