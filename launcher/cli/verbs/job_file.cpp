// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/job_file.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/report/job_watch.hpp"
#include "cli/report/output_directory.hpp"
#include "cli/report/resource_report.hpp"
#include "cli/terminal.hpp"
#include "cli/verbs/surroundings.hpp"

namespace batchai::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds shortest_pause(200);
constexpr milliseconds longest_pause(1000);
constexpr auto slurm_pause = std::chrono::seconds(15);

// Straight to the descriptor: bytes are with the reader before the next look at the file.
bool write_out(std::string_view bytes) {
    while (!bytes.empty()) {
        const auto count = write(STDOUT_FILENO, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) {
            if (Interruption::requested()) return false;
            continue;
        }
        if (count < 0) {
            say(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
            return false;
        }
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
}

std::string relative_path(const JobFileListOptions& options) {
    return options.path.empty() || options.path == "." ? options.file_name
                                                       : options.path + "/" + options.file_name;
}

// Says once what a look at the file brought about.
class Messages {
  public:
    explicit Messages(const JobFileListOptions& options, std::string url)
        : name_(options.file_name), url_(std::move(url)) {}

    void before(bool there) {
        if (there && !found_) {
            found_ = true;
            fmt::print(stderr, "File found with URL \"{}\". Start streaming\n", url_);
        }
    }
    void absent(bool job_ended) {
        if (found_) return;
        if (job_ended) {
            fmt::print(stderr, "The file \"{}\" not found for the completed job.\n", name_);
        } else if (!waiting_) {
            waiting_ = true;
            fmt::print(stderr, "The file \"{}\" not found. Waiting for the job to generate it.\n",
                       name_);
        }
    }
    void restarted() {
        fmt::print(stderr, "The file \"{}\" was written anew. Streaming it from its start\n",
                   name_);
    }

  private:
    std::string name_;
    std::string url_;
    bool found_ = false;
    bool waiting_ = false;
};

Answer stream(JobWatch& watch, FileFollower& follower, Messages& messages) {
    const Interruption interruption;
    auto pause = shortest_pause;
    const auto sink = [&](std::string_view bytes) {
        messages.before(true);
        return write_out(bytes);
    };
    while (!Interruption::requested()) {
        // The state first: a file read after the job's end is complete.
        const auto report = watch.look();
        if (!report) return tl::unexpected(report.error());
        const auto look = follower.look(sink);
        if (!look) return tl::unexpected(look.error());
        using Look = FileFollower::Look;
        if (*look == Look::stopped) break;
        if (*look == Look::absent) {
            messages.absent(report->ended());
        } else {
            messages.before(true);
        }
        if (*look == Look::restarted) messages.restarted();
        if (report->ended()) break;
        pause = *look == Look::read ? shortest_pause : std::min(pause * 2, longest_pause);
        Interruption::sleep(pause);
    }
    return Outcome{};
}

}  // namespace

Answer job_file_list(const JobFileListOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto root = output_directory(here->store, options.key(), options.directory_id);
    if (!root) return tl::unexpected(root.error());
    auto entries = list_directory(*root, options.path);
    if (!entries) {
        // A job that has not started has no directory yet, and so no files.
        const bool missing = entries.error().exit_code == base::ExitCode::not_found;
        if (missing && options.path == ".") return Outcome{Value::Array{}, file_columns};
        return tl::unexpected(entries.error());
    }
    return Outcome{std::move(*entries), file_columns};
}

Answer job_file_stream(const JobFileListOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto root = output_directory(here->store, options.key(), options.directory_id);
    if (!root) return tl::unexpected(root.error());
    const auto relative = relative_path(options);
    JobWatch watch(here->store, here->slurm, options.key(), slurm_pause);
    FileFollower follower(*root, relative);
    Messages messages(options, file_url((*root / relative).string()));
    return stream(watch, follower, messages);
}

}  // namespace batchai::cli
