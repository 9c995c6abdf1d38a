// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/volumes/rclone.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/lock.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "node/secrets.hpp"

namespace batchai::node {

namespace {

namespace fs = std::filesystem;

constexpr int most_slots = 64;
constexpr std::size_t rclone_note_limit = 16UL << 20U;

struct State {
    bool written = false;
    bool whole = false;
};

// Reads rclone's note on one file. A note that cannot be read is just being written, so its file
// counts as not stored.
State read_state(const fs::path& note) {
    const auto text = base::read_file(note, rclone_note_limit);
    if (!text) return {};
    const auto note_value = base::parse_json(*text, note.string());
    if (!note_value) return {};
    const auto size_in = [](const base::Value& object, std::int64_t otherwise) {
        const std::int64_t* const size = object["Size"].integer();
        return size == nullptr ? otherwise : *size;
    };
    const bool* const dirty = (*note_value)["Dirty"].boolean();
    std::int64_t there = 0;
    if (const auto* const ranges = (*note_value)["Rs"].array()) {
        for (const base::Value& range : *ranges)
            there += size_in(range, 0);
    }
    return {.written = dirty != nullptr && !*dirty, .whole = there == size_in(*note_value, -1)};
}

// Returns the rest of the path if it begins with the other one.
std::optional<fs::path> below(const fs::path& path, const fs::path& start) {
    const auto [rest, end] = std::mismatch(path.begin(), path.end(), start.begin(), start.end());
    // A slash at the end counts as an empty component.
    if (end != start.end() && !(end->empty() && std::next(end) == start.end())) return {};
    fs::path out;
    for (auto part = rest; part != path.end(); ++part)
        out /= *part;
    return out;
}

// Finds what is not stored in a cache, which has the files of each remote in "vfs", and rclone's
// notes on them in "vfsMeta", both at the same paths.
class Search {
  public:
    Search(fs::path cache, const std::string& remote_path)
        : notes_(cache / "vfsMeta"),
          data_(cache / "vfs"),
          // As rclone writes the path: "a//b/../c", also at the root of a server, is "a/c".
          top_(fs::path(remote_path).lexically_normal().relative_path()) {}

    [[nodiscard]] Unwritten run() {
        look_into(notes_);
        std::sort(found_.files.begin(), found_.files.end(),
                  [](const auto& a, const auto& b) { return a.local < b.local; });
        return std::move(found_);
    }

  private:
    void look_into(const fs::path& directory) {
        std::error_code error;
        for (const auto& entry : base::entries_of(directory, error)) {
            std::error_code unknown;
            const fs::file_status status = entry.symlink_status(unknown);
            if (fs::is_directory(status))
                look_into(entry.path());
            else if (fs::is_regular_file(status))
                look_at(entry.path());
            else if (unknown)
                found_.complete = false;
        }
        // rclone removes directories that have become empty.
        if (error && error != std::errc::no_such_file_or_directory) found_.complete = false;
    }

    void look_at(const fs::path& note) {
        const State state = read_state(note);
        if (state.written) return;
        const fs::path path = note.lexically_relative(notes_);
        const fs::path local = data_ / path;
        std::error_code unknown;
        // If the file is gone, it was deleted in the meantime.
        if (!fs::exists(local, unknown) && !unknown) return;
        // rclone appends a hash of the remote's options to its name: "volume{x1y2z}". Each start
        // of rclone has a different hash, because a password is never encoded the same way twice.
        const std::string remote = path.begin()->string();
        const fs::path inside = *below(path, remote);
        const auto placed = remote.starts_with("volume") ? below(inside, top_) : std::nullopt;
        found_.files.push_back({.path = placed.value_or(inside).string(),
                                .local = local.string(),
                                .note = note.string(),
                                .whole = state.whole,
                                .placed = placed.has_value()});
    }

    fs::path notes_;
    fs::path data_;
    fs::path top_;
    Unwritten found_;
};

}  // namespace

base::Result<CacheSlot> CacheSlot::take(const base::Root& job_temp, std::size_t mount) {
    for (int number = 0; number < most_slots; ++number) {
        const std::string relative = fmt::format(".volumes/{}/{}", mount, number);
        const auto directory = TRY(base::make_beneath(job_temp, relative));
        const std::string path = job_temp.path + "/" + relative;
        // There is no O_CLOEXEC, because rclone inherits the lock.
        base::FileDescriptor lock(
            openat(directory.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
        if (!lock.valid())
            return base::fail(fmt::format("cannot be made: {}", std::strerror(errno)),
                              path + "/lock");
        if (base::lock_now(lock.get())) return CacheSlot(path, std::move(lock));
        if (errno != EWOULDBLOCK)
            return base::fail(fmt::format("cannot be locked: {}", std::strerror(errno)),
                              path + "/lock");
    }
    return base::fail(fmt::format("{} steps are already using it", most_slots),
                      job_temp.path + "/.volumes");
}

Unwritten unwritten_files(const std::string& cache, const std::string& remote_path) {
    return Search(cache, remote_path).run();
}

namespace {

// Returns whether the option is a password. rclone takes passwords in an encoding of its own
// (`rclone obscure`), but keys as they are.
bool is_password(std::string_view option) {
    return option.ends_with("pass") || option.ends_with("password");
}

base::Result<std::string> encoded(const std::string& password) {
    base::RunOptions options;
    // The password is passed on standard input, because all users can see arguments.
    options.standard_input = password;
    options.environment = base::Environment{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
    options.deadline = std::chrono::seconds(10);
    const auto done = base::run({"rclone", "--config=", "obscure", "-"}, options);
    if (!done) {
        base::Error error = done.error();
        if (error.hint.empty()) error.hint = "the package rclone must be on every node";
        return tl::unexpected<base::Error>(std::move(error));
    }
    if (done->exit_code != 0) return base::fail("does not encode the credential", "rclone obscure");
    return std::string(base::trim(done->standard_output));
}

base::Result<std::string> credential_of(const plan::RemoteVolume& remote,
                                        const std::string& job_directory) {
    if (remote.secret_option.empty()) return std::string();
    base::Result<std::string> credential;
    if (!remote.secret_name.empty()) {
        auto values = TRY(read_secrets(job_directory, {remote.secret_name}));
        credential = values.front().value;
    } else {
        credential = read_private_file(remote.credentials_file);
        if (!credential) return credential;
        credential = std::string(base::trim(*credential));
    }
    if (credential->empty())
        return base::fail("the credential is empty",
                          remote.secret_name.empty() ? remote.credentials_file : job_directory);
    return is_password(remote.secret_option) ? encoded(*credential) : credential;
}

std::string variable(std::string_view option, std::string_view value) {
    return fmt::format("RCLONE_CONFIG_VOLUME_{}={}", base::upper(option), value);
}

struct Said {
    std::string text;
    bool is_error = false;
};

Said read_line(std::string_view line) {
    if (line.starts_with('{')) {
        // A line that was cut off is not valid JSON and is returned as it is.
        if (const auto json = base::parse_json(line, "rclone")) {
            const auto text_of = [&](std::string_view key) {
                const std::string* const text = (*json)[key].string();
                return text == nullptr ? std::string() : *text;
            };
            const std::string level = text_of("level");
            const std::string object = text_of("object");
            std::string text = text_of("msg");
            if (!object.empty()) text = object + ": " + text;
            return {std::move(text), level == "error" || level == "critical" || level == "fatal"};
        }
    }
    const bool is_error =
        line.find("rror") != std::string_view::npos || line.find("ailed") != std::string_view::npos;
    // Removes the timestamp at the start of the line.
    constexpr std::size_t stamp = 20;
    if (line.size() > stamp && line[4] == '/' && line[7] == '/') line.remove_prefix(stamp);
    return {std::string(line), is_error};
}

}  // namespace

base::Arguments serve_arguments(const plan::Mount& mount, const std::string& cache) {
    const plan::RemoteVolume& remote = mount.remote.value();
    base::Arguments arguments{
        "rclone", "mount2", "volume:" + remote.path,
        // The file system is mounted already when rclone starts, and only rclone uses the device,
        // so rclone is told not to insist on an empty mount point.
        fmt::format("/dev/fd/{}", rclone_fuse_descriptor), "--allow-non-empty",
        "--config=", "--cache-dir=" + cache,
        // Programs may write to files in any order. A closed file is uploaded in the background,
        // one second later.
        "--vfs-cache-mode=writes", "--vfs-write-back=1s", "--vfs-cache-max-age=10m",
        // Other nodes write as well. Their changes become visible after these times.
        "--dir-cache-time=5s", "--attr-timeout=1s", "--poll-interval=0",
        fmt::format("--file-perms={:04o}", remote.file_mode),
        fmt::format("--dir-perms={:04o}", remote.directory_mode), "--umask=0", "--contimeout=10s",
        "--use-json-log", "--log-level=NOTICE", "--stats=0"};
    if (mount.read_only) arguments.emplace_back("--read-only");
    return arguments;
}

base::Environment remote_environment(const plan::RemoteVolume& remote,
                                     const std::string& credential) {
    base::Environment environment{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
                                  // rclone needs a home for its default cache, although it is given
                                  // another one.
                                  "HOME=/", variable("type", remote.backend)};
    for (const plan::Variable& option : remote.options)
        environment.push_back(variable(option.name, option.value));
    if (!remote.secret_option.empty())
        environment.push_back(variable(remote.secret_option, credential));
    return environment;
}

base::Result<base::Environment> rclone_environment(const plan::RemoteVolume& remote,
                                                   const std::string& job_directory) {
    const auto credential = TRY(credential_of(remote, job_directory));
    return remote_environment(remote, credential);
}

base::Result<void> copy_to_volume(const base::Environment& environment,
                                  const plan::RemoteVolume& remote, const std::string& source,
                                  const std::string& directory,
                                  const std::vector<std::string>& files,
                                  std::chrono::seconds deadline) {
    std::string target = "volume:" + remote.path;
    if (!directory.empty()) target += (remote.path.empty() ? "" : "/") + directory;
    // Without --ignore-times, rclone leaves out a file that seems to be there: one of the same size
    // and time, or only of the same size where the storage keeps no times (WebDAV). What is copied
    // here is known to differ.
    base::Arguments arguments{
        "rclone",      "copy",           "--config=",          "--contimeout=10s", "--ignore-times",
        "--retries=1", "--use-json-log", "--log-level=NOTICE", "--stats=0"};
    base::RunOptions options;
    options.environment = environment;
    options.deadline = deadline;
    if (!files.empty()) {
        arguments.insert(arguments.end(), {"--files-from-raw=-", "--no-traverse"});
        for (const std::string& file : files)
            options.standard_input += file + '\n';
    }
    arguments.insert(arguments.end(), {source, target});
    const auto done = TRY(base::run(arguments, options));
    if (done.exit_code == 0) return {};
    const std::string said = complaint_of(done.standard_error);
    return base::fail(
        said.empty() ? fmt::format("rclone ends with exit code {}", done.exit_code) : said, target,
        advice_on(said));
}

std::string complaint_of(std::string_view log) {
    std::string last;
    std::string last_error;
    for (const std::string_view line : base::split(log, '\n')) {
        if (base::trim(line).empty()) continue;
        Said said = read_line(line);
        if (said.is_error) last_error = said.text;
        last = std::move(said.text);
    }
    constexpr std::size_t longest = 400;
    return base::printable_line((last_error.empty() ? last : last_error).substr(0, longest));
}

bool has_error(std::string_view log) {
    const auto lines = base::split(log, '\n');
    return std::any_of(lines.begin(), lines.end(),
                       [](std::string_view line) { return read_line(line).is_error; });
}

std::string advice_on(std::string_view complaint) {
    const std::string low = base::lower(complaint);
    const auto has = [&](std::initializer_list<std::string_view> words) {
        return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
            return low.find(word) != std::string::npos;
        });
    };
    if (has({"logon", "unauthorized", "401", "403", "authentication", "access denied",
             "invalid username"}))
        return "is the account's key right? it comes from AZURE_BATCHAI_STORAGE_KEY, the job file "
               "or the site's credentials_file";
    if (has({"no such host", "refused", "unreachable", "i/o timeout", "no route", "timed out"}))
        return "the server does not answer this node; check its name and the network, or ask the "
               "admin whether site.lua names the right one";
    if (has({"bad network name", "not found", "404", "does not exist", "no such"}))
        return "there is no such share, container or directory; make it, or check the name";
    if (has({"executable file not found", "not installed"}))
        return "the package rclone must be on every node";
    return {};
}

}  // namespace batchai::node
