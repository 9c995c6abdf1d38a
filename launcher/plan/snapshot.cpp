// SPDX-License-Identifier: GPL-2.0-or-later
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "plan/container.hpp"
#include "plan/paths.hpp"
#include "plan/planning.hpp"
#include "record/job_files.hpp"

namespace batchai::plan {

namespace {

constexpr std::string_view snapshot_key = "/properties/snapshot";
constexpr std::string_view directory_key = "/properties/snapshot/directory";

// A path of the job file, and the key that it is at.
struct Written {
    std::string text;
    std::string pointer;
};

// Returns the script, or the configuration file, that the toolkit runs.
std::optional<Written> script_of(const job::Toolkit& toolkit) {
    return std::visit(
        []<typename Settings>(const Settings& settings) -> std::optional<Written> {
            const auto at = [](std::string_view key,
                               const std::optional<std::string>& text) -> std::optional<Written> {
                if (!text) return std::nullopt;
                return Written{*text,
                               fmt::format("/properties/{}/{}", Settings::settings_key, key)};
            };
            if constexpr (requires { settings.python_script_file_path; }) {
                if (auto found = at("pythonScriptFilePath", settings.python_script_file_path))
                    return found;
            }
            if constexpr (requires { settings.config_file_path; })
                return at("configFilePath", settings.config_file_path);
            return std::nullopt;
        },
        toolkit);
}

// Returns where the host that submits the job has a path of the job. Unlike Plan::host_path(), it
// also takes directories of this host alone, because the files are copied from here.
std::optional<std::string> on_this_host(const Planning& planning, const std::string& path) {
    const Plan::Place place = planning.plan.place_of(path);
    if (place.mount == nullptr) {
        if (is_within(path, planning.plan.directories.node_root)) return std::nullopt;
        return path;
    }
    if (place.mount->remote) return std::nullopt;
    return normalized(fmt::format("{}/{}", place.mount->source, place.rest));
}

std::string directory_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

// Returns the text as an absolute path without "..". A relative one begins at `base`.
std::string absolute(std::string_view text, const std::string& base) {
    const std::filesystem::path path(text.starts_with('/') ? std::string(text)
                                                           : fmt::format("{}/{}", base, text));
    return normalized(path.lexically_normal().string());
}

// Returns the directory to copy, or an empty string after it has reported a fault.
std::string source_of(Planning& planning, const job::SnapshotSettings& wanted) {
    const Inputs& inputs = planning.inputs;
    std::string pointer(directory_key);
    std::string path = inputs.file_directory;
    if (wanted.directory) {
        path = absolute(planning.expand(below_home(*wanted.directory, inputs.home), pointer), path);
    } else if (const auto script = script_of(planning.spec.toolkit)) {
        pointer = script->pointer;
        path = directory_of(
            absolute(planning.scope.expand(script->text).text, inputs.working_directory));
    }
    const auto host = on_this_host(planning, path);
    if (host) return *host;
    planning.findings.add(
        Finding::bad_snapshot, pointer,
        fmt::format("\"snapshot\" cannot copy {}: this host does not see it", path),
        "name a directory of this host in \"snapshot.directory\"; remote storage is not supported "
        "yet");
    return {};
}

// The text was checked when the file was read.
constexpr std::int64_t most_bytes = std::int64_t{1} << 40U;

}  // namespace

std::string in_snapshot(const Planning& planning, const std::string& path) {
    const auto& snapshot = planning.plan.snapshot;
    if (!snapshot || path.empty()) return path;
    const std::string full = absolute(path, planning.inputs.working_directory);
    const auto host = on_this_host(planning, full);
    if (!host || !is_within(*host, snapshot->source)) return path;
    return snapshot->directory +
           host->substr(snapshot->source == "/" ? 0 : snapshot->source.size());
}

void plan_snapshot(Planning& planning) {
    if (!planning.spec.snapshot) return;
    const job::SnapshotSettings& wanted = *planning.spec.snapshot;
    std::string source = source_of(planning, wanted);
    if (source.empty()) return;
    Snapshot& snapshot = planning.plan.snapshot.emplace();
    snapshot.source = std::move(source);
    snapshot.directory =
        record::JobFiles(planning.plan.directories.plan_directory).snapshot().string();
    snapshot.exclude = wanted.exclude;
    snapshot.max_bytes = memory_bytes(wanted.max_size);
    snapshot.max_files = wanted.max_files;
    if (snapshot.max_bytes > most_bytes)
        planning.findings.add(Finding::bad_snapshot, fmt::format("{}/maxSize", snapshot_key),
                              "\"maxSize\" is more than 1024 GiB",
                              "keep data out of the directory, or name it in \"exclude\"");
    const auto& container = planning.plan.container;
    // An image that names a working directory of its own gets it.
    if (container && !container->working_directory.empty()) return;
    const std::string& here = planning.inputs.working_directory;
    if (std::string copied = in_snapshot(planning, here); copied != here)
        snapshot.working_directory = std::move(copied);
}

}  // namespace batchai::plan
