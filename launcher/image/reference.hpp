// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

// What users write for an image, taken apart. Pure: looks at no file and asks no registry.
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
    std::string repository;  // "library/debian", "tensorflow/tensorflow"
    std::string tag;     // "latest" when neither tag nor digest is given; may be beside a digest
    std::string digest;  // "sha256:<64 digits>", or empty
    bool plain_http = false;  // serverUrl begins with "http://"

    // The other kinds: as written, may be relative; and the tag or name in an archive or layout.
    std::string path;
    std::string name_in_archive;

    bool operator==(const Reference&) const = default;

    // Without a transport: "docker.io/library/debian:12", "registry:5000/x@sha256:…".
    [[nodiscard]] std::string registry_name() const;
    // Whether there are layers to be imported, and so a digest: all but files and directories.
    [[nodiscard]] bool is_imported() const {
        return kind != Kind::squashfs && kind != Kind::directory;
    }
};

struct BadReference {
    std::string what;            // a sentence without full stop that quotes what is wrong
    std::string hint;            // what to write instead
    bool in_server_url = false;  // the serverUrl is to blame, not the image
    bool operator==(const BadReference&) const = default;
};

using Parsed = tl::expected<Reference, BadReference>;

// Docker's grammar of references: a first component with a dot, a colon, or "localhost" names the
// registry; without one it is `server_url` ("nvcr.io", "https://registry:5000", with a slash or
// /v1/, /v2/ behind it), or else Docker Hub. What starts with "/", "./", "../" or "~/" is a path.
[[nodiscard]] Parsed parse(std::string_view image,
                           const std::optional<std::string>& server_url = std::nullopt);

}  // namespace batchai::image
