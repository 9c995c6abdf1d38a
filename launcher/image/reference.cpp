// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/reference.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::image {

namespace {

constexpr std::string_view docker_hub = "docker.io";
constexpr std::array<std::string_view, 5> docker_hub_names = {
    "docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com",
    "hub.docker.com"};
constexpr std::array<std::string_view, 3> squashfs_endings = {".sqsh", ".squashfs", ".sqfs"};
// The longest name of a host in DNS (RFC 1035) with a port, and the longest repository that
// registries take (github.com/distribution/reference).
constexpr std::size_t longest_registry = 253 + 6;
constexpr std::size_t longest_repository = 255;
constexpr std::string_view forms =
    "write [registry/]repository[:tag|@digest], oci:DIRECTORY, docker-archive:FILE, a *.sqsh file, "
    "or a directory that begins with / or ./";

// Transports of skopeo and of other tools that have no meaning on a node.
constexpr std::array<std::string_view, 9> foreign_transports = {
    "dockerd://", "podman://", "docker-daemon:", "containers-storage:",
    "library://", "shub://",   "oras://",        "ostree:",
    "sif:"};

constexpr std::array<std::pair<std::string_view, Kind>, 3> transports = {{
    {"oci:", Kind::oci_layout},
    {"oci-archive:", Kind::oci_archive},
    {"docker-archive:", Kind::docker_archive},
}};

tl::unexpected<BadReference> bad(std::string what, std::string hint) {
    return tl::unexpected<BadReference>(BadReference{std::move(what), std::move(hint), false});
}

tl::unexpected<BadReference> bad_server(std::string what, std::string hint) {
    return tl::unexpected<BadReference>(BadReference{std::move(what), std::move(hint), true});
}

bool is_lower_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || base::is_digit(c);
}

bool is_word(char c) {
    return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

bool ends_with_one_of(std::string_view text, const auto& endings) {
    return std::any_of(endings.begin(), endings.end(),
                       [&](std::string_view ending) { return text.ends_with(ending); });
}

// Returns whether `text` is host[:port]. The host may be an IPv6 address in brackets.
bool is_registry(std::string_view text) {
    if (text.size() > longest_registry) return false;
    std::string_view host = text;
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        if (close == std::string_view::npos || close < 3) return false;
        const std::string_view address = text.substr(1, close - 1);
        if (address.find_first_not_of("0123456789abcdefABCDEF:.") != std::string_view::npos)
            return false;
        host = text.substr(0, close + 1);
    } else {
        host = text.substr(0, text.find(':'));
        const auto labels = base::split(host, '.');
        const auto is_label = [](std::string_view label) {
            return !label.empty() && label.front() != '-' && label.back() != '-' &&
                   std::all_of(label.begin(), label.end(),
                               [](char c) { return is_word(c) || c == '-'; });
        };
        if (!std::all_of(labels.begin(), labels.end(), is_label)) return false;
    }
    const std::string_view port = text.substr(host.size());
    if (port.empty()) return true;
    return port.size() >= 2 && port.size() <= 6 && port.front() == ':' &&
           port.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

// Returns whether `text` is lower-case letters and digits, joined by ".", "_", "__" or any number
// of "-".
bool is_component(std::string_view text) {
    std::size_t at = 0;
    while (true) {
        const std::size_t start = at;
        while (at < text.size() && is_lower_or_digit(text[at]))
            ++at;
        if (at == start) return false;
        if (at == text.size()) return true;
        const std::size_t separator = at;
        while (at < text.size() && !is_lower_or_digit(text[at]))
            ++at;
        const std::string_view joint = text.substr(separator, at - separator);
        const bool dashes = joint.find_first_not_of('-') == std::string_view::npos;
        if (joint != "." && joint != "_" && joint != "__" && !dashes) return false;
    }
}

bool is_tag(std::string_view text) {
    return !text.empty() && text.size() <= 128 && is_word(text.front()) &&
           std::all_of(text.begin(), text.end(),
                       [](char c) { return is_word(c) || c == '.' || c == '-'; });
}

bool is_digest(std::string_view text) {
    constexpr std::string_view algorithm = "sha256:";
    return text.starts_with(algorithm) && text.size() == algorithm.size() + 64 &&
           text.find_first_not_of("0123456789abcdef", algorithm.size()) == std::string_view::npos;
}

std::string canonical_registry(std::string_view text) {
    const std::string lower = base::lower(text);
    const bool hub = std::find(docker_hub_names.begin(), docker_hub_names.end(), lower) !=
                     docker_hub_names.end();
    return hub ? std::string(docker_hub) : lower;
}

bool names_registry(std::string_view component) {
    return component == "localhost" || component.find_first_of(".:") != std::string_view::npos;
}

// Whether a name that begins with this registry would be read as one of a transport: "oci:5000".
bool begins_as_transport(std::string_view registry) {
    const auto is_it = [&](std::string_view transport) { return registry.starts_with(transport); };
    return std::any_of(foreign_transports.begin(), foreign_transports.end(), is_it) ||
           std::any_of(transports.begin(), transports.end(),
                       [&](const auto& transport) { return is_it(transport.first); });
}

struct Server {
    std::string registry;  // empty: none was given
    bool plain_http = false;
};

tl::expected<Server, BadReference> parse_server(const std::optional<std::string>& url) {
    if (!url || url->empty()) return Server{};
    std::string_view rest = *url;
    Server server;
    for (const std::string_view scheme : {"https://", "http://", "docker://"}) {
        if (!base::lower(rest).starts_with(scheme)) continue;
        server.plain_http = scheme == "http://";
        rest.remove_prefix(scheme.size());
        break;
    }
    const std::size_t slash = rest.find('/');
    const std::string_view host = rest.substr(0, slash);
    std::string_view path = slash == std::string_view::npos ? "" : rest.substr(slash);
    while (path.ends_with('/'))
        path.remove_suffix(1);
    if (!is_registry(host))
        return bad_server(fmt::format("\"serverUrl\" names no registry: \"{}\"", *url),
                          "write its host and, if it has one, its port: \"registry.example:5000\"");
    if (!path.empty() && path != "/v1" && path != "/v2")
        return bad_server(fmt::format("\"serverUrl\" has a path behind the registry: \"{}\"", *url),
                          fmt::format("write \"{}\" there, and put \"{}/\" before the image's name",
                                      host, path.substr(1)));
    server.registry = canonical_registry(host);
    // The tools would ask Docker Hub for the repositories of a user of that name.
    if (!names_registry(server.registry))
        return bad_server(
            fmt::format("\"serverUrl\" is a host without a domain and a port: \"{}\"", *url),
            fmt::format("write its port: \"{}:443\"", host));
    if (begins_as_transport(server.registry))
        return bad_server(
            fmt::format("\"serverUrl\" cannot be told from the name of a transport: \"{}\"", *url),
            "write the host's name with its domain, or its address");
    return server;
}

// Removes ":tag" and "@digest" from the end of `rest` and returns them.
tl::expected<Reference, BadReference> take_version(std::string_view& rest, std::string_view image) {
    Reference reference;
    if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
        reference.digest = rest.substr(at + 1);
        rest = rest.substr(0, at);
        if (!is_digest(reference.digest))
            return bad(
                fmt::format("\"{}\" is not a digest, in the image \"{}\"", reference.digest, image),
                "a digest is \"sha256:\" and 64 digits of 0-9 and a-f");
    }
    const std::size_t slash = rest.rfind('/');
    const std::size_t colon = rest.rfind(':');
    if (colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash)) {
        reference.tag = rest.substr(colon + 1);
        rest = rest.substr(0, colon);
        if (!is_tag(reference.tag))
            return bad(
                fmt::format("\"{}\" is not a tag, in the image \"{}\"", reference.tag, image),
                "a tag has up to 128 letters, digits, \"_\", \".\" and \"-\"");
        // The digest alone says which image it is.
        if (!reference.digest.empty()) reference.tag.clear();
    } else if (reference.digest.empty()) {
        reference.tag = "latest";
    }
    return reference;
}

std::optional<BadReference> check_repository(std::string_view repository, std::string_view image) {
    const auto components = base::split(repository, '/');
    if (std::all_of(components.begin(), components.end(), is_component)) return std::nullopt;
    const std::string lower = base::lower(repository);
    const auto lower_components = base::split(lower, '/');
    if (std::all_of(lower_components.begin(), lower_components.end(), is_component))
        return BadReference{
            fmt::format("\"{}\" has capital letters, in the image \"{}\"", repository, image),
            fmt::format("names in a registry are in lower case: \"{}\"", lower), false};
    return BadReference{fmt::format("\"{}\" is not an image", image), std::string(forms), false};
}

Parsed parse_registry(std::string_view image, const Server& server) {
    std::string_view rest = image;
    auto reference = take_version(rest, image);
    if (!reference) return reference;
    const std::size_t slash = rest.find('/');
    const std::string_view first = rest.substr(0, slash);
    if (slash != std::string_view::npos && names_registry(first)) {
        if (!is_registry(first))
            return bad(fmt::format("\"{}\" is not a registry, in the image \"{}\"", first, image),
                       "a registry is a host name and, if needed, \":\" and a port");
        reference->registry = canonical_registry(first);
        if (!server.registry.empty() && server.registry != reference->registry)
            return bad_server(
                fmt::format("\"serverUrl\" names the registry {}, but the image \"{}\" "
                            "is in {}",
                            server.registry, image, reference->registry),
                "leave \"serverUrl\" out, or name the same registry");
        rest.remove_prefix(slash + 1);
    } else {
        reference->registry = server.registry.empty() ? std::string(docker_hub) : server.registry;
    }
    reference->plain_http = server.plain_http;
    if (auto fault = check_repository(rest, image))
        return tl::unexpected<BadReference>(std::move(*fault));
    reference->repository = rest;
    const bool bare = rest.find('/') == std::string_view::npos;
    if (bare && reference->registry == docker_hub) reference->repository.insert(0, "library/");
    if (reference->repository.size() > longest_repository)
        return bad(fmt::format("the name of the image's repository is {} characters long",
                               reference->repository.size()),
                   fmt::format("registries take names of at most {}", longest_repository));
    return reference;
}

bool is_path(std::string_view image) {
    return image.starts_with('/') || image.starts_with("./") || image.starts_with("../") ||
           image.starts_with("~/") || image == "." || image == ".." ||
           ends_with_one_of(image, squashfs_endings);
}

Parsed parse_path(std::string_view image) {
    constexpr std::array<std::string_view, 3> tar_endings = {".tar", ".tar.gz", ".tgz"};
    if (ends_with_one_of(image, tar_endings))
        return bad(
            fmt::format("\"{}\" is an archive of unknown kind", image),
            fmt::format("write docker-archive:{} for what `docker save` made, oci-archive:{} "
                        "for an OCI archive",
                        image, image));
    if (image.ends_with(".sif"))
        return bad(fmt::format("\"{}\" is an image of Singularity, which is not supported", image),
                   "name the image in its registry, or unpack it and name the directory");
    Reference reference;
    const bool file = ends_with_one_of(image, squashfs_endings);
    reference.kind = file ? Kind::squashfs : Kind::directory;
    reference.path = image;
    return reference;
}

// Parses "path[:name]" after a transport. A colon in the path cannot be told from the one before
// the name; skopeo has the same limitation.
Parsed parse_archive(Kind kind, std::string_view rest, std::string_view image) {
    const std::size_t colon = rest.find(':');
    Reference reference;
    reference.kind = kind;
    reference.path = rest.substr(0, colon);
    if (colon != std::string_view::npos) reference.name_in_archive = rest.substr(colon + 1);
    if (reference.path.empty() || reference.path.starts_with("//"))
        return bad(fmt::format("\"{}\" names no file or directory", image),
                   fmt::format("write {}PATH[:NAME]", image.substr(0, image.find(':') + 1)));
    return reference;
}

// Recognizes forms that other tools accept and we do not, and says what to write instead.
std::optional<BadReference> foreign_form(std::string_view image) {
    if (image.empty()) return BadReference{"the image has no name", std::string(forms), false};
    const auto unprintable = [](char c) {
        return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f;
    };
    if (std::any_of(image.begin(), image.end(), unprintable))
        return BadReference{"the image has a blank or a control character in its name",
                            std::string(forms), false};
    for (const std::string_view scheme : {"https://", "http://"}) {
        if (base::lower(image).starts_with(scheme))
            return BadReference{fmt::format("\"{}\" is a web address, not an image", image),
                                fmt::format("write \"{}\"", image.substr(scheme.size())), false};
    }
    for (const std::string_view transport : foreign_transports) {
        if (image.starts_with(transport))
            return BadReference{
                fmt::format("images from \"{}\" are not supported: \"{}\"", transport, image),
                std::string(forms), false};
    }
    if (image.find('#') != std::string_view::npos) {
        std::string instead(
            image.substr(image.find('@') < image.find('#') ? image.find('@') + 1 : 0));
        std::replace(instead.begin(), instead.end(), '#', '/');
        return BadReference{fmt::format("\"{}\" is enroot's way to name an image", image),
                            fmt::format("write \"{}\"", instead), false};
    }
    return std::nullopt;
}

}  // namespace

std::string Reference::registry_name() const {
    std::string out = registry + "/" + repository;
    if (!digest.empty()) return out + "@" + digest;
    return out + ":" + tag;
}

Parsed parse(std::string_view image, const std::optional<std::string>& server_url) {
    constexpr std::string_view docker = "docker://";
    constexpr std::size_t longest = 4095;  // bytes of a path
    if (image.size() > longest)
        return tl::unexpected<BadReference>(
            {fmt::format("the image's name is {} bytes long; at most {} can be one", image.size(),
                         longest),
             {},
             false});
    std::string_view rest = image;
    if (rest.starts_with(docker)) rest.remove_prefix(docker.size());
    const bool has_transport = rest.size() != image.size();
    if (auto fault = foreign_form(rest)) return tl::unexpected<BadReference>(std::move(*fault));
    const auto server = parse_server(server_url);
    if (!server) return tl::unexpected<BadReference>(server.error());

    std::optional<Parsed> local;
    for (const auto& [transport, kind] : transports) {
        if (!has_transport && rest.starts_with(transport))
            local = parse_archive(kind, rest.substr(transport.size()), image);
    }
    if (!local && !has_transport && is_path(rest)) local = parse_path(rest);
    if (!local) return parse_registry(rest, *server);
    if (*local && !server->registry.empty())
        return bad_server(fmt::format("\"serverUrl\" has no meaning for \"{}\"", image),
                          "leave it out: the image is not in a registry");
    return *local;
}

}  // namespace batchai::image
