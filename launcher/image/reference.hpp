// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

// The functions and types below read what users write for an image. They look at no file and ask no
// registry.
namespace batchai::image {

enum class Kind {
    registry,        // docker://registry/repository:tag, with or without "docker://"
    oci_layout,      // oci:directory[:tag]
    oci_archive,     // oci-archive:file[:tag]
    docker_archive,  // docker-archive:file[:name]
    squashfs,        // a file *.sqsh, *.squashfs, *.sqfs
    directory,       // a root file system
};

struct Reference {
    Kind kind = Kind::registry;

    // Kind::registry only. The registry is "host[:port]"; Docker Hub is "docker.io".
    std::string registry;
    std::string repository;   // "library/debian", "tensorflow/tensorflow"
    std::string tag;          // "latest" if neither tag nor digest is given; empty with a digest
    std::string digest;       // "sha256:<64 digits>", or empty
    bool plain_http = false;  // serverUrl begins with "http://"

    // All other kinds: the path as written, which may be relative, and the name or tag in an
    // archive or layout.
    std::string path;
    std::string name_in_archive;

    bool operator==(const Reference&) const = default;

    // Returns the name without a transport: "docker.io/library/debian:12",
    // "registry:5000/x@sha256:…".
    [[nodiscard]] std::string registry_name() const;
    // Returns whether the image has layers to import, and therefore a digest. Squashfs files and
    // directories have none.
    [[nodiscard]] bool is_imported() const {
        return kind != Kind::squashfs && kind != Kind::directory;
    }
};

struct BadReference {
    std::string what;            // a sentence without full stop that quotes the faulty text
    std::string hint;            // what to write instead
    bool in_server_url = false;  // the fault is in the serverUrl, not in the image
    bool operator==(const BadReference&) const = default;
};

using Parsed = tl::expected<Reference, BadReference>;

// Parses a reference by Docker's grammar. A first component that is "localhost" or has a dot or a
// colon names the registry. Without one, the registry is `server_url` ("nvcr.io",
// "https://registry:5000", optionally followed by a slash, /v1/ or /v2/), or else Docker Hub. A
// text that starts with "/", "./", "../" or "~/" is a path.
[[nodiscard]] Parsed parse(std::string_view image,
                           const std::optional<std::string>& server_url = std::nullopt);

}  // namespace batchai::image
