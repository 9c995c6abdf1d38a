// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/start_notes.hpp"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"

namespace batchai::record {

base::Result<StartNote> StartNote::open(const JobFiles& job, std::string_view step, int node,
                                        std::size_t tasks) {
    const auto path = job.start_note(step, node);
    base::FileDescriptor file(::open(
        path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (!file.valid()) return base::system_error("make", path);
    return StartNote(std::move(file), tasks);
}

void StartNote::started(std::uint32_t task) {
    started_.insert(task);
    if (started_.size() != expected_ || !file_.valid()) return;
    // The newline tells readers that the line is whole. If the disk is full, there is no line.
    const auto line = fmt::format("{}\n", fmt::join(started_, " "));
    static_cast<void>(base::write_all(file_.get(), line));
    // NFS shows other nodes what was written once the file is closed.
    file_.reset(-1);
}

std::set<int> started_tasks(const JobFiles& job, std::string_view step, int node) {
    constexpr std::size_t limit = 1UL << 20U;
    const auto text = base::read_file(job.start_note(step, node), limit);
    std::set<int> tasks;
    if (!text || !text->ends_with('\n')) return tasks;
    for (const std::string_view word : base::split(base::trim(*text), ' ')) {
        const auto task = base::number_in<int>(word);
        if (!task) return {};
        tasks.insert(*task);
    }
    return tasks;
}

void forget_start_notes(const JobFiles& job, std::string_view step, int nodes) {
    for (int node = 0; node < nodes; ++node) {
        std::error_code ignored;
        std::filesystem::remove(job.start_note(step, node), ignored);
    }
}

}  // namespace batchai::record
