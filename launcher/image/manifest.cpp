// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/manifest.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/ids.hpp"
#include "base/json.hpp"

namespace batchai::image {

namespace {

// https://github.com/opencontainers/image-spec/blob/main/media-types.md and
// https://distribution.github.io/distribution/spec/manifest-v2-2/. The types of Docker's layers
// are converted by skopeo.
constexpr std::array<std::string_view, 2> configuration_types{
    "application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"};
constexpr std::array<std::string_view, 4> layer_types{
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar"};
// What may follow one of them.
constexpr std::array<std::string_view, 5> packings{"", "+gzip", ".gzip", "+zstd", ".zstd"};
constexpr std::string_view encrypted = "+encrypted";

// Returns the media types of the layers; a layer without one has an empty text.
std::vector<std::string> types_of_layers(const base::Value& manifest) {
    std::vector<std::string> types;
    if (const auto* const layers = manifest["layers"].array()) {
        for (const base::Value& layer : *layers) {
            const std::string* const type = layer["mediaType"].string();
            types.push_back(type == nullptr ? std::string() : *type);
        }
    }
    return types;
}

bool is_layer(std::string_view type) {
    return std::any_of(layer_types.begin(), layer_types.end(), [&](std::string_view known) {
        return type.starts_with(known) && std::find(packings.begin(), packings.end(),
                                                    type.substr(known.size())) != packings.end();
    });
}

}  // namespace

std::string digest_of(const std::string& manifest) {
    return "sha256:" + base::sha256_hex(manifest);
}

std::int64_t layer_bytes(const std::string& manifest) {
    const auto document = base::parse_json(manifest, "manifest");
    if (!document) return 0;
    const auto* const layers = (*document)["layers"].array();
    if (layers == nullptr) return 0;
    // The registry says how large they are. No real image comes near this limit, and sums of what
    // is within it do not overflow.
    constexpr std::int64_t most = std::int64_t{1} << 50;
    std::int64_t total = 0;
    for (const base::Value& layer : *layers) {
        const std::int64_t* const size = layer["size"].integer();
        if (size == nullptr || *size < 0) return 0;
        total = std::min(most, total + std::min(most, *size));
    }
    return total;
}

std::string instance_digest(const std::string& manifest, const std::string& architecture) {
    const auto document = base::parse_json(manifest, "manifest");
    if (!document) return {};
    const auto* const instances = (*document)["manifests"].array();
    if (instances == nullptr) return {};
    for (const base::Value& instance : *instances) {
        const base::Value& platform = instance["platform"];
        const std::string* const digest = instance["digest"].string();
        if (platform["architecture"] == base::Value(architecture) &&
            platform["os"] == base::Value("linux") && digest != nullptr)
            return *digest;
    }
    return {};
}

bool lists_digest(const std::string& manifest, const std::string& digest) {
    const auto document = base::parse_json(manifest, "manifest");
    if (!document) return false;
    const auto* const instances = (*document)["manifests"].array();
    return instances != nullptr &&
           std::any_of(instances->begin(), instances->end(), [&](const base::Value& instance) {
               return instance["digest"] == base::Value(digest);
           });
}

std::string why_not_an_image(const std::string& manifest) {
    const auto document = base::parse_json(manifest, "manifest");
    if (!document || (*document)["layers"].array() == nullptr) return {};
    const std::string* const configuration = (*document)["config"]["mediaType"].string();
    if (configuration != nullptr &&
        std::find(configuration_types.begin(), configuration_types.end(), *configuration) ==
            configuration_types.end())
        return fmt::format("is not a container image but an artifact of type \"{}\"",
                           *configuration);
    for (const std::string& type : types_of_layers(*document)) {
        if (type.ends_with(encrypted)) return "has encrypted layers, which are not supported";
        if (!is_layer(type))
            return fmt::format("has a layer of type \"{}\", which is not a root file system", type);
    }
    return {};
}

}  // namespace batchai::image
