// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/pmix_plugin.hpp"

#include <algorithm>
#include <chrono>
#include <functional>

#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace batchai::admin {

namespace {

constexpr std::string_view beginning = "libpmix.so";

// Calls `accept` for each text of the file that ends with a zero byte, until it returns true.
bool any_text(std::string_view bytes, const std::function<bool(std::string_view)>& accept) {
    while (!bytes.empty()) {
        const std::size_t end = bytes.find('\0');
        if (end == std::string_view::npos) return false;
        if (accept(bytes.substr(0, end))) return true;
        bytes.remove_prefix(end + 1);
    }
    return false;
}

bool is_there(const std::string& path) {
    return access(path.c_str(), R_OK) == 0;
}

// Slurm is built with the directory of PMIx, and puts it before the name; or the plugin has it as
// the linker's search path.
bool is_in_directory_of(std::string_view plugin, const std::string& name) {
    return any_text(plugin, [&](std::string_view text) {
        if (!text.starts_with('/')) return false;
        const auto directories = base::split(text, ':');
        return std::any_of(directories.begin(), directories.end(), [&](std::string_view directory) {
            return directory.starts_with('/') && is_there(fmt::format("{}/{}", directory, name));
        });
    });
}

}  // namespace

std::string name_of_libpmix(std::string_view plugin) {
    std::string name;
    any_text(plugin, [&](std::string_view text) {
        const std::size_t slash = text.rfind('/');
        const bool is_path = slash != std::string_view::npos && text.starts_with('/');
        const std::string_view last = is_path ? text.substr(slash + 1) : text;
        constexpr std::string_view of_names = "0123456789.";
        if (!last.starts_with(beginning) ||
            last.find_first_not_of(of_names, beginning.size()) != std::string_view::npos)
            return false;
        name = text;
        return true;
    });
    return name;
}

bool is_cached(std::string_view libraries, std::string_view name) {
    const auto lines = base::split(libraries, '\n');
    return std::any_of(lines.begin(), lines.end(), [&](std::string_view line) {
        return base::trim(line).starts_with(fmt::format("{} (", name));
    });
}

base::Result<PmixPlugin> look_at_pmix_plugin(std::string_view type, std::string_view directories) {
    PmixPlugin found;
    for (const std::string_view directory : base::split(directories, ':')) {
        const std::string path = fmt::format("{}/mpi_{}.so", directory, type);
        if (found.path.empty() && is_there(path)) found.path = path;
    }
    if (found.path.empty())
        return base::fail(fmt::format("no mpi_{}.so is found in {}", type, directories),
                          "Slurm's plugins");
    const std::string plugin = TRY(base::read_file(found.path));
    found.library = name_of_libpmix(plugin);
    if (found.library.starts_with('/')) {
        found.loadable = is_there(found.library);
        return found;
    }
    if (found.library.empty() || is_in_directory_of(plugin, found.library)) {
        found.loadable = true;
        return found;
    }
    constexpr std::chrono::seconds deadline{10};
    const auto cache = TRY(base::run({"/sbin/ldconfig", "-p"}, {.deadline = deadline}));
    if (cache.exit_code != 0)
        return base::fail(fmt::format("ends with code {}", cache.exit_code), "/sbin/ldconfig -p");
    found.loadable = is_cached(cache.standard_output, found.library);
    return found;
}

}  // namespace batchai::admin
