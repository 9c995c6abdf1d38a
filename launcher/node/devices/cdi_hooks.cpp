// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/devices/cdi_hooks.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "node/rootfs/in_root.hpp"

namespace batchai::node {

namespace {

constexpr std::array<std::string_view, 7> known_verbs{
    "create-symlinks",     "update-ldcache", "create-soname-symlinks",
    "enable-cuda-compat",  "chmod",          "disable-device-node-modification",
    "update-nvidia-params"};

constexpr const char* compat_directory = "/usr/local/cuda/compat";
constexpr std::string_view driver_library = "libcuda.so.";

std::string_view base_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

void add_path_once(std::vector<std::string>& list, const std::string& entry) {
    if (std::find(list.begin(), list.end(), entry) == list.end()) list.push_back(entry);
}

base::Result<void> make_links(const VendorHook& hook, const base::Root& root) {
    for (const std::string& value : hook.values("link")) {
        const std::size_t middle = value.find("::");
        if (middle == 0 || middle == std::string::npos || value[middle + 2] != '/')
            return base::fail(fmt::format("\"{}\" is not TARGET::/LINK", value));
        TRY(link_in_root(root, value.substr(middle + 2), value.substr(0, middle)));
    }
    return {};
}

base::Result<void> change_modes(const VendorHook& hook, const base::Root& root) {
    const auto modes = hook.values("mode");
    const std::string text = modes.empty() ? std::string() : modes.back();
    const auto mode = base::number_in<unsigned int>(text, 8);
    if (!mode || *mode > 07777) return base::fail(fmt::format("\"{}\" is not a mode", text));
    for (const std::string& path : hook.values("path")) {
        const base::FileDescriptor file = open_in_root(root, path, O_RDONLY | O_NONBLOCK);
        // Like the tool itself, this ignores files that are missing, belong to somebody else or are
        // on a read-only file system.
        if (file.valid() && fchmod(file.get(), *mode) != 0 && errno != EPERM && errno != EROFS)
            return base::fail(fmt::format("cannot be changed: {}", std::strerror(errno)), path);
    }
    return {};
}

std::optional<int> major_version(std::string_view version) {
    return base::number_in<int>(version.substr(0, version.find('.')));
}

// Returns the major version of the driver to which the image's compatibility library belongs.
std::optional<int> compat_version(const base::Root& root) {
    base::FileDescriptor directory = open_in_root(root, compat_directory, O_RDONLY | O_DIRECTORY);
    if (!directory.valid()) return std::nullopt;
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(directory.get()), closedir);
    if (!stream) return std::nullopt;
    directory.release();
    std::optional<int> found;
    while (const dirent* const entry = readdir(stream.get())) {
        const std::string_view name(entry->d_name);
        if (!name.starts_with(driver_library)) continue;
        const std::string_view version = name.substr(driver_library.size());
        // "libcuda.so.1" is only a link to the library.
        if (version.find('.') == std::string_view::npos) continue;
        const auto major = major_version(version);
        if (major) found = std::max(found.value_or(0), *major);
    }
    return found;
}

void prefer_newer_driver(const VendorHook& hook, const base::Root& root,
                         std::vector<std::string>& directories) {
    const auto versions = hook.values("host-driver-version");
    const auto host = versions.empty() ? std::nullopt : major_version(versions.back());
    const auto compat = compat_version(root);
    if (!host || !compat || *compat <= *host) return;
    directories.insert(directories.begin(), compat_directory);
}

constexpr const char* oci_version = "1.0.2";
// The timeout of a hook if the file gives none. It is shorter than the plugin's default timeout for
// a sandbox, which includes the hooks.
constexpr std::chrono::seconds usual_deadline{20};
// ldconfig reads this file before the image's own, because it reads them in the order of their
// names.
constexpr const char* loader_file = "/etc/ld.so.conf.d/00-batchai-devices.conf";

// Writes the config.json of the bundle, in which hooks read the path of the root file system.
base::Result<void> write_bundle(const HookPlace& place) {
    const base::Value config(base::Value::Object{
        {"ociVersion", oci_version},
        {"root", base::Value::Object{{"path", place.root.path}}},
    });
    return base::write_atomically(place.bundle + "/config.json", base::format_json(config), 0600);
}

// Returns the id of this process as /proc shows it, because /proc may belong to another PID
// namespace than this process.
int own_number() {
    std::array<char, 32> number{};
    const ssize_t length = readlink("/proc/self", number.data(), number.size());
    if (length <= 0) return 0;
    return base::number_in<int>({number.data(), static_cast<std::size_t>(length)}).value_or(0);
}

std::string state_of(const HookPlace& place) {
    return base::format_json(base::Value::Object{
        {"ociVersion", oci_version},
        {"id", place.job_name},
        {"status", "creating"},
        {"pid", own_number()},
        {"bundle", place.bundle},
    });
}

base::Result<void> run_hook(const CdiHook& hook, const HookPlace& place) {
    const auto failed = [&](const std::string& why) {
        return base::fail(fmt::format("the hook {} {}", hook.path, why), hook.file,
                          "the admin can run it by hand on this node, or take it out of the file");
    };
    if (access(hook.path.c_str(), X_OK) != 0) return failed("is not a program on this node");
    TRY(write_bundle(place));
    base::Arguments arguments = hook.arguments;
    arguments.front() = hook.path;
    base::RunOptions options;
    options.environment = hook.environment;
    options.standard_input = state_of(place);
    options.deadline =
        hook.timeout_seconds > 0 ? std::chrono::seconds(hook.timeout_seconds) : usual_deadline;
    const auto ended = base::run(arguments, options);
    if (!ended) return failed(ended.error().what);
    if (ended->exit_code == 0) return {};
    return failed(fmt::format("failed with exit code {}: {}", ended->exit_code,
                              base::trim(ended->standard_error)));
}

// Writes the file so that a later ldconfig, such as one of a package that preparation installs,
// finds the directories as well.
base::Result<void> write_loader_file(const std::vector<std::string>& directories,
                                     const base::Root& root) {
    if (directories.empty()) return {};
    std::string text;
    for (const std::string& directory : directories)
        text += directory + '\n';
    if (read_in_root(root, loader_file) == text) return {};
    return write_in_root(root, loader_file, text);
}

}  // namespace

std::vector<std::string> VendorHook::values(std::string_view option) const {
    std::vector<std::string> found;
    for (const auto& [name, value] : options) {
        if (name == option) found.push_back(value);
    }
    return found;
}

std::optional<VendorHook> vendor_hook(const CdiHook& hook) {
    const std::string_view program = base_name(hook.path);
    auto word = hook.arguments.begin() + 1;
    const auto end = hook.arguments.end();
    if (program == "nvidia-ctk") {
        if (word == end || *word != "hook") return std::nullopt;
        ++word;
    } else if (program != "nvidia-cdi-hook") {
        return std::nullopt;
    }
    if (word == end ||
        std::find(known_verbs.begin(), known_verbs.end(), *word) == known_verbs.end())
        return std::nullopt;
    VendorHook made{*word++, {}};
    while (word != end) {
        if (!word->starts_with("--")) return std::nullopt;
        const std::string option = word->substr(2);
        const std::size_t sign = option.find('=');
        ++word;
        if (sign != std::string::npos) {
            made.options.emplace_back(option.substr(0, sign), option.substr(sign + 1));
        } else if (word != end) {
            made.options.emplace_back(option, *word++);
        } else {
            return std::nullopt;
        }
    }
    return made;
}

base::Result<void> perform(const VendorHook& hook, const base::Root& root,
                           std::vector<std::string>& directories) {
    if (hook.verb == "create-symlinks") return make_links(hook, root);
    if (hook.verb == "chmod") return change_modes(hook, root);
    if (hook.verb == "enable-cuda-compat") prefer_newer_driver(hook, root, directories);
    for (const std::string& folder : hook.values("folder")) {
        if (!folder.starts_with('/') || folder.find('\n') != std::string::npos)
            return base::fail(fmt::format("\"{}\" is not an absolute path", folder));
        add_path_once(directories, folder);
    }
    return {};
}

base::Result<std::vector<std::string>> run_hooks(const std::vector<CdiHook>& hooks,
                                                 const HookPlace& place, const Trace& trace) {
    std::vector<std::string> directories;
    for (const CdiHook& hook : hooks) {
        if (const auto ours = vendor_hook(hook)) {
            const auto done = perform(*ours, place.root, directories);
            if (!done) {
                base::Error error = done.error();
                error.what = fmt::format("{} of {}: {}", ours->verb, hook.file, error.what);
                return tl::unexpected<base::Error>(std::move(error));
            }
        } else {
            TRY(run_hook(hook, place));
            trace.line(fmt::format("the hook {} has run", fmt::join(hook.arguments, " ")));
        }
    }
    TRY(write_loader_file(directories, place.root));
    return directories;
}

}  // namespace batchai::node
