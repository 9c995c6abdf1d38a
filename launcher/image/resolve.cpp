// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/resolve.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/json.hpp"
#include "base/record.hpp"
#include "image/cache.hpp"
#include "image/command.hpp"

namespace batchai::image {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds question_deadline{60};

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

base::Result<std::string> ask(const std::string& what, const std::string& source,
                              const std::string& image, const Access& access, const Watch& watch) {
    base::Arguments arguments{"skopeo", "inspect", what};
    for (std::string& option : access.options())
        arguments.push_back(std::move(option));
    arguments.push_back(source);
    auto done = run({std::move(arguments), question_deadline}, watch);
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

void add_variable(const std::string& entry, plan::Container& container) {
    const std::size_t sign = entry.find('=');
    if (sign == 0 || sign == std::string::npos) return;
    container.environment.push_back({entry.substr(0, sign), entry.substr(sign + 1)});
}

}  // namespace

std::string digest_of(const std::string& manifest) {
    return "sha256:" + base::sha256_hex(manifest);
}

base::Result<std::string> raw_manifest(const std::string& source, const std::string& image,
                                       const Access& access, const Watch& watch) {
    return ask("--raw", source, image, access, watch);
}

base::Result<void> read_config(const std::string& text, plan::Container& container) {
    const auto unreadable = [&](const std::string& why) {
        return base::fail("has a configuration that cannot be read: " + why, container.image);
    };
    const auto document = base::parse_json(text, container.image);
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
        return base::fail(fmt::format("is made for {}, not for Linux", system), container.image);
    for (const std::string& entry : environment.value_or(std::vector<std::string>()))
        add_variable(entry, container);
    container.entrypoint = entrypoint.value_or(std::vector<std::string>());
    container.working_directory = directory.value_or("");
    return {};
}

base::Result<plan::Container> resolve(const Reference& reference, const std::string& written,
                                      const Places& places, const Access& access,
                                      const Watch& watch) {
    plan::Container container;
    container.image = written;
    if (!reference.is_imported()) {
        container.root = absolute(reference.path);
        container.root_is_directory = reference.kind == Kind::directory;
        TRY(container.root_is_directory ? check_directory(container.root)
                                        : check_squashfs(container.root));
        return container;
    }
    const auto manifest = TRY(raw_manifest(source_of(reference), written, access, watch));
    container.digest = digest_of(manifest);
    container.source = pinned_source(reference, container.digest);
    const auto config = TRY(ask("--config", container.source, written, access, watch));
    TRY(read_config(config, container));
    Root root = TRY(choose_root(places, container.digest));
    container.root = std::move(root.path);
    container.root_owner = root.owner;
    // There is no limit for the shared directory, because nothing is ever removed from it.
    if (root.owner == nobody_else) container.cache_limit = places.limit;
    container.insecure_registry = access.insecure;
    return container;
}

}  // namespace batchai::image
