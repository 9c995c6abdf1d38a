// SPDX-License-Identifier: GPL-2.0-or-later
#include "snapshot/git.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/process.hpp"
#include "base/text.hpp"

namespace batchai::snapshot {

namespace {

constexpr std::chrono::seconds deadline{60};
constexpr std::size_t patch_limit = 16UL << 20U;

base::Environment environment() {
    base::Environment kept = base::environment_without({"GIT_", "LC_ALL="});
    kept.insert(kept.end(), {"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C",
                             // A clone that lacks objects fetches nothing. A repository's own
                             // protocol.*.allow would win over protocol.allow.
                             "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1"});
    return kept;
}

base::Result<base::Completed> ask(const std::string& directory, const base::Arguments& words,
                                  std::size_t limit = 256UL << 20U) {
    base::Arguments arguments{"git",
                              "--no-optional-locks",
                              "--no-pager",
                              "-C",
                              directory,
                              "-c",
                              "core.fsmonitor=false",
                              "-c",
                              "core.hooksPath=/dev/null",
                              "-c",
                              "core.untrackedCache=false",
                              "-c",
                              "safe.directory="};
    arguments.insert(arguments.end(), words.begin(), words.end());
    return base::run(arguments, {.environment = environment(),
                                 .deadline = deadline,
                                 .output_limit = limit,
                                 .missing_hint = "without git, all files are copied"});
}

// Returns the line that git prints, or an empty text if it fails.
std::string line_of(const std::string& directory, const base::Arguments& words) {
    const auto answer = ask(directory, words);
    if (!answer || answer->exit_code != 0) return {};
    return std::string(base::trim(answer->standard_output));
}

base::Result<std::vector<std::string>> paths(const std::string& directory,
                                             const base::Arguments& words) {
    const auto answer = TRY(ask(directory, words));
    if (answer.exit_code != 0)
        return base::fail(
            fmt::format("git {}: {}", words.front(), base::trim(answer.standard_error)), directory);
    std::vector<std::string> out;
    for (const std::string_view path : base::split(answer.standard_output, '\0')) {
        if (!path.empty()) out.emplace_back(path);
    }
    return out;
}

// Returns those of the files that differ from the commit, as paths relative to the directory. The
// same file may have several paths.
base::Result<std::vector<std::string>> changed_private_files(
    const std::string& directory, const std::vector<std::string>& private_files) {
    if (private_files.empty()) return std::vector<std::string>();
    const std::set<FileIdentity> hidden = identities_of(private_files);
    std::vector<std::string> found;
    for (std::string& path :
         TRY(paths(directory, {"diff", "--name-only", "-z", "--relative", "--no-renames",
                               "--no-ext-diff", "--ignore-submodules", "HEAD", "--", "."}))) {
        const auto identity = identity_of(fmt::format("{}/{}", directory, path));
        if (identity && hidden.contains(*identity)) found.push_back(std::move(path));
    }
    return found;
}

const base::Arguments untracked_files{"ls-files",           "-z", "--others",
                                      "--exclude-standard", "--", "."};

}  // namespace

std::optional<FileIdentity> identity_of(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) return std::nullopt;
    return FileIdentity(status.st_dev, status.st_ino);
}

std::set<FileIdentity> identities_of(const std::vector<std::string>& paths) {
    std::set<FileIdentity> found;
    for (const std::string& path : paths)
        if (const auto identity = identity_of(path)) found.insert(*identity);
    return found;
}

std::string without_credentials(std::string_view url) {
    const std::size_t scheme = url.find("://");
    if (scheme == std::string_view::npos) return std::string(url);
    const std::size_t begin = scheme + 3;
    const std::size_t path = std::min(url.find_first_of("/?#", begin), url.size());
    const std::size_t at = url.substr(begin, path - begin).rfind('@');
    const std::size_t host = at == std::string_view::npos ? begin : begin + at + 1;
    std::string out(url.substr(0, begin));
    out += url.substr(host, std::min(url.find_first_of("?#", host), url.size()) - host);
    return out;
}

base::Result<std::optional<Repository>> repository_of(
    const std::string& directory, const std::vector<std::string>& private_files) {
    const auto inside = TRY(ask(directory, {"rev-parse", "--is-inside-work-tree"}));
    if (inside.exit_code != 0) {
        if (inside.standard_error.find("not a git repository") != std::string::npos)
            return std::optional<Repository>();
        const auto words = base::split(base::trim(inside.standard_error), '\n');
        return base::fail(fmt::format("git: {}", words.front()), directory);
    }
    if (base::trim(inside.standard_output) != "true") return std::optional<Repository>();
    // git would list nothing of a directory that it ignores.
    const auto ignored = TRY(ask(directory, {"check-ignore", "--quiet", "."}));
    if (ignored.exit_code == 0) return std::optional<Repository>();
    Repository found;
    found.commit = line_of(directory, {"rev-parse", "--verify", "--quiet", "HEAD"});
    found.branch = line_of(directory, {"symbolic-ref", "--quiet", "--short", "HEAD"});
    found.remote =
        without_credentials(line_of(directory, {"config", "--get", "remote.origin.url"}));
    found.untracked = !TRY(paths(directory, untracked_files)).empty();
    found.patch = std::string();
    if (found.commit.empty()) return std::optional(std::move(found));
    base::Arguments words{"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--binary",
                          // The user's configuration must not change what git can apply, nor
                          // start a diff in a submodule, which would obey its configuration.
                          "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/",
                          "--no-relative", "--ignore-submodules=dirty", "HEAD", "--", "."};
    const auto left_out = changed_private_files(directory, private_files);
    if (left_out)
        for (const std::string& path : *left_out)
            words.push_back(":(exclude,literal)" + path);
    auto difference = ask(directory, words, patch_limit);
    if (!left_out || !difference || difference->exit_code != 0)
        found.patch.reset();
    else
        found.patch = std::move(difference->standard_output);
    return std::optional(std::move(found));
}

base::Result<std::vector<std::string>> files_of(const std::string& directory) {
    auto found = TRY(paths(directory, {"ls-files", "-z", "--cached", "--", "."}));
    auto others = TRY(paths(directory, untracked_files));
    // A file with a conflict is listed once for each side.
    std::set<std::string> all(found.begin(), found.end());
    all.insert(others.begin(), others.end());
    return std::vector<std::string>(all.begin(), all.end());
}

}  // namespace batchai::snapshot
