// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/keeper/registry.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.hpp"
#include "node/remove_tree.hpp"
#include "node/volumes/flush.hpp"

namespace batchai::node {

namespace {

constexpr const char* entries_name = "by-job";
constexpr std::size_t entry_limit = 65536;

using Names = std::set<std::string, std::less<>>;

// A name directly below the root, and not that of the registry itself.
bool is_claimable(std::string_view name) {
    return is_plain_relative(name) && name.find_first_of("/\n") == std::string_view::npos &&
           name != entries_name;
}

class Lock {
  public:
    explicit Lock(const Root& root) : descriptor_(root.directory.get()) {
        while (flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
        }
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() { flock(descriptor_, LOCK_UN); }

  private:
    int descriptor_;
};

std::string read_all(int descriptor) {
    std::string text(entry_limit, '\0');
    const ssize_t count = pread(descriptor, text.data(), text.size(), 0);
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return text;
}

Names read_names(int directory, const std::string& entry) {
    Names names;
    const base::FileDescriptor file = open_beneath(directory, entry, O_RDONLY | O_NONBLOCK);
    if (!file.valid()) return names;
    const std::string text = read_all(file.get());
    for (const std::string_view line : base::split(text, '\n')) {
        if (is_claimable(line)) names.emplace(line);
    }
    return names;
}

base::Result<void> note_name(int directory, const Root& root, const std::string& job_id,
                             const std::string& name) {
    if (read_names(directory, job_id).contains(name)) return {};
    const base::FileDescriptor file =
        open_beneath(directory, job_id, O_WRONLY | O_APPEND | O_CREAT, 0600);
    const std::string line = name + '\n';
    if (file.valid() &&
        write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()))
        return {};
    return base::fail(fmt::format("cannot be written: {}", std::strerror(errno)),
                      fmt::format("{}/{}/{}", root.path, entries_name, job_id));
}

// What the other jobs still use.
Names names_of_others(int directory, const std::string& job_id) {
    Names names;
    const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const stream = copy < 0 ? nullptr : fdopendir(copy);
    if (stream == nullptr) return names;
    while (const dirent* const entry = readdir(stream)) {
        const std::string other(entry->d_name);
        if (is_job_id(other) && other != job_id) names.merge(read_names(directory, other));
    }
    closedir(stream);
    return names;
}

}  // namespace

bool is_job_id(const std::string& text) {
    return !text.empty() && text.size() <= 10 &&
           text.find_first_not_of("0123456789") == std::string::npos;
}

base::Result<void> claim(const Root& root, const std::string& job_id, const std::string& name) {
    if (!is_claimable(name) || !is_job_id(job_id))
        return base::fail(fmt::format("job {} cannot have a directory \"{}\"", job_id, name),
                          root.path, "the plan is damaged; submit the job again");
    const Lock lock(root);
    auto entries = make_beneath(root, entries_name);
    if (!entries) return tl::unexpected<base::Error>(entries.error());
    if (auto noted = note_name(entries->get(), root, job_id, name); !noted) return noted;
    auto made = make_beneath(root, name);
    if (!made) return tl::unexpected<base::Error>(made.error());
    return {};
}

base::Result<void> release(const Root& root, const std::string& job_id) {
    if (!is_job_id(job_id)) return base::fail("is not a Slurm job id", job_id);
    const Lock lock(root);
    const base::FileDescriptor entries =
        open_beneath(root.directory.get(), entries_name, O_RDONLY | O_DIRECTORY);
    if (!entries.valid()) return {};
    const Names ours = read_names(entries.get(), job_id);
    if (ours.empty()) return {};
    const Names others = names_of_others(entries.get(), job_id);
    base::Result<void> outcome;
    for (const std::string& name : ours) {
        if (others.contains(name)) continue;
        save_leftovers(root.path + "/" + name);
        auto removed = remove_tree(root.directory.get(), name);
        if (!removed && outcome) outcome = removed;
    }
    // After a failure the entry stays, so that a later clean-up can try again.
    if (outcome && unlinkat(entries.get(), job_id.c_str(), 0) != 0)
        return base::fail(fmt::format("cannot be removed: {}", std::strerror(errno)),
                          fmt::format("{}/{}/{}", root.path, entries_name, job_id));
    return outcome;
}

}  // namespace batchai::node
