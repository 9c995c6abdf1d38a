// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/output/output.hpp"
#include "cli/report/job_watch.hpp"
#include "cli/report/names.hpp"
#include "cli/report/output_directory.hpp"
#include "cli/report/resource_report.hpp"
#include "cli/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/surroundings.hpp"
#include "store/records.hpp"

namespace batchai::cli {
namespace {

struct JobFileListOptions {
    JobName job;
    std::string directory_id = "stdouterr";  // or the id of an output directory
    std::string path = ".";                  // below that directory
    int expiry = 60;                         // minutes; without effect: file:// URLs do not expire
    std::string file_name;                   // for `stream`
};

using std::chrono::milliseconds;

constexpr milliseconds shortest_pause(200);
constexpr milliseconds longest_pause(1000);
constexpr auto slurm_pause = std::chrono::seconds(15);

// Writes to the descriptor without buffering, so that the reader has the bytes before the next look
// at the file.
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

// Prints the messages about the streamed file, and says only once that it was found or is awaited.
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
        // The job's state is asked for first: a file that is read after the job has ended is
        // complete.
        const auto report = TRY(watch.look());
        const auto look = TRY(follower.look(sink));
        using Look = FileFollower::Look;
        if (look == Look::stopped) break;
        if (look == Look::absent) {
            messages.absent(report.ended());
        } else {
            messages.before(true);
        }
        if (look == Look::restarted) messages.restarted();
        if (report.ended()) break;
        pause = look == Look::read ? shortest_pause : std::min(pause * 2, longest_pause);
        Interruption::sleep(pause);
    }
    return Outcome{};
}

Answer job_file_list(const JobFileListOptions& options) {
    const auto here = TRY(open_surroundings());
    const auto root = TRY(output_directory(here.store, job_key(options.job), options.directory_id));
    auto entries = list_directory(root, options.path);
    if (!entries) {
        // A job that has not started has no directory yet and therefore no files.
        const bool missing = entries.error().exit_code == base::ExitCode::not_found;
        if (missing && options.path == ".") return Outcome{Value::Array{}, file_columns};
        return tl::unexpected(entries.error());
    }
    return Outcome{std::move(*entries), file_columns};
}

// Copies the file to standard output as it grows, until the job has ended.
Answer job_file_stream(const JobFileListOptions& options) {
    const auto here = TRY(open_surroundings());
    const auto root = TRY(output_directory(here.store, job_key(options.job), options.directory_id));
    const auto relative = relative_path(options);
    JobWatch watch(here.store, here.slurm, job_key(options.job), slurm_pause);
    FileFollower follower(root, relative);
    Messages messages(options, file_url((root / relative).string()));
    return stream(watch, follower, messages);
}

void add_file_options(CLI::App& leaf, JobFileListOptions& options) {
    add_job_options(leaf, options.job);
    leaf.add_option("--output-directory-id,-d", options.directory_id,
                    "stdouterr, or the id of an output directory [stdouterr]")
        ->type_name("ID");
    leaf.add_option("--path,-p", options.path, "Path below the directory [.]")->type_name("PATH");
}

}  // namespace

void add_job_file_verbs(CommandTree& tree, CLI::App& job) {
    auto& group = *add_group(job, "file", "List and follow the files that a job writes");
    {
        auto [leaf, options] =
            add_verb(tree, group, "list", "List a job's files",
                     "batchai job file list --job train --output table", job_file_list);
        add_file_options(*leaf, *options);
        leaf->add_option("--expiry", options->expiry,
                         "Accepted for the Azure CLI's sake: a file:// URL does not expire")
            ->type_name("MINUTES");
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "stream", "Show a job's file as it grows, until the job ends",
                     "batchai job file stream --job train --file-name stdout.txt", job_file_stream,
                     Printing::by_itself);
        add_file_options(*leaf, *options);
        leaf->add_option("--file-name,-f", options->file_name, "Name of the file")
            ->type_name("NAME")
            ->required();
    }
}

}  // namespace batchai::cli
