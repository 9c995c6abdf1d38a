// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/keeper/registry.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <set>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/lock.hpp"
#include "base/text.hpp"
#include "node/volumes/unsaved.hpp"
#include "slurm/status.hpp"

namespace batchai::node {

namespace {

constexpr const char* entries_name = "by-job";
constexpr const char* over = ".over";
constexpr const char* boot = ".boot";
constexpr std::string_view of_process = ".process-";
constexpr std::size_t entry_limit = 65536;

using Names = std::set<std::string, std::less<>>;

// Returns true for a name directly below the root that is not the name of the registry itself.
bool is_claimable(std::string_view name) {
    return base::is_plain_relative(name) && name.find_first_of("/\n") == std::string_view::npos &&
           name != entries_name;
}

std::string read_all(int descriptor) {
    std::string text(entry_limit, '\0');
    const ssize_t count = pread(descriptor, text.data(), text.size(), 0);
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return text;
}

Names read_names(int directory, const std::string& entry) {
    Names names;
    const base::FileDescriptor file = base::open_beneath(directory, entry, O_RDONLY | O_NONBLOCK);
    if (!file.valid()) return names;
    const std::string text = read_all(file.get());
    for (const std::string_view line : base::split(text, '\n')) {
        if (is_claimable(line)) names.emplace(line);
    }
    return names;
}

// Returns the entry's path for messages.
std::string entry_path(const base::Root& root, const std::string& entry) {
    return fmt::format("{}/{}/{}", root.path, entries_name, entry);
}

base::Result<void> note_name(int directory, const base::Root& root, const std::string& job_id,
                             const std::string& name) {
    if (read_names(directory, job_id).contains(name)) return {};
    const base::FileDescriptor file =
        base::open_beneath(directory, job_id, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (file.valid() && base::write_all(file.get(), name + '\n')) return {};
    return base::fail(fmt::format("cannot be written: {}", std::strerror(errno)),
                      entry_path(root, job_id));
}

base::FileDescriptor open_entries(const base::Root& root) {
    return base::open_beneath(root.directory.get(), entries_name, O_RDONLY | O_DIRECTORY);
}

// Best effort: only a later clean-up needs the boot id. All ids have the same length, so the file
// need not be emptied first, in which state a process that is killed would leave it.
void note_boot(int directory, const std::string& job_id) {
    const base::FileDescriptor file =
        base::open_beneath(directory, job_id + boot, O_WRONLY | O_CREAT, 0600);
    const std::string id = base::boot_id();
    if (file.valid() && write(file.get(), id.data(), id.size()) < 0)
        unlinkat(directory, (job_id + boot).c_str(), 0);
}

// 0 if the file's age cannot be told.
std::time_t seconds_since_change(int file) {
    struct stat status {};
    return fstat(file, &status) == 0 ? std::time(nullptr) - status.st_mtime : 0;
}

// Returns the job whose process has the entry; nothing for any other entry.
std::string job_of_process(std::string_view entry) {
    const std::size_t dot = entry.find('.');
    if (dot == std::string_view::npos || !entry.substr(dot).starts_with(of_process)) return {};
    std::string job(entry.substr(0, dot));
    return slurm::is_job_id(job) ? job : std::string();
}

// Returns the directories in use by jobs that have not ended. A new run of an ended job counts as
// well.
Names names_in_use(int directory) {
    Names names;
    for (const std::string& entry : base::names_in(directory)) {
        if (slurm::is_job_id(entry) || !job_of_process(entry).empty())
            names.merge(read_names(directory, entry));
    }
    return names;
}

// Returns the directories that only ended runs used. The caller holds the lock.
Names names_of(int directory, const std::string& entry) {
    Names names = read_names(directory, entry);
    const Names used = names_in_use(directory);
    std::erase_if(names, [&](const std::string& name) { return used.contains(name); });
    return names;
}

// Returns the name that an unused directory has while it is being removed, which may take long.
std::string set_aside(const std::string& job_id, const std::string& name) {
    return fmt::format(".{}.{}", job_id, name);
}

// Removes the registry of a user who has no entry any more. The caller holds the lock, without
// which nobody makes an entry.
void remove_if_empty(const base::Root& root) {
    unlinkat(root.directory.get(), entries_name, AT_REMOVEDIR);
}

base::Result<base::FileLock> locked(const base::Root& root) {
    auto lock = base::FileLock::take(root.directory.get(), root.path);
    if (!lock)
        lock.error().hint =
            "node_directory of site.lua must be on a file system with flock(2), such as those of "
            "a node's own disks";
    return lock;
}

// Makes the names in the entry those of ended runs. Returns whether there were any. The caller
// holds the lock.
base::Result<bool> end_entry(const base::Root& root, int directory, const std::string& job_id,
                             const std::string& entry) {
    const Names names = read_names(directory, entry);
    const std::string ended = job_id + over;
    const bool first = faccessat(directory, ended.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0;
    // Renaming works on a full file system as well.
    if (first && !names.empty() &&
        renameat(directory, entry.c_str(), directory, ended.c_str()) == 0)
        return true;
    for (const std::string& name : names)
        TRY(note_name(directory, root, ended, name));
    if (unlinkat(directory, entry.c_str(), 0) == 0 || errno == ENOENT) return !names.empty();
    return base::fail(fmt::format("cannot be removed: {}", std::strerror(errno)),
                      entry_path(root, entry));
}

// The caller holds the lock.
base::Result<void> end_entries_of_ended_processes(const base::Root& root, int directory) {
    for (const std::string& entry : base::names_in(directory)) {
        const std::string job_id = job_of_process(entry);
        if (job_id.empty()) continue;
        const base::FileDescriptor file =
            base::open_beneath(directory, entry, O_RDONLY | O_NONBLOCK);
        if (file.valid() && base::lock_now(file.get()))
            TRY(end_entry(root, directory, job_id, entry));
    }
    return {};
}

base::Result<void> check_claim(const base::Root& root, const std::string& job_id,
                               const std::string& name) {
    if (is_claimable(name) && slurm::is_job_id(job_id)) return {};
    return base::fail(fmt::format("job {} cannot have a directory \"{}\"", job_id, name), root.path,
                      "the plan is damaged; submit the job again");
}

base::Result<Names> unshared(const base::Root& root, int directory, const std::string& entry) {
    const base::FileLock lock = TRY(locked(root));
    return names_of(directory, entry);
}

}  // namespace

base::Result<void> claim(const base::Root& root, const std::string& job_id,
                         const std::string& name) {
    TRY(check_claim(root, job_id, name));
    const base::FileLock lock = TRY(locked(root));
    auto entries = TRY(base::make_beneath(root, entries_name));
    note_boot(entries.get(), job_id);
    TRY(note_name(entries.get(), root, job_id, name));
    TRY(base::make_beneath(root, name));
    return {};
}

base::Result<bool> end_claims(const base::Root& root, const std::string& job_id) {
    if (!slurm::is_job_id(job_id)) return false;
    const base::FileLock lock = TRY(locked(root));
    const base::FileDescriptor entries = open_entries(root);
    if (!entries.valid()) return false;
    bool ended = false;
    for (const std::string& entry : base::names_in(entries.get())) {
        if (entry != job_id && job_of_process(entry) != job_id) continue;
        ended = TRY(end_entry(root, entries.get(), job_id, entry)) || ended;
    }
    unlinkat(entries.get(), (job_id + boot).c_str(), 0);
    remove_if_empty(root);
    return ended;
}

base::Result<base::FileDescriptor> claim_for_process(const base::Root& root,
                                                     const std::string& job_id,
                                                     const std::string& name) {
    TRY(check_claim(root, job_id, name));
    const base::FileLock lock = TRY(locked(root));
    auto entries = TRY(base::make_beneath(root, entries_name));
    const std::string entry = fmt::format("{}{}{}", job_id, of_process, base::random_uuid());
    base::FileDescriptor file =
        base::open_beneath(entries.get(), entry, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (!file.valid() || !base::lock_now(file.get()) || !base::write_all(file.get(), name + '\n'))
        return base::fail(fmt::format("cannot be written: {}", std::strerror(errno)),
                          entry_path(root, entry));
    TRY(base::make_beneath(root, name));
    return file;
}

base::Result<void> end_claims_of_ended_processes(const base::Root& root) {
    const base::FileLock lock = TRY(locked(root));
    const base::FileDescriptor entries = open_entries(root);
    if (!entries.valid()) return {};
    return end_entries_of_ended_processes(root, entries.get());
}

base::Result<JobsLeft> jobs_left(const base::Root& root) {
    const base::FileLock lock = TRY(locked(root));
    JobsLeft jobs;
    const base::FileDescriptor entries = open_entries(root);
    if (!entries.valid()) return jobs;
    TRY(end_entries_of_ended_processes(root, entries.get()));
    const std::string now = base::boot_id();
    for (const std::string& entry : base::names_in(entries.get())) {
        const std::size_t dot = entry.find('.');
        const std::string job = entry.substr(0, dot);
        if (dot == std::string::npos || !slurm::is_job_id(job)) continue;
        if (entry.substr(dot) == over) jobs.ended.insert(job);
        if (entry.substr(dot) != boot) continue;
        const base::FileDescriptor file =
            base::open_beneath(entries.get(), entry, O_RDONLY | O_NONBLOCK);
        const std::string then = file.valid() ? read_all(file.get()) : std::string();
        if (then.empty() || now.empty()) continue;
        if (base::trim(then) != now)
            jobs.interrupted.insert(job);
        else if (seconds_since_change(file.get()) > std::chrono::seconds(beyond_doubt).count())
            jobs.doubtful.insert(job);
    }
    // A job that was requeued is running again if one of its processes is.
    for (const std::string& entry : base::names_in(entries.get())) {
        jobs.interrupted.erase(job_of_process(entry));
        jobs.doubtful.erase(job_of_process(entry));
    }
    return jobs;
}

void note_running(const base::Root& root, const std::string& job_id) {
    const base::FileDescriptor entries = open_entries(root);
    // Best effort: without it, Slurm is asked again sooner.
    if (entries.valid())
        utimensat(entries.get(), (job_id + boot).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

base::Result<bool> release(const base::Root& root, const std::string& job_id,
                           std::chrono::seconds patience) {
    if (!slurm::is_job_id(job_id)) return base::fail("is not a Slurm job id", job_id);
    const base::FileDescriptor entries = open_entries(root);
    if (!entries.valid()) return true;
    const std::string entry = job_id + over;
    // This is done without the lock, because every new step of the user needs the lock.
    const auto end = Clock::now() + patience;
    const Names unused = TRY(unshared(root, entries.get(), entry));
    bool all_saved = true;
    for (const std::string& name : unused)
        all_saved = TRY(save_leftovers(root, name, job_id, end)) && all_saved;
    base::Result<void> outcome;
    const auto remove = [&](const Names& names) {
        for (const std::string& name : names) {
            auto removed = base::remove_tree(root.directory.get(), set_aside(job_id, name));
            if (!removed && outcome) outcome = removed;
        }
    };
    // What an earlier clean-up has left is removed first, because its names are used again below.
    remove(read_names(entries.get(), entry));
    Names names;
    {
        const base::FileLock lock = TRY(locked(root));
        names = names_of(entries.get(), entry);
        for (const std::string& name : names) {
            if (renameat(root.directory.get(), name.c_str(), root.directory.get(),
                         set_aside(job_id, name).c_str()) != 0 &&
                errno != ENOENT && outcome)
                outcome = base::fail(fmt::format("cannot be renamed: {}", std::strerror(errno)),
                                     fmt::format("{}/{}", root.path, name));
        }
    }
    remove(names);
    // After a failure the entry stays, so that a later clean-up can try again.
    if (!outcome) return tl::unexpected<base::Error>(outcome.error());
    const base::FileLock lock = TRY(locked(root));
    // It also stays if another run of the job has ended meanwhile. That run has its own clean-up.
    for (const std::string& name : names_of(entries.get(), entry)) {
        if (faccessat(root.directory.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return all_saved;
    }
    if (unlinkat(entries.get(), entry.c_str(), 0) != 0 && errno != ENOENT)
        return base::fail(fmt::format("cannot be removed: {}", std::strerror(errno)),
                          entry_path(root, entry));
    remove_if_empty(root);
    return all_saved;
}

}  // namespace batchai::node
