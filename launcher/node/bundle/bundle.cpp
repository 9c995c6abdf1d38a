// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/bundle/bundle.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "node/rootfs/in_root.hpp"
#include "node/rootfs/mounts.hpp"
#include "spank/protocol.h"

namespace batchai::node {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view manifest_schema = "batchai-bundle/v1";
// Directories of the bundle: PMIx with the libraries that only PMIx needs, and an empty directory
// that is mounted over it to hide it.
constexpr std::string_view pmix_directory = "lib/mpi_bridge/pmix";
constexpr std::string_view empty_directory = "none";

constexpr std::string_view pmix_name = "libpmix.so.2";
constexpr std::string_view c_library_name = "libc.so.6";
constexpr std::string_view pmix_words = "OpenPMIx ";
constexpr std::string_view c_library_words = " release version ";
// In bytes. No more of a file is read, because the image is not trusted.
constexpr std::size_t library_limit = 64UL << 20U;
constexpr std::size_t cache_limit = 16UL << 20U;

#if defined(__x86_64__)
constexpr std::string_view triplet = "x86_64-linux-gnu";
#elif defined(__aarch64__)
constexpr std::string_view triplet = "aarch64-linux-gnu";
#else
#error "say here in which directories Debian has libraries for this processor"
#endif

// Returns the library directories of Debian and its derivatives, then those of other distributions.
std::vector<std::string> usual_directories() {
    return {fmt::format("/lib/{}", triplet),
            fmt::format("/usr/lib/{}", triplet),
            "/lib64",
            "/usr/lib64",
            "/lib",
            "/usr/lib"};
}

// Returns the version that follows `words` in `bytes`. It ends at the first character that cannot
// be part of a version.
std::string version_after(std::string_view bytes, std::string_view words) {
    for (std::size_t at = bytes.find(words); at != std::string_view::npos;
         at = bytes.find(words, at)) {
        at += words.size();
        const std::string_view rest = bytes.substr(at, 32);
        if (rest.empty() || std::isdigit(static_cast<unsigned char>(rest.front())) == 0) continue;
        const auto end = std::find_if(rest.begin(), rest.end(), [](unsigned char letter) {
            return letter != '.' && std::isalnum(letter) == 0;
        });
        std::string version(rest.begin(), end);
        // A full stop at the end of a sentence is not part of the version.
        if (version.ends_with('.')) version.pop_back();
        return version;
    }
    return {};
}

std::optional<ImageLibrary> read_library(const base::Root& root, const std::string& path,
                                         std::string_view words) {
    const auto bytes = read_in_root(root, path, library_limit + 1);
    Elf64_Ehdr header{};
    if (!bytes || bytes->size() < sizeof header) return std::nullopt;
    std::memcpy(&header, bytes->data(), sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
    return ImageLibrary{.path = path,
                        .version = version_after(*bytes, words),
                        .machine = header.e_machine,
                        .cut_off = bytes->size() > library_limit};
}

// Returns the version for a message.
std::string version_words(const ImageLibrary& library) {
    if (!library.version.empty()) return library.version;
    if (!library.cut_off) return "of an unknown version";
    return fmt::format(
        "of an unknown version (no more than {} MiB of {} are read, which is longer)",
        library_limit >> 20U, library.path);
}

// Returns the first three numbers, or as many as there are: 4, 2 and 2 for "4.2.2rc2".
std::array<int, 3> numbers_in(std::string_view version) {
    std::array<int, 3> numbers{};
    const char* at = version.data();
    const char* const end = version.data() + version.size();
    for (int& number : numbers) {
        const auto [next, error] = std::from_chars(at, end, number);
        if (error != std::errc() || next == end || *next != '.') break;
        at = next + 1;
    }
    return numbers;
}

// Returns the value that a task sees: the job's or, if that is empty, the image's.
std::string value_inside(const plan::Container& container, const std::vector<plan::Variable>& job,
                         std::string_view name) {
    const std::string* value = plan::last_value(job, name);
    if (value == nullptr || value->empty()) value = plan::last_value(container.environment, name);
    return value == nullptr ? std::string() : *value;
}

// Returns the bundle of the installation to which this program belongs: PREFIX/lib/batchai/bundle
// for PREFIX/libexec/batchai/batchai-node.
base::Result<std::string> installed_bundle() {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error) return base::fail(error.message(), "/proc/self/exe");
    const fs::path prefix = self.parent_path().parent_path().parent_path();
    return (prefix / "lib/batchai/bundle").string();
}

base::Result<BundleManifest> read_manifest(const std::string& bundle) {
    const std::string path = bundle + "/manifest.json";
    const std::string text = TRY(base::read_file(path));
    auto manifest = parse_bundle_manifest(text);
    if (!manifest) manifest.error().where = path;
    return manifest;
}

// Mounts the bundle and returns a sentence for the log. An error says why it is not mounted.
base::Result<std::string> try_to_show(const plan::Plan& plan, const base::Root& root) {
    const plan::Container& container = *plan.container;
    if (!container.inject) return base::fail("inject_mpi_bridge of the site's site.lua is off");
    const std::string* const injects = plan::last_value(plan.environment, inject_variable);
    if (injects != nullptr && *injects == "0")
        return base::fail(fmt::format("the job has {}=0", inject_variable));
    const std::string bundle = TRY(installed_bundle());
    const BundleManifest manifest = TRY(read_manifest(bundle));
    if (std::string why = why_unfit(find_c_library(root), manifest); !why.empty())
        return base::fail(std::move(why));
    const auto pmix = find_pmix(root, value_inside(container, plan.environment, "LD_LIBRARY_PATH"));
    const bool use_images =
        pmix && pmix->machine == manifest.machine && is_older(manifest.pmix, pmix->version);

    // Both are copied before either is mounted, so that an error here leaves nothing mounted.
    const HostTree all =
        TRY(copy_host_tree({.source = bundle, .target = bundle_root, .read_only = true}));
    const HostTree nothing =
        TRY(copy_host_tree({.source = fmt::format("{}/{}", bundle, empty_directory),
                            .target = fmt::format("{}/{}", bundle_root, pmix_directory),
                            .read_only = true}));
    TRY(attach(all, root));
    if (use_images) {
        TRY(attach(nothing, root));
        return fmt::format(
            "with the image's own PMIx library {} ({}), which is newer than the "
            "node's {}",
            pmix->version, pmix->path, manifest.pmix);
    }
    if (!pmix) return fmt::format("with the node's PMIx library {}", manifest.pmix);
    return fmt::format("with the node's PMIx library {}; the image's own ({}), {}, is not newer",
                       manifest.pmix, pmix->path, version_words(*pmix));
}

}  // namespace

base::Result<BundleManifest> parse_bundle_manifest(std::string_view text) {
    return base::from_record<BundleManifest>(text, manifest_schema);
}

std::optional<ImageLibrary> find_c_library(const base::Root& image_root) {
    std::optional<ImageLibrary> found;
    for (const std::string& directory : usual_directories()) {
        found = read_library(image_root, fmt::format("{}/{}", directory, c_library_name),
                             c_library_words);
        if (found) break;
    }
    return found;
}

std::vector<std::string> paths_in_loader_cache(const base::Root& image_root,
                                               std::string_view name) {
    const std::string cache =
        read_in_root(image_root, "/etc/ld.so.cache", cache_limit).value_or("");
    std::vector<std::string> paths;
    // In any format of the cache, paths are strings that end with a zero byte.
    for (const std::string_view text : base::split(cache, '\0')) {
        // The bytes before the first path may be part of a number.
        const std::size_t begin = text.find('/');
        if (begin == std::string_view::npos) continue;
        if (text.substr(text.rfind('/') + 1) == name) paths.emplace_back(text.substr(begin));
    }
    return paths;
}

std::optional<ImageLibrary> find_pmix(const base::Root& image_root, std::string_view library_path) {
    std::vector<std::string> paths;
    for (const std::string_view directory : base::split(library_path, ':')) {
        if (directory.starts_with('/')) paths.push_back(fmt::format("{}/{}", directory, pmix_name));
    }
    const auto listed = paths_in_loader_cache(image_root, pmix_name);
    paths.insert(paths.end(), listed.begin(), listed.end());
    for (const std::string& directory : usual_directories())
        paths.push_back(fmt::format("{}/{}", directory, pmix_name));
    for (const std::string& path : paths) {
        if (auto found = read_library(image_root, path, pmix_words)) return found;
    }
    return std::nullopt;
}

bool is_older(std::string_view left, std::string_view right) {
    return numbers_in(left) < numbers_in(right);
}

std::string why_unfit(const std::optional<ImageLibrary>& c_library, const BundleManifest& bundle) {
    if (!c_library)
        return fmt::format("the image has no glibc, and mpi_bridge of the node needs {} or newer",
                           bundle.glibc);
    if (c_library->machine != bundle.machine) return "the image is for another kind of processor";
    if (is_older(c_library->version, bundle.glibc))
        return fmt::format("the image has glibc {}, and mpi_bridge of the node needs {} or newer",
                           version_words(*c_library), bundle.glibc);
    return {};
}

void show_bundle(const plan::Plan& plan, const base::Root& image_root, const Trace& trace) {
    const auto begin = std::chrono::steady_clock::now();
    const auto shown = try_to_show(plan, image_root);
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    if (shown) {
        trace.line(
            fmt::format("libmpi_bridge is in {}, {} ({} ms)", bundle_root, *shown, spent.count()));
        return;
    }
    const base::Error& why = shown.error();
    const std::string text = why.where.empty() ? why.what : why.where + ": " + why.what;
    trace.line("libmpi_bridge is not brought into the container: " + text);
    if (auto noted = write_in_root(image_root, no_bundle_note, text + '\n'); !noted)
        trace.line(noted.error().text());
}

void add_bundle_packages(const plan::Container& container,
                         std::vector<plan::Variable>& environment) {
    if (access(bundle_python, F_OK) != 0) return;
    const std::string before = value_inside(container, environment, "PYTHONPATH");
    environment.push_back(
        {"PYTHONPATH", before.empty() ? std::string(bundle_python) : before + ':' + bundle_python});
}

void add_python_hook(bool in_container, std::vector<plan::Variable>& environment) {
    const std::string* const wanted = plan::last_value(environment, stacks_variable);
    if (wanted != nullptr && *wanted == "0") return;
    const auto bundle = in_container ? base::Result<std::string>(bundle_root) : installed_bundle();
    if (!bundle) return;
    const std::string hook = *bundle + "/lib/batchai/python/mpi_bridge/hook";
    if (access(hook.c_str(), F_OK) == 0)
        environment.push_back({BATCHAI_PYTHON_HOOK_VARIABLE, hook});
}

}  // namespace batchai::node
