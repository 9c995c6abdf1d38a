// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/devices/cdi_hooks.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "node/devices/vendor_hooks.hpp"
#include "node/rootfs/in_root.hpp"

namespace batchai::node {

namespace {

constexpr const char* oci_version = "1.0.2";
// Unless the file says otherwise; of what the plugin waits for a sandbox.
constexpr std::chrono::seconds usual_deadline{20};
// Read before the image's own files, which are in the order of their names.
constexpr const char* loader_file = "/etc/ld.so.conf.d/00-batchai-devices.conf";

// What a hook looks for in the bundle: where the root file system is.
base::Result<void> write_bundle(const HookPlace& place) {
    const base::Value::Object root{{"path", place.root.path}};
    const base::Value::Object config{{"ociVersion", oci_version}, {"root", root}};
    return base::write_atomically(place.bundle + "/config.json", base::format_json(config), 0600);
}

// As /proc has it, which may be of another PID namespace than this process is in.
int own_number() {
    std::array<char, 32> number{};
    const ssize_t length = readlink("/proc/self", number.data(), number.size());
    int own = 0;
    if (length > 0) std::from_chars(number.data(), number.data() + length, own);
    return own;
}

std::string state_of(const HookPlace& place) {
    return base::format_json(base::Value::Object{{"ociVersion", oci_version},
                                                 {"id", place.job_name},
                                                 {"status", "creating"},
                                                 {"pid", own_number()},
                                                 {"bundle", place.bundle}});
}

base::Result<void> run_hook(const CdiHook& hook, const HookPlace& place) {
    const auto failed = [&](const std::string& why) {
        return base::fail(fmt::format("the hook {} {}", hook.path, why), hook.file,
                          "the admin can run it by hand on this node, or take it out of the file");
    };
    if (access(hook.path.c_str(), X_OK) != 0) return failed("is not a program on this node");
    if (auto written = write_bundle(place); !written) return written;
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

// So that a later ldconfig, of a package that preparation installs, knows them as well.
base::Result<void> write_loader_file(const std::vector<std::string>& directories,
                                     const Root& root) {
    if (directories.empty()) return {};
    std::string text;
    for (const std::string& directory : directories)
        text += directory + '\n';
    if (read_in_root(root, loader_file) == text) return {};
    return write_in_root(root, loader_file, text);
}

}  // namespace

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
            if (auto ran = run_hook(hook, place); !ran)
                return tl::unexpected<base::Error>(ran.error());
            trace.line(fmt::format("the hook {} has run", fmt::join(hook.arguments, " ")));
        }
    }
    if (auto written = write_loader_file(directories, place.root); !written)
        return tl::unexpected<base::Error>(written.error());
    return directories;
}

}  // namespace batchai::node
