// SPDX-License-Identifier: GPL-2.0-or-later
#include "snapshot/git.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"

namespace batchai::snapshot {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds deadline{60};
constexpr std::size_t patch_limit = 16UL << 20U;

base::Result<base::Completed> run_git(const std::string& directory, const base::Arguments& words,
                                      const base::Environment& further, std::size_t limit) {
    base::Environment environment = base::environment_without({"GIT_", "LC_ALL="});
    environment.insert(environment.end(),
                       {"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C",
                        // A clone that lacks objects fetches nothing. A repository's own
                        // protocol.*.allow would win over protocol.allow.
                        "GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1"});
    environment.insert(environment.end(), further.begin(), further.end());
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
    return base::run(arguments, {.environment = std::move(environment),
                                 .deadline = deadline,
                                 .output_limit = limit,
                                 .missing_hint = "without git, all files are copied"});
}

constexpr std::size_t usual_limit = 256UL << 20U;

// Asks the repository itself, whose configuration git then reads. Only for what runs no driver.
base::Result<base::Completed> ask(const std::string& directory, const base::Arguments& words) {
    return run_git(directory, words, {}, usual_limit);
}

// Returns the line that git prints, or an empty text if it fails.
std::string line_of(const std::string& directory, const base::Arguments& words) {
    const auto answer = ask(directory, words);
    if (!answer || answer->exit_code != 0) return {};
    std::string line = answer->standard_output;
    if (line.ends_with('\n')) line.pop_back();
    return line;
}

// What a repository's configuration may say about how its files are compared. None of it names a
// program.
constexpr const char* harmless_keys =
    "^core\\.(autocrlf|eol|filemode|ignorecase|symlinks|precomposeunicode|trustctime|checkstat|"
    "bigfilethreshold|excludesfile)$";

// A work tree that git looks at by a directory of ours in the place of ".git". That has the
// objects, the index, the attributes and the excluded names of the repository, but not its
// configuration. Somebody else may have written that, and it can name programs in many ways:
// filters, textconv, monitors, hooks, remote helpers, and included files with more of it.
class WorkTree {
  public:
    // Returns nothing if the directory is in no work tree. git refuses a repository of another user
    // here.
    static base::Result<std::optional<WorkTree>> of(const std::string& directory) {
        const auto inside = TRY(ask(directory, {"rev-parse", "--is-inside-work-tree"}));
        if (inside.exit_code != 0) {
            if (inside.standard_error.find("not a git repository") != std::string::npos)
                return std::optional<WorkTree>();
            const auto words = base::split(base::trim(inside.standard_error), '\n');
            return base::fail(fmt::format("git: {}", words.front()), directory);
        }
        if (base::trim(inside.standard_output) != "true") return std::optional<WorkTree>();
        std::error_code error;
        const fs::path temporary = fs::temp_directory_path(error);
        if (error) return base::fail(error.message(), temporary.string(), "is TMPDIR a directory?");
        WorkTree tree(directory, TRY(base::TemporaryDirectory::make(temporary, "batchai-git-")));
        TRY(tree.fill());
        return std::optional(std::move(tree));
    }

    base::Result<base::Completed> ask_safely(const base::Arguments& words,
                                             std::size_t limit = usual_limit) const {
        base::Arguments all = settings_;
        all.insert(all.end(), words.begin(), words.end());
        return run_git(directory_, all, environment_, limit);
    }

    base::Result<std::vector<std::string>> paths(const base::Arguments& words) const {
        const auto answer = TRY(ask_safely(words));
        if (answer.exit_code != 0)
            return base::fail(
                fmt::format("git {}: {}", words.front(), base::trim(answer.standard_error)),
                directory_);
        std::vector<std::string> out;
        for (const std::string_view path : base::split(answer.standard_output, '\0')) {
            if (!path.empty()) out.emplace_back(path);
        }
        return out;
    }

  private:
    WorkTree(std::string directory, base::TemporaryDirectory git_directory)
        : directory_(std::move(directory)), git_directory_(std::move(git_directory)) {}

    base::Result<fs::path> asked_path(const char* option) const {
        const std::string line = line_of(directory_, {"rev-parse", option});
        if (line.empty())
            return base::fail(fmt::format("git rev-parse {} failed", option), directory_);
        return fs::path(directory_) / line;
    }

    base::Result<void> fill() {
        const auto top = TRY(asked_path("--show-toplevel"));
        const auto repository = TRY(asked_path("--git-dir"));
        const auto common = TRY(asked_path("--git-common-dir"));
        const std::string format = line_of(directory_, {"rev-parse", "--show-object-format"});
        const std::string sha256 =
            "[core]\nrepositoryformatversion = 1\n"
            "[extensions]\nobjectformat = sha256\n";
        TRY(base::write_atomically(git_directory_.file("HEAD"), "ref: refs/heads/none\n"));
        TRY(base::write_atomically(git_directory_.file("config"),
                                   format == "sha256" ? sha256 : std::string()));
        std::error_code error;
        fs::create_directory(git_directory_.file("refs"), error);
        fs::create_directory_symlink(common / "info", git_directory_.file("info"), error);
        TRY(link_shared_indexes(repository));
        environment_ = {"GIT_DIR=" + git_directory_.path().string(),
                        "GIT_WORK_TREE=" + top.string(),
                        "GIT_OBJECT_DIRECTORY=" + (common / "objects").string(),
                        "GIT_INDEX_FILE=" + (repository / "index").string()};
        return take_settings();
    }

    // A split index names another file in the git directory.
    base::Result<void> link_shared_indexes(const fs::path& repository) {
        std::error_code error;
        for (const auto& entry : base::entries_of(repository, error)) {
            if (error) break;
            const std::string name = entry.path().filename().string();
            if (name.starts_with("sharedindex."))
                fs::create_symlink(entry.path(), git_directory_.file(name), error);
        }
        if (!error) return {};
        return base::fail(error.message(), repository.string());
    }

    base::Result<void> take_settings() {
        const auto found =
            TRY(ask(directory_, {"config", "--includes", "-z", "--get-regexp", harmless_keys}));
        // 1: there are none.
        if (found.exit_code > 1)
            return base::fail(fmt::format("git config: {}", base::trim(found.standard_error)),
                              directory_);
        for (const std::string_view entry : base::split(found.standard_output, '\0')) {
            if (entry.empty()) continue;
            std::string setting(entry);
            // A key without a value is true, and has no line.
            if (const auto line = setting.find('\n'); line != std::string::npos)
                setting[line] = '=';
            settings_.insert(settings_.end(), {"-c", std::move(setting)});
        }
        return {};
    }

    std::string directory_;
    base::TemporaryDirectory git_directory_;
    base::Environment environment_;
    base::Arguments settings_;
};

// Returns those of the files that differ from the commit, as paths relative to the directory. The
// same file may have several paths.
base::Result<std::vector<std::string>> changed_private_files(
    const WorkTree& tree, const std::string& commit, const std::string& directory,
    const std::vector<std::string>& private_files) {
    if (private_files.empty()) return std::vector<std::string>();
    const std::set<FileIdentity> hidden = identities_of(private_files);
    std::vector<std::string> found;
    for (std::string& path :
         TRY(tree.paths({"diff", "--name-only", "-z", "--relative", "--no-renames", "--no-ext-diff",
                         "--ignore-submodules", commit, "--", "."}))) {
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
    const auto tree = TRY(WorkTree::of(directory));
    if (!tree) return std::optional<Repository>();
    // git would list nothing of a directory that it ignores.
    const auto ignored = TRY(tree->ask_safely({"check-ignore", "--quiet", "."}));
    if (ignored.exit_code == 0) return std::optional<Repository>();
    Repository found;
    found.commit = line_of(directory, {"rev-parse", "--verify", "--quiet", "HEAD"});
    found.branch = line_of(directory, {"symbolic-ref", "--quiet", "--short", "HEAD"});
    found.remote =
        without_credentials(line_of(directory, {"config", "--get", "remote.origin.url"}));
    found.untracked = !TRY(tree->paths(untracked_files)).empty();
    found.patch = std::string();
    if (found.commit.empty()) return std::optional(std::move(found));
    base::Arguments words{"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--binary",
                          // The user's configuration must not change what git can apply, nor
                          // start a diff in a submodule, which would obey its configuration.
                          "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/",
                          "--no-relative", "--ignore-submodules=dirty", found.commit, "--", "."};
    const auto left_out = changed_private_files(*tree, found.commit, directory, private_files);
    if (left_out)
        for (const std::string& path : *left_out)
            words.push_back(":(exclude,literal)" + path);
    auto difference = tree->ask_safely(words, patch_limit);
    if (!left_out || !difference || difference->exit_code != 0)
        found.patch.reset();
    else
        found.patch = std::move(difference->standard_output);
    return std::optional(std::move(found));
}

base::Result<std::vector<std::string>> files_of(const std::string& directory) {
    const auto tree = TRY(WorkTree::of(directory));
    if (!tree) return base::fail("is no longer in a work tree of git", directory);
    auto found = TRY(tree->paths({"ls-files", "-z", "--cached", "--", "."}));
    auto others = TRY(tree->paths(untracked_files));
    // A file with a conflict is listed once for each side.
    std::set<std::string> all(found.begin(), found.end());
    all.insert(others.begin(), others.end());
    return std::vector<std::string>(all.begin(), all.end());
}

}  // namespace batchai::snapshot
