// SPDX-License-Identifier: GPL-2.0-or-later
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "submit/environment.hpp"

// `batchai az` puts a link named "az" into a directory of PATH, and takes it out again.
namespace batchai::cli {
namespace {

namespace fs = std::filesystem;

struct AzOptions {
    std::optional<std::string> install;
    std::optional<std::string> uninstall;
    bool force = false;
};

enum class Found { nothing, our_link, something_else };

// Tells what is at a path. A link counts as ours if it leads to a program named batchai, even if
// that is no longer there: it may be of an older installation.
Found what_is_at(const fs::path& path) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) return Found::nothing;
    if (!S_ISLNK(status.st_mode)) return Found::something_else;
    std::error_code code;
    const auto target = fs::read_symlink(path, code);
    return !code && target.filename() == "batchai" ? Found::our_link : Found::something_else;
}

std::vector<std::string> path_directories() {
    std::vector<std::string> directories;
    const auto path = base::variable("PATH").value_or("");
    for (const std::string_view part : base::split(path, ':'))
        directories.emplace_back(part.empty() ? "." : part);
    return directories;
}

bool same_place(const fs::path& a, const fs::path& b) {
    std::error_code code;
    return fs::equivalent(a, b, code) && !code;
}

// Returns the program that the word "az" starts; empty if it starts none.
fs::path az_on_path() {
    for (const auto& directory : path_directories()) {
        const fs::path candidate = fs::path(directory) / "az";
        if (access(candidate.c_str(), X_OK) == 0) return candidate;
    }
    return {};
}

bool is_on_path(const fs::path& directory) {
    for (const auto& each : path_directories()) {
        if (same_place(each, directory)) return true;
    }
    return false;
}

void say_about_path(const fs::path& directory) {
    if (!is_on_path(directory)) {
        say(
            fmt::format("{0} is not on PATH: add `export PATH={0}:$PATH` to the start file of your "
                        "shell",
                        base::shell_quote(directory.string())));
        return;
    }
    const auto first = az_on_path();
    if (!first.empty() && !same_place(first.parent_path(), directory))
        say(fmt::format("{} comes before it on PATH, so `az` still starts that", first.string()));
}

base::Result<fs::path> absolute_directory(const std::string& directory, const char* option) {
    std::error_code code;
    const auto path = fs::absolute(directory, code).lexically_normal();
    if (!code && fs::is_directory(path, code)) return path;
    return base::fail("is not a directory", directory,
                      fmt::format("make it first: mkdir -p {}; {} takes a directory",
                                  base::shell_quote(directory), option),
                      base::ExitCode::not_found);
}

Answer install(const AzOptions& options) {
    const auto directory = TRY(absolute_directory(*options.install, "--install"));
    const auto link = directory / "az";
    std::error_code code;
    if (fs::is_directory(fs::symlink_status(link, code)))
        return base::fail("is a directory", link.string(), "choose another place");
    if (what_is_at(link) == Found::something_else && !options.force)
        return base::fail("is there already and is not batchai's", link.string(),
                          "if it is the Azure CLI, take another directory; --force replaces it",
                          base::ExitCode::refused);
    // The link gets its name in one step, so that "az" exists at any time.
    const auto temporary = directory / fmt::format(".az-{}", base::random_uuid());
    const auto program = submit::launcher_path();
    if (!base::make_symbolic_link(program, AT_FDCWD, temporary.string()))
        return base::fail(fmt::format("cannot be created: {}", std::strerror(errno)),
                          link.string());
    if (!base::rename_file(temporary, link)) {
        const int reason = errno;
        unlink(temporary.c_str());
        return base::fail(fmt::format("cannot be created: {}", std::strerror(reason)),
                          link.string());
    }
    fmt::print("{} -> {}\n", link.string(), program);
    std::fflush(stdout);
    say_about_path(directory);
    return Outcome{};
}

Answer uninstall(const AzOptions& options) {
    const auto directory = TRY(absolute_directory(*options.uninstall, "--uninstall"));
    const auto link = directory / "az";
    switch (what_is_at(link)) {
        case Found::nothing:
            say(fmt::format("there is no {}", link.string()));
            return Outcome{};
        case Found::something_else:
            return base::fail("is not batchai's and stays", link.string(), "",
                              base::ExitCode::refused);
        case Found::our_link:
            break;
    }
    if (unlink(link.c_str()) != 0 && errno != ENOENT)
        return base::fail(fmt::format("cannot be removed: {}", std::strerror(errno)),
                          link.string());
    return Outcome{};
}

// Says what the word "az" starts now.
Answer show() {
    const auto first = az_on_path();
    if (first.empty()) {
        fmt::print("no az is on PATH; `batchai az --install DIRECTORY` puts a link there\n");
    } else if (what_is_at(first) == Found::our_link) {
        fmt::print("{} starts batchai\n", first.string());
    } else {
        fmt::print(
            "{} is not batchai's; `batchai az --install DIRECTORY` puts a link into a "
            "directory that should be before it on PATH\n",
            first.string());
    }
    return Outcome{};
}

Answer az(const AzOptions& options) {
    if (options.install) return install(options);
    if (options.uninstall) return uninstall(options);
    return show();
}

}  // namespace

const Verbs az_verbs("", 140, [](CommandTree& tree, Parser app) {
    auto [leaf, options] = add_verb(
        tree, app, "az", "Make a link named az, so that scripts for the Azure CLI run here",
        "batchai az --install ~/bin\n  batchai az --uninstall ~/bin", az, Printing::by_itself);
    const Option install_option =
        add_optional(leaf, "--install", options->install, "Put the link into this directory")
            .type_name("DIRECTORY");
    add_optional(leaf, "--uninstall", options->uninstall, "Remove the link from this directory")
        .type_name("DIRECTORY")
        .excludes(install_option);
    leaf.add_flag("--force", options->force, "Replace a program of this name")
        .needs(install_option);
});

}  // namespace batchai::cli
