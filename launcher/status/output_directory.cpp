// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/output_directory.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/text.hpp"
#include "base/timestamp.hpp"
#include "plan/plan_file.hpp"
#include "plan/sweep_file.hpp"
#include "status/array_view.hpp"
#include "status/job_view.hpp"

namespace batchai::status {

namespace {

namespace fs = std::filesystem;

tl::unexpected<base::Error> not_listable(const std::string& id, const std::string& path) {
    return base::fail(
        fmt::format("The specified outputDirectoryId {} is not present on a mount root", id), "",
        fmt::format("{} is local to each node; only directories below a volume of the "
                    "job, such as $AZ_BATCHAI_JOB_MOUNT_ROOT/<relativeMountPath>, can be listed",
                    path));
}

base::Result<base::FileDescriptor> open_root(const fs::path& root) {
    base::FileDescriptor directory(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (directory.valid()) return directory;
    const bool missing = errno == ENOENT;
    return base::fail(std::strerror(errno), root.string(), "",
                      missing ? base::ExitCode::not_found : base::ExitCode::failed);
}

base::Value entry_value(const fs::path& directory, const std::string& name,
                        const struct stat& status) {
    const bool folder = S_ISDIR(status.st_mode);
    const base::Time modified{std::chrono::seconds(status.st_mtim.tv_sec)};
    return base::Value::Object{
        {"contentLength", folder ? base::Value() : base::Value(std::int64_t{status.st_size})},
        {"downloadUrl",
         folder ? base::Value() : base::Value(file_url((directory / name).string()))},
        {"fileType", folder ? "directory" : "file"},
        {"lastModified", base::to_iso8601_seconds(modified)},
        {"name", name}};
}

}  // namespace

base::Result<plan::Plan> plan_of_job(const store::Store& store, const store::JobKey& key) {
    TRY(store.get<store::Job>(key));
    return plan::plan_from_json(TRY(base::read_file(store.job_files(key).plan())));
}

base::Result<fs::path> output_directory(const store::Store& store, const store::JobKey& key,
                                        const std::string& id, std::optional<int> task) {
    const auto job = TRY(store.get<store::Job>(key));
    auto plan = TRY(plan_of_job(store, key));
    if (task && !job.is_array) return tl::unexpected(not_an_array(key));
    if (job.is_array && !task)
        return base::fail("this is an array job, and each of its tasks has files of its own",
                          key.job, "choose one with --task", base::ExitCode::usage);
    if (task) {
        const auto tasks = TRY(tasks_of(store, job, {}));
        if (!std::binary_search(tasks.begin(), tasks.end(), *task))
            return base::fail(fmt::format("the job has no task {}", *task), key.job,
                              "its tasks are " + base::number_ranges(tasks),
                              base::ExitCode::not_found);
        plan = TRY(plan::plan_of_task(plan, *task));
    }
    if (id == "stdouterr") {
        const auto& directories = plan.directories;
        if (directories.stdouterr_host.empty()) return not_listable(id, directories.stdouterr);
        return fs::path(directories.stdouterr_host);
    }
    std::string known = "stdouterr";
    for (const auto& output : plan.outputs) {
        known += ", " + output.id;
        if (output.id != id) continue;
        if (output.path_host.empty()) return not_listable(id, output.path);
        return fs::path(output.path_host);
    }
    return base::fail(fmt::format("the job has no output directory \"{}\"", id),
                      "--output-directory-id", "it has " + known, base::ExitCode::not_found);
}

base::Result<base::FileDescriptor> open_below(const fs::path& root, const std::string& relative,
                                              int flags) {
    const auto directory = TRY(open_root(root));
    base::FileDescriptor file =
        base::open_beneath(directory.get(), relative, flags, 0, base::Links::inside);
    if (file.valid()) return file;
    if (errno == EXDEV) {
        return base::fail("the path leaves the job's output directory", relative, "",
                          base::ExitCode::usage);
    }
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    return base::fail(std::strerror(errno), (root / relative).string(), "",
                      missing ? base::ExitCode::not_found : base::ExitCode::failed);
}

base::Result<base::Value> list_directory(const fs::path& root, const std::string& relative) {
    auto opened = TRY(open_below(root, relative, O_RDONLY | O_DIRECTORY));
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(opened.get()), closedir);
    if (!stream) return base::fail(std::strerror(errno), (root / relative).string());
    const int descriptor = opened.release();  // the stream owns it now
    std::vector<std::string> names;
    while (const auto* entry = readdir(stream.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    const auto shown = relative == "." ? root : root / relative;
    base::Value::Array entries;
    for (const auto& name : names) {
        struct stat status {};
        // Skips a file that has been removed in the meantime, and a link whose target does not
        // exist.
        if (fstatat(descriptor, name.c_str(), &status, 0) != 0) continue;
        entries.push_back(entry_value(shown, name, status));
    }
    return entries;
}

std::string file_url(std::string_view path) {
    std::string out = "file://";
    for (const char c : path) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain = byte < 0x80 && std::isalnum(byte) != 0;
        if (plain || std::strchr("/-._~", c) != nullptr) {
            out += c;
        } else {
            out += fmt::format("%{:02X}", byte);
        }
    }
    return out;
}

// Passes everything from the current offset on to the sink. Returns false if the sink asked to
// stop.
base::Result<bool> FileFollower::drain(int descriptor, const Sink& sink) {
    std::array<char, 65536> buffer{};
    while (true) {
        const auto count = pread(descriptor, buffer.data(), buffer.size(), offset_);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return base::fail(std::strerror(errno), (root_ / relative_).string());
        if (count == 0) return true;
        offset_ += count;
        if (!sink({buffer.data(), static_cast<std::size_t>(count)})) return false;
    }
}

base::Result<FileFollower::Look> FileFollower::look(const Sink& sink) {
    auto opened = open_below(root_, relative_, O_RDONLY | O_NONBLOCK);
    if (!opened) {
        if (opened.error().exit_code == base::ExitCode::not_found) return Look::absent;
        return tl::unexpected(opened.error());
    }
    struct stat status {};
    if (fstat(opened->get(), &status) != 0) {
        return base::fail(std::strerror(errno), (root_ / relative_).string());
    }
    if (!S_ISREG(status.st_mode)) {
        return base::fail("this is not a regular file", (root_ / relative_).string());
    }
    bool restarted = false;
    const bool same = status.st_dev == device_ && status.st_ino == inode_;
    if (file_.valid() && !same) {
        // The old file may have grown before it was replaced. The reader gets that part, too.
        const auto rest = TRY(drain(file_.get(), sink));
        if (!rest) return Look::stopped;
    }
    if (file_.valid() && (!same || status.st_size < offset_)) {
        restarted = true;
        offset_ = 0;
    }
    file_ = std::move(*opened);
    device_ = status.st_dev;
    inode_ = status.st_ino;
    const auto before = offset_;
    const auto given = TRY(drain(file_.get(), sink));
    if (!given) return Look::stopped;
    if (restarted) return Look::restarted;
    return offset_ > before ? Look::read : Look::nothing_new;
}

}  // namespace batchai::status
