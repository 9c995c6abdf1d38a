// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/keeper/registry.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/lock.hpp"
#include "base/text.hpp"
#include "node/volumes/flush.hpp"

namespace batchai::node {

namespace {

constexpr const char* entries_name = "by-job";
constexpr const char* over = ".over";
constexpr const char* boot = ".boot";
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

base::Result<void> note_name(int directory, const base::Root& root, const std::string& job_id,
                             const std::string& name) {
    if (read_names(directory, job_id).contains(name)) return {};
    const base::FileDescriptor file =
        base::open_beneath(directory, job_id, O_WRONLY | O_APPEND | O_CREAT, 0600);
    const std::string line = name + '\n';
    if (file.valid() &&
        write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()))
        return {};
    return base::fail(fmt::format("cannot be written: {}", std::strerror(errno)),
                      fmt::format("{}/{}/{}", root.path, entries_name, job_id));
}

base::FileDescriptor open_entries(const base::Root& root) {
    return base::open_beneath(root.directory.get(), entries_name, O_RDONLY | O_DIRECTORY);
}

// Best effort: only a later clean-up needs the boot id.
void note_boot(int directory, const std::string& job_id) {
    const base::FileDescriptor file =
        base::open_beneath(directory, job_id + boot, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const std::string id = base::boot_id();
    if (file.valid() && write(file.get(), id.data(), id.size()) < 0)
        unlinkat(directory, (job_id + boot).c_str(), 0);
}

std::vector<std::string> entries_in(int directory) {
    std::vector<std::string> found;
    const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const stream = copy < 0 ? nullptr : fdopendir(copy);
    if (stream == nullptr) return found;
    while (const dirent* const entry = readdir(stream))
        found.emplace_back(entry->d_name);
    closedir(stream);
    return found;
}

// Returns the directories in use by jobs that have not ended. A new run of an ended job counts as
// well.
Names names_in_use(int directory) {
    Names names;
    for (const std::string& job : entries_in(directory)) {
        if (is_job_id(job)) names.merge(read_names(directory, job));
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

Names unshared(const base::Root& root, int directory, const std::string& entry) {
    const base::FileLock lock(root.directory.get());
    return names_of(directory, entry);
}

}  // namespace

bool is_job_id(const std::string& text) {
    return !text.empty() && text.size() <= 10 &&
           text.find_first_not_of("0123456789") == std::string::npos;
}

base::Result<void> claim(const base::Root& root, const std::string& job_id,
                         const std::string& name) {
    if (!is_claimable(name) || !is_job_id(job_id))
        return base::fail(fmt::format("job {} cannot have a directory \"{}\"", job_id, name),
                          root.path, "the plan is damaged; submit the job again");
    const base::FileLock lock(root.directory.get());
    auto entries = base::make_beneath(root, entries_name);
    if (!entries) return tl::unexpected<base::Error>(entries.error());
    note_boot(entries->get(), job_id);
    if (auto noted = note_name(entries->get(), root, job_id, name); !noted) return noted;
    auto made = base::make_beneath(root, name);
    if (!made) return tl::unexpected<base::Error>(made.error());
    return {};
}

bool end_claims(const base::Root& root, const std::string& job_id) {
    if (!is_job_id(job_id)) return false;
    const base::FileLock lock(root.directory.get());
    const base::FileDescriptor entries = open_entries(root);
    const Names names = entries.valid() ? read_names(entries.get(), job_id) : Names();
    if (names.empty()) return false;
    for (const std::string& name : names) {
        if (!note_name(entries.get(), root, job_id + over, name)) return false;
    }
    unlinkat(entries.get(), (job_id + boot).c_str(), 0);
    return unlinkat(entries.get(), job_id.c_str(), 0) == 0;
}

std::set<std::string> jobs_left(const base::Root& root) {
    const base::FileLock lock(root.directory.get());
    std::set<std::string> jobs;
    const base::FileDescriptor entries = open_entries(root);
    if (!entries.valid()) return jobs;
    const std::string now = base::boot_id();
    for (const std::string& entry : entries_in(entries.get())) {
        const std::size_t dot = entry.find('.');
        const std::string job = entry.substr(0, dot);
        if (dot == std::string::npos || !is_job_id(job)) continue;
        if (entry.substr(dot) == over) jobs.insert(job);
        if (entry.substr(dot) != boot) continue;
        const base::FileDescriptor file =
            base::open_beneath(entries.get(), entry, O_RDONLY | O_NONBLOCK);
        if (file.valid() && !now.empty() && base::trim(read_all(file.get())) != now)
            jobs.insert(job);
    }
    return jobs;
}

base::Result<void> release(const base::Root& root, const std::string& job_id,
                           std::chrono::seconds patience) {
    if (!is_job_id(job_id)) return base::fail("is not a Slurm job id", job_id);
    const base::FileDescriptor entries = open_entries(root);
    if (!entries.valid()) return {};
    const std::string entry = job_id + over;
    // This is done without the lock, because every new step of the user needs the lock.
    const auto end = Clock::now() + patience;
    for (const std::string& name : unshared(root, entries.get(), entry)) {
        const std::string path = root.path + "/" + name;
        if (!save_leftovers(path, end))
            return base::fail("is still being stored by processes of the job", path);
    }
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
        const base::FileLock lock(root.directory.get());
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
    if (outcome && unlinkat(entries.get(), entry.c_str(), 0) != 0 && errno != ENOENT)
        return base::fail(fmt::format("cannot be removed: {}", std::strerror(errno)),
                          fmt::format("{}/{}/{}", root.path, entries_name, entry));
    return outcome;
}

}  // namespace batchai::node
