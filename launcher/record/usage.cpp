// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/usage.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace batchai::record {

namespace {

namespace fs = std::filesystem;

// A file of a node has at most this size. The interval of the samples grows, so that a file of 64
// ranks takes years to get there.
constexpr std::size_t usage_limit = 8UL << 20U;
// Once the file of live samples has this size, it begins again.
constexpr std::size_t live_limit = 64UL << 10U;
// What a reader looks at to find the last samples of a file.
constexpr std::size_t newest_bytes = 128UL << 10U;
// An attempt has no more files than this.
constexpr std::size_t most_usage_files = 65536;

struct UsageFile {
    std::string step;
    int number = 0;
    std::string node{};

    auto operator<=>(const UsageFile&) const = default;
};

// Returns the number of the attempt that a step belongs to.
std::optional<int> attempt_of_step(std::string_view step) {
    return base::number_in<int>(step.substr(0, step.find_first_of("-.")));
}

// What is read here reaches terminals and web pages.
bool is_plain(std::string_view name) {
    return !name.empty() && name.find_first_not_of(
                                "0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ._-") == std::string_view::npos;
}

// Reads a name such as "1.usage-3-n1.txt".
std::optional<UsageFile> usage_file(std::string_view name, std::string_view ending) {
    const std::size_t infix = name.find(JobFiles::usage_infix);
    if (infix == std::string_view::npos || !name.ends_with(ending)) return std::nullopt;
    UsageFile file{.step = std::string(name.substr(0, infix))};
    name.remove_suffix(ending.size());
    const std::size_t begin = infix + JobFiles::usage_infix.size();
    if (begin > name.size()) return std::nullopt;
    const std::string_view rest = name.substr(begin);
    const std::size_t dash = rest.find('-');
    const auto number = base::number_in<int>(rest.substr(0, dash));
    if (dash == std::string_view::npos || !number || *number < 0) return std::nullopt;
    file.number = *number;
    file.node = rest.substr(dash + 1);
    if (!is_plain(file.step) || !is_plain(file.node)) return std::nullopt;
    return file;
}

// Returns the files of the attempt that have this ending.
std::vector<UsageFile> usage_files(const JobFiles& files, int attempt, std::string_view ending) {
    std::vector<UsageFile> out;
    std::error_code error;
    for (const auto& entry : base::entries_of(files.attempts(), error)) {
        const std::string name = entry.path().filename().string();
        const auto file = usage_file(name, ending);
        if (!file || attempt_of_step(file->step) != attempt) continue;
        out.push_back(*file);
        if (out.size() >= most_usage_files) break;
    }
    std::sort(out.begin(), out.end());
    return out;
}

// Returns the beginning and the end of a file, or all of it. Reads no link and no pipe.
std::string ends_of(const fs::path& path, std::size_t most) {
    const base::FileDescriptor file(
        open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    std::string end = base::end_of_file(file, 0, most);
    if (end.size() < most) return end;
    constexpr std::size_t head_bytes = 512;
    std::string begin(head_bytes, '\0');
    const ssize_t count = pread(file.get(), begin.data(), begin.size(), 0);
    if (count <= 0) return {};
    begin.resize(static_cast<std::size_t>(count));
    const std::size_t line = begin.find('\n');
    // The first line of the end is a part of a line.
    const std::size_t whole = end.find('\n');
    if (line == std::string::npos || whole == std::string::npos) return {};
    return begin.substr(0, line + 1) + end.substr(whole + 1);
}

NodeUsage read_usage(const UsageFile& file, const fs::path& path, std::size_t bytes,
                     std::size_t most) {
    NodeUsage usage = usage_in(ends_of(path, bytes), most);
    usage.step = file.step;
    usage.number = file.number;
    usage.node = file.node;
    return usage;
}

void keep_newest(NodeUsage& usage, std::size_t most) {
    auto& samples = usage.samples;
    if (samples.size() > most)
        samples.erase(samples.begin(), samples.end() - static_cast<std::ptrdiff_t>(most));
}

bool is_of_start(const UsageFile& file, std::string_view start) {
    return start.empty() || file.step == start || file.step.starts_with(std::string(start) + '.');
}

}  // namespace

std::vector<NodeUsage> usage_of_attempt(const JobFiles& files, int attempt, std::size_t most) {
    std::vector<NodeUsage> out;
    for (const UsageFile& file : usage_files(files, attempt, JobFiles::usage_ending)) {
        NodeUsage usage = read_usage(file, files.usage(file.step, file.number, file.node),
                                     usage_limit + live_limit, most);
        if (!usage.samples.empty()) out.push_back(std::move(usage));
    }
    return out;
}

std::vector<NodeUsage> newest_usage(const JobFiles& files, int attempt, std::string_view start,
                                    std::size_t most) {
    std::map<UsageFile, NodeUsage> found;
    constexpr std::size_t all = newest_bytes;  // more lines than the bytes can have
    for (const UsageFile& file : usage_files(files, attempt, JobFiles::usage_ending)) {
        if (!is_of_start(file, start)) continue;
        NodeUsage usage =
            read_usage(file, files.usage(file.step, file.number, file.node), newest_bytes, all);
        keep_newest(usage, most);
        if (!usage.samples.empty()) found.emplace(file, std::move(usage));
    }
    for (const UsageFile& file : usage_files(files, attempt, JobFiles::live_usage_ending)) {
        if (!is_of_start(file, start)) continue;
        NodeUsage live = read_usage(file, files.live_usage(file.step, file.number, file.node),
                                    live_limit * 2, all);
        keep_newest(live, most);
        if (live.samples.empty()) continue;
        NodeUsage& known = found[file];
        // A sampler that was killed leaves its file of live samples behind.
        if (!known.ended &&
            (known.samples.empty() || known.samples.back().time <= live.samples.back().time))
            known = std::move(live);
    }
    std::vector<NodeUsage> out;
    out.reserve(found.size());
    for (auto& [file, usage] : found)
        out.push_back(std::move(usage));
    return out;
}

namespace {

void remove_files(const JobFiles& files, int attempt, std::string_view ending) {
    for (const UsageFile& file : usage_files(files, attempt, ending)) {
        std::error_code ignored;
        fs::remove(ending == JobFiles::usage_ending
                       ? files.usage(file.step, file.number, file.node)
                       : files.live_usage(file.step, file.number, file.node),
                   ignored);
    }
}

}  // namespace

void forget_usage(const JobFiles& files, int attempt) {
    remove_files(files, attempt, JobFiles::usage_ending);
    forget_live_usage(files, attempt);
}

void forget_live_usage(const JobFiles& files, int attempt) {
    remove_files(files, attempt, JobFiles::live_usage_ending);
}

std::string kind_of_usage(std::string_view step) {
    const std::size_t dot = step.find('.');
    return dot == std::string_view::npos ? "ranks" : std::string(step.substr(dot + 1));
}

base::Result<void> ask_for_live_usage(const JobFiles& files) {
    const fs::path path = files.usage_wanted();
    const base::FileDescriptor file(
        open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    // The nodes only look whether the time has changed, so clocks may differ.
    if (!file.valid() || futimens(file.get(), nullptr) != 0)
        return base::system_error("touch", path);
    return {};
}

UsageWriter::UsageWriter(const JobFiles& files, std::string_view step, int number,
                         std::string_view node)
    : path_(files.usage(step, number, node).string()),
      live_path_(files.live_usage(step, number, node).string()),
      wanted_path_(files.usage_wanted().string()) {}

void UsageWriter::remove_live() {
    if (!live_.valid()) return;
    unlink(live_path_.c_str());
    live_.reset(-1);
}

void UsageWriter::end_live() {
    if (live_.valid() && ftruncate(live_.get(), 0) == 0) live_written_ = 0;
    last_live_.clear();
}

namespace {

// Opens a new file, and nothing that somebody has put in its place.
base::FileDescriptor new_file(const std::string& path) {
    unlink(path.c_str());
    return base::FileDescriptor(
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
}

}  // namespace

void UsageWriter::begin(const UsageHead& head) {
    head_ = head;
    file_ = new_file(path_);
    written_ = file_.valid() ? base::write_until_error(file_.get(), usage_line(head)) : 0;
    torn_ = false;
    // It is there before somebody watches, because a file that an NFS client has not found may be
    // missing for it for another half minute.
    live_ = new_file(live_path_);
    live_written_ = 0;
}

void UsageWriter::add(const UsageSample& sample) {
    if (!file_.valid() || written_ >= usage_limit) return;
    std::string line = usage_line(sample, head_, SampleDetail::record);
    if (torn_) line.insert(0, 1, '\n');
    const std::size_t count = base::write_until_error(file_.get(), line);
    written_ += count;
    if (count > 0) torn_ = count < line.size();
}

void UsageWriter::finish(const UsageSample& last) {
    add(last);
    if (!file_.valid()) return;
    // The reader only wants to know, so the limit does not matter.
    static_cast<void>(base::write_all(file_.get(), fmt::format("{}\n", usage_end)));
}

void UsageWriter::add_live(const UsageSample& sample) {
    if (!live_.valid()) return;
    std::string line = usage_line(sample, head_, SampleDetail::live);
    std::string text = line;
    if (live_written_ + text.size() > live_limit && ftruncate(live_.get(), 0) == 0)
        live_written_ = 0;
    // Readers want two samples, so the one before comes, too.
    if (live_written_ == 0) text = usage_line(head_) + last_live_ + text;
    last_live_ = std::move(line);
    live_written_ += base::write_until_error(live_.get(), text);
    // A file server would get it half a minute later.
    static_cast<void>(fdatasync(live_.get()));
}

bool UsageWriter::is_wanted() {
    // A new open with O_CREAT makes an NFS client ask the server. Otherwise it might assume for a
    // while that nothing has changed, or that there still is no file.
    const base::FileDescriptor file(
        open(wanted_path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    struct stat status {};
    if (!file.valid() || fstat(file.get(), &status) != 0) return false;
    const std::int64_t time =
        std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
    const bool changed = wanted_ && *wanted_ != time;
    wanted_ = time;
    return changed;
}

}  // namespace batchai::record
