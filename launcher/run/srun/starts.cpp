// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/srun/starts.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/file.hpp"
#include "record/start_notes.hpp"
#include "run/blame/slurm_words.hpp"

namespace batchai::run {

namespace {

// Makes the file if it is missing. Returns 0 if it was and could be made, EEXIST if it is there,
// and else errno. An NFS client asks the server, and does not believe that a file which it once did
// not find is still missing.
int make_if_missing(const std::string& path) {
    const base::FileDescriptor file(open(
        path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    return file.valid() ? 0 : errno;
}

class Finder {
  public:
    Finder(const ExpectedStarts* expected, std::string_view srun_messages) : expected_(expected) {
        for (const LaunchFailure& failure : launch_failures(srun_messages))
            add(failure);
    }

    // Asks each node's plugin, and the files.
    void look_for_the_others(std::vector<int>& unconfirmed) {
        std::set<int> started;
        for (int node = 0; node < expected_->nodes; ++node)
            started.merge(record::started_tasks(expected_->files, expected_->step, node));
        for (int task = 0; task < static_cast<int>(expected_->node_of_task.size()); ++task) {
            if (started.contains(task) || missing_.contains(task)) continue;
            if (make_if_missing(error_file(task)) == EEXIST)
                unconfirmed.push_back(task);
            else
                note(task,
                     "neither the plugin batchai.so nor a file of its output tells of a start");
        }
    }

    [[nodiscard]] std::vector<NotStarted> found() const {
        std::vector<NotStarted> out;
        for (const auto& [task, missing] : missing_)
            out.push_back(missing);
        return out;
    }

  private:
    void add(const LaunchFailure& failure) {
        if (failure.task) return note(*failure.task, why(failure, *failure.task));
        bool known = false;
        if (expected_ != nullptr) {
            const auto& nodes = expected_->node_of_task;
            for (int task = 0; task < static_cast<int>(nodes.size()); ++task) {
                if (nodes[static_cast<std::size_t>(task)] != failure.node) continue;
                note(task, why(failure, task));
                known = true;
            }
        }
        if (!known) missing_.try_emplace(-1, NotStarted{-1, failure.node, failure.reason});
    }

    void note(int task, std::string reason) {
        missing_.try_emplace(task, NotStarted{task, node_of(task), std::move(reason)});
    }

    [[nodiscard]] std::string node_of(int task) const {
        const auto index = static_cast<std::size_t>(task);
        return expected_ != nullptr && index < expected_->node_of_task.size()
                   ? expected_->node_of_task[index]
                   : std::string();
    }

    [[nodiscard]] std::string error_file(int task) const {
        const auto index = static_cast<std::size_t>(task);
        return expected_ != nullptr && index < expected_->error_files.size()
                   ? expected_->error_files[index]
                   : std::string();
    }

    struct MissingFile {
        int task;
        int code;  // why it cannot be made; 0: it can
    };
    // Returns the file of the task, or else of another one on its node, if one is missing.
    [[nodiscard]] std::optional<MissingFile> missing_file_beside(int task) const {
        if (const int code = make_if_missing(error_file(task)); code != EEXIST)
            return MissingFile{task, code};
        const std::string node = node_of(task);
        for (int other = 0; !node.empty() && !error_file(other).empty(); ++other) {
            if (node_of(other) != node) continue;
            if (const int code = make_if_missing(error_file(other)); code != EEXIST)
                return MissingFile{other, code};
        }
        return std::nullopt;
    }

    // Slurm's words for a file that cannot be made do not name it.
    [[nodiscard]] std::string why(const LaunchFailure& failure, int task) const {
        if (!failure.of_output || error_file(task).empty()) return failure.reason;
        const auto missing = missing_file_beside(task);
        if (!missing)
            return failure.reason + " (can its node connect to srun on the job's first node?)";
        return fmt::format("{} cannot be made: {}: {}",
                           missing->task == task ? "its output file" : "an output file of its node",
                           error_file(missing->task),
                           missing->code == 0 ? "its node could not, and the job's first node can"
                                              : std::strerror(missing->code));
    }

    const ExpectedStarts* expected_;
    std::map<int, NotStarted> missing_;
};

}  // namespace

void forget_starts(const ExpectedStarts& expected) {
    record::forget_start_notes(expected.files, expected.step, expected.nodes);
}

Starts starts_of(const ExpectedStarts* expected, std::string_view srun_messages, int exit_code) {
    Finder finder(expected, srun_messages);
    Starts starts;
    if (expected != nullptr && exit_code == 0) finder.look_for_the_others(starts.unconfirmed);
    starts.missing = finder.found();
    return starts;
}

std::string why_no_room(const ExpectedStarts& expected) {
    // More than what has become free since the program failed, such as the note itself.
    constexpr std::size_t some_blocks = 64UL << 10U;
    const auto path = expected.files.start_note(expected.step, 0);
    base::FileDescriptor file(open(
        path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    // A network file system knows only at the end whether there is room.
    if (file.valid() && base::write_all(file.get(), std::string(some_blocks, '\n')) && file.close())
        return {};
    return fmt::format("{}: {}", expected.files.attempts().string(), std::strerror(errno));
}

}  // namespace batchai::run
