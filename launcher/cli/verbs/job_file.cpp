// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/standard_error.hpp"
#include "cli/output/output.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/job_follow.hpp"
#include "status/job_progress.hpp"
#include "status/job_watch.hpp"
#include "status/output_directory.hpp"
#include "status/resource_view.hpp"
#include "store/records.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

struct JobFileListOptions {
    user::JobName job;
    std::optional<int> task;                 // of an array job
    std::string directory_id = "stdouterr";  // or the id of an output directory
    std::string path = ".";                  // below that directory
    int expiry = 60;                         // minutes; without effect: file:// URLs do not expire
    std::string file_name;                   // for `stream`
};

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
            base::print_error("File found with URL \"{}\". Start streaming\n", url_);
        }
    }
    void absent(bool job_ended) {
        if (found_) return;
        if (job_ended) {
            missing_ = true;
            base::print_error("The file \"{}\" not found for the completed job.\n", name_);
        } else if (!waiting_) {
            waiting_ = true;
            base::print_error("The file \"{}\" not found. Waiting for the job to generate it.\n",
                              name_);
        }
    }
    // Whether the job has ended without the file.
    [[nodiscard]] bool missing() const { return missing_; }
    void restarted() {
        base::print_error("The file \"{}\" was written anew. Streaming it from its start\n", name_);
    }

  private:
    std::string name_;
    std::string url_;
    bool found_ = false;
    bool waiting_ = false;
    bool missing_ = false;
};

// Names the files that are there, for somebody who has asked for another one.
void say_what_there_is(const std::filesystem::path& root, const std::string& path) {
    constexpr std::size_t most = 12;
    const auto entries = status::list_directory(root, path);
    if (!entries || entries->array() == nullptr || entries->array()->empty()) return;
    std::string names;
    std::size_t count = 0;
    for (const Value& entry : *entries->array()) {
        const std::string* name = entry["name"].string();
        if (name == nullptr || ++count > most) continue;
        names += (names.empty() ? "" : ", ") + *name;
    }
    if (count > most) names += fmt::format(" and {} more", count - most);
    base::print_error("hint: there are {}\n", names);
}

Answer stream(status::JobWatch& watch, status::FileFollower& follower, Messages& messages) {
    const Interruption interruption;
    const auto sink = [&](std::string_view bytes) {
        messages.before(true);
        return print_bytes(bytes);
    };
    const auto step = [&](const status::JobView& view) -> base::Result<status::Step> {
        using Look = status::FileFollower::Look;
        const auto look = TRY(follower.look(sink));
        if (look == Look::stopped) return status::Step::stop;
        if (look == Look::absent)
            messages.absent(view.ended());
        else
            messages.before(true);
        if (look == Look::restarted) messages.restarted();
        return look == Look::read ? status::Step::something_new : status::Step::nothing_new;
    };
    TRY(status::follow(watch, step));
    return Outcome{};
}

base::Result<Value> list_files(const Context& here, const JobFileListOptions& options,
                               std::optional<int> task) {
    const auto root = TRY(status::output_directory(here.store, user::job_key(options.job),
                                                   options.directory_id, task));
    auto entries = status::list_directory(root, options.path);
    // A job that has not started has no directory yet and therefore no files.
    if (!entries && entries.error().exit_code == base::ExitCode::not_found && options.path == ".")
        return Value(Value::Array{});
    return entries;
}

// Lists the files of all tasks of an array job that have started, each below the task's name.
base::Result<Value> list_files_of_tasks(const Context& here, const JobFileListOptions& options) {
    std::vector<int> tasks =
        TRY(here.store.job_files(user::job_key(options.job)).started_array_tasks());
    std::sort(tasks.begin(), tasks.end());
    Value::Array all;
    for (const int task : tasks) {
        Value files = TRY(list_files(here, options, task));
        for (Value& file : *files.array()) {
            if (const std::string* const name = file["name"].string())
                file.set("name", fmt::format("task-{}/{}", task, *name));
            all.push_back(std::move(file));
        }
    }
    return Value(std::move(all));
}

Answer job_file_list(const JobFileListOptions& options) {
    const auto here = TRY(open_context());
    const auto job = TRY(here.store.get<store::Job>(user::job_key(options.job)));
    const bool all_tasks = job.is_array && !options.task;
    return Outcome{all_tasks ? TRY(list_files_of_tasks(here, options))
                             : TRY(list_files(here, options, options.task)),
                   status::file_columns};
}

// Copies the file to standard output as it grows, until the job has ended.
Answer job_file_stream(const JobFileListOptions& options) {
    const auto here = TRY(open_context());
    const auto root = TRY(status::output_directory(here.store, user::job_key(options.job),
                                                   options.directory_id, options.task));
    const auto relative = relative_path(options);
    status::JobWatch watch(here.store, here.slurm, user::job_key(options.job), slurm_pause,
                           options.task);
    status::FileFollower follower(root, relative);
    Messages messages(options, status::file_url((root / relative).string()));
    auto answer = TRY(stream(watch, follower, messages));
    if (messages.missing()) say_what_there_is(root, options.path);
    return answer;
}

void add_job_directory_options(Parser leaf, JobFileListOptions& options) {
    add_job_options(leaf, options.job);
    leaf.add_option("--output-directory-id,-d", options.directory_id,
                    "stdouterr, or the id of an output directory [stdouterr]")
        .type_name("ID");
    add_task_option(leaf, options.task, "One task of an array job [all, to list files]");
    leaf.add_option("--path,-p", options.path, "Path below the directory [.]").type_name("PATH");
}

}  // namespace

const Verbs job_file_verbs("job", 80, [](CommandTree& tree, Parser job) {
    const Parser group = add_group(job, "file", "List and follow the files that a job writes");
    {
        auto [leaf, options] =
            add_verb(tree, group, "list", "List a job's files",
                     "batchai job file list --job train --output table", job_file_list);
        add_job_directory_options(leaf, *options);
        leaf.add_option("--expiry", options->expiry,
                        "Accepted for the Azure CLI's sake: a file:// URL does not expire")
            .type_name("MINUTES");
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "stream", "Show a job's file as it grows, until the job ends",
                     "batchai job file stream --job train --file-name stdout.txt", job_file_stream,
                     Printing::by_itself_as_az);
        add_job_directory_options(leaf, *options);
        leaf.add_option("--file-name,-f", options->file_name, "Name of the file")
            .type_name("NAME")
            .required();
    }
});

}  // namespace batchai::cli
