// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/resolve.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "base/record.hpp"
#include "base/temporary_directory.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "image/cache.hpp"
#include "image/command.hpp"
#include "image/enroot.hpp"
#include "image/manifest.hpp"

namespace batchai::image {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds question_deadline{60};
// The longest text that is taken from a file of a squashfs file, in bytes.
constexpr std::size_t longest_text = 64UL << 10U;

// Relative paths begin at the directory in which the user submits.
std::string absolute(const std::string& path) {
    if (path == "~" || path.starts_with("~/")) {
        const char* const home = std::getenv("HOME");
        if (home != nullptr) return fs::path(home + path.substr(1)).lexically_normal().string();
    }
    std::error_code error;
    const fs::path out = fs::absolute(path, error).lexically_normal();
    std::string text = error ? path : out.string();
    while (text.size() > 1 && text.ends_with('/'))
        text.pop_back();
    return text;
}

std::string_view transport_of(Kind kind) {
    switch (kind) {
        case Kind::oci_layout:
            return "oci:";
        case Kind::oci_archive:
            return "oci-archive:";
        case Kind::docker_archive:
            return "docker-archive:";
        default:
            return {};
    }
}

// Returns the source of the first query. It is named as the user wrote it, usually by tag, because
// the digest is not known yet.
std::string source_of(const Reference& reference) {
    if (reference.kind == Kind::registry) return "docker://" + reference.registry_name();
    std::string out = fmt::format("{}{}", transport_of(reference.kind), absolute(reference.path));
    if (!reference.name_in_archive.empty()) out += ":" + reference.name_in_archive;
    return out;
}

// Only a registry can be asked for a digest. The digest of a file is checked again when it is
// imported.
std::string pinned_source(const Reference& reference, const std::string& digest) {
    if (reference.kind != Kind::registry) return source_of(reference);
    Reference pinned = reference;
    pinned.digest = digest;
    return "docker://" + pinned.registry_name();
}

// skopeo unpacks an archive into a temporary directory, which it leaves there if it is ended.
base::Result<base::Completed> ask_file(base::Arguments arguments, const Watch& watch) {
    // A signal that ends this program does so when the directory is gone.
    const base::HeldSignals stop{SIGINT, SIGTERM, SIGHUP};
    const auto directory = TRY(base::TemporaryDirectory::make(
        base::variable("TMPDIR").value_or("/var/tmp"), "batchai-image-"));
    const Watch until_then{watch.tick, [&] {
                               pollfd arrived{stop.descriptor(), POLLIN, 0};
                               return poll(&arrived, 1, 0) > 0 ||
                                      (watch.interrupted && watch.interrupted());
                           }};
    arguments.insert(arguments.begin() + 2, {"--tmpdir", directory.path().string()});
    return run({std::move(arguments), question_deadline}, until_then);
}

base::Result<std::string> ask(const std::string& what, const std::string& source,
                              const std::string& image, const Access& access, const Watch& watch) {
    base::Arguments arguments{"skopeo", "inspect", what};
    for (std::string& option : access.options())
        arguments.push_back(std::move(option));
    arguments.push_back(source);
    const bool is_archive =
        source.starts_with("oci-archive:") || source.starts_with("docker-archive:");
    auto done = is_archive ? ask_file(std::move(arguments), watch)
                           : run({std::move(arguments), question_deadline}, watch);
    if (!done) {
        base::Error error = done.error();
        if (error.exit_code == base::ExitCode::timed_out && !access.registry.empty())
            error.what = fmt::format("{} did not answer within {} s", access.registry,
                                     question_deadline.count());
        return tl::unexpected<base::Error>(std::move(error));
    }
    if (done->exit_code == 0) return std::move(done->standard_output);
    return tl::unexpected<base::Error>(
        explain(done->standard_error, {image, access.registry, access.credential_source}));
}

base::Result<void> check_squashfs(const std::string& path) {
    const base::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid())
        return base::fail(fmt::format("cannot be read: {}", std::strerror(errno)), path,
                          "the image is a file that this host and every node must see",
                          errno == ENOENT ? base::ExitCode::not_found : base::ExitCode::failed);
    std::array<char, 4> magic{};
    if (read(file.get(), magic.data(), magic.size()) == 4 &&
        std::memcmp(magic.data(), "hsqs", 4) == 0)
        return {};
    return base::fail("is not a squashfs file system", path);
}

// Returns the content of a file in a squashfs file; nothing if it is not there.
base::Result<std::optional<std::string>> file_in_squashfs(const std::string& image,
                                                          const std::string& path,
                                                          const Watch& watch) {
    auto done = TRY(run({{"unsquashfs", "-cat", image, path}, question_deadline}, watch));
    if (done.standard_output.size() > longest_text)
        return base::fail(fmt::format("is longer than {} bytes", longest_text), path);
    if (done.exit_code == 0) return std::move(done.standard_output);
    // 2 also stands for other faults that concern this file only.
    if (done.exit_code == 2 && done.standard_error.find("no matches") != std::string::npos)
        return std::nullopt;
    const std::string_view said = base::trim(done.standard_error);
    return base::fail(
        fmt::format("cannot be read: {}", base::printable(said.substr(said.rfind('\n') + 1))),
        path);
}

void add_variable(const std::string& entry, FrozenImage& frozen) {
    const std::size_t sign = entry.find('=');
    if (sign == 0 || sign == std::string::npos) return;
    frozen.environment.push_back({entry.substr(0, sign), entry.substr(sign + 1)});
}

base::Result<void> read_squashfs(FrozenImage& frozen, const Watch& watch) {
    const auto rc = TRY(file_in_squashfs(frozen.root, start_script_path, watch));
    const auto script = rc ? read_start_script(*rc) : std::nullopt;
    const auto variables = TRY(file_in_squashfs(frozen.root, environment_path, watch));
    if (variables) {
        for (const std::string& entry : read_environment_file(*variables, !script))
            add_variable(entry, frozen);
    }
    if (!script) return {};
    // enroot writes "/" for an image that names no directory.
    if (script->working_directory != "/") frozen.working_directory = script->working_directory;
    frozen.entrypoint = script->entrypoint;
    return {};
}

base::Result<void> check_directory(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0)
        return base::fail(fmt::format("cannot be found: {}", std::strerror(errno)), path,
                          "an image of a registry is written without \"/\" or \"./\" before it",
                          base::ExitCode::not_found);
    if (!S_ISDIR(status.st_mode))
        return base::fail("is neither a root file system nor a *.sqsh file", path,
                          fmt::format("an archive is docker-archive:{0} or oci-archive:{0}", path));
    for (const char* part : {"/bin", "/usr", "/etc"}) {
        if (lstat((path + part).c_str(), &status) == 0) return {};
    }
    return base::fail(
        "has no bin, usr or etc, so it is not a root file system", path,
        fs::exists(path + "/oci-layout") ? "it is an OCI layout: write oci:" + path : "");
}

std::string machine_architecture() {
    utsname name{};
    uname(&name);
    std::string machine = name.machine;
    if (machine == "x86_64") return "amd64";
    if (machine == "aarch64") return "arm64";
    return machine;
}

}  // namespace

base::Result<std::string> raw_manifest(const std::string& source, const std::string& image,
                                       const Access& access, const Watch& watch) {
    return ask("--raw", source, image, access, watch);
}

base::Result<void> read_config(const std::string& text, FrozenImage& frozen) {
    const auto unreadable = [&](const std::string& why) {
        return base::fail("has a configuration that cannot be read: " + why, frozen.image);
    };
    const auto document = base::parse_json(text, frozen.image);
    if (!document) return unreadable(document.error().what);
    const base::Value& config = (*document)["config"];
    std::string system = "linux";
    std::optional<std::vector<std::string>> environment;
    std::optional<std::vector<std::string>> entrypoint;
    std::optional<std::string> directory;
    base::ValueReader reader;
    if (!(*document)["os"].is_null()) reader.read((*document)["os"], system, "os");
    reader.read(config["Env"], environment, "config.Env");
    reader.read(config["Entrypoint"], entrypoint, "config.Entrypoint");
    reader.read(config["WorkingDir"], directory, "config.WorkingDir");
    if (!reader.fault().empty()) return unreadable(reader.fault());
    if (system != "linux")
        return base::fail(fmt::format("is made for {}, not for Linux", system), frozen.image);
    for (const std::string& entry : environment.value_or(std::vector<std::string>()))
        add_variable(entry, frozen);
    frozen.entrypoint = entrypoint.value_or(std::vector<std::string>());
    frozen.working_directory = directory.value_or("");
    return {};
}

base::Result<std::string> manifest_for_this_machine(std::string manifest, const std::string& source,
                                                    const std::string& image, const Access& access,
                                                    const Watch& watch) {
    const std::string instance = instance_digest(manifest, machine_architecture());
    const std::size_t at = source.find('@');
    // A path may have an "@" of its own.
    if (instance.empty() || !source.starts_with("docker://") || at == std::string::npos)
        return manifest;
    return raw_manifest(source.substr(0, at + 1) + instance, image, access, watch);
}

namespace {

// Takes a squashfs file or a directory as it is.
base::Result<Resolved> resolve_root(const Reference& reference, const std::string& written,
                                    const Watch& watch) {
    Resolved resolved{.frozen = {.image = written}, .notices = {}};
    FrozenImage& frozen = resolved.frozen;
    frozen.root = absolute(reference.path);
    frozen.root_is_directory = reference.kind == Kind::directory;
    if (frozen.root_is_directory) {
        TRY(check_directory(frozen.root));
        return resolved;
    }
    TRY(check_squashfs(frozen.root));
    if (const auto read = read_squashfs(frozen, watch); !read)
        resolved.notices.push_back(
            fmt::format("the variables that {} may have for its programs are not set: {}",
                        base::printable(written), read.error().text()));
    return resolved;
}

}  // namespace

base::Result<Resolved> resolve(const Reference& reference, const std::string& written,
                               const Places& places, const Access& access, const Watch& watch) {
    if (!reference.is_imported()) return resolve_root(reference, written, watch);
    Resolved resolved{.frozen = {.image = written}, .notices = {}};
    FrozenImage& frozen = resolved.frozen;
    auto manifest = TRY(raw_manifest(source_of(reference), written, access, watch));
    const std::string digest = digest_of(manifest);
    frozen.digest = reference.kind == Kind::registry ? digest : local_digest(digest);
    frozen.source = pinned_source(reference, digest);
    manifest =
        TRY(manifest_for_this_machine(std::move(manifest), frozen.source, written, access, watch));
    if (const std::string why = why_not_an_image(manifest); !why.empty())
        return base::fail(base::printable(why), written);
    const auto config = TRY(ask("--config", frozen.source, written, access, watch));
    TRY(read_config(config, frozen));
    Root root = TRY(choose_root(places, frozen.digest));
    frozen.root = std::move(root.path);
    frozen.root_owner = root.owner;
    // There is no limit for the shared directory, because nothing is ever removed from it.
    if (root.owner == nobody_else) frozen.cache_limit = places.limit;
    frozen.insecure_registry = access.insecure;
    return resolved;
}

}  // namespace batchai::image
