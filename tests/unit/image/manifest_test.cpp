// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/manifest.hpp"

#include <gtest/gtest.h>

namespace batchai::image {
namespace {

// A manifest with one layer.
std::string manifest(const std::string& configuration, const std::string& layer) {
    return R"({"config": {"mediaType": ")" + configuration + R"("}, "layers": [{"mediaType": ")" +
           layer + R"(", "size": 1}]})";
}

const std::string oci = "application/vnd.oci.image.config.v1+json";
const std::string docker = "application/vnd.docker.container.image.v1+json";

TEST(Manifest, GivesTheBytesOfItsLayers) {
    EXPECT_EQ(layer_bytes(R"({"layers": [{"size": 7}, {"size": 35}]})"), 42);
    EXPECT_EQ(layer_bytes(R"({"manifests": []})"), 0);
    EXPECT_EQ(layer_bytes("nonsense"), 0);
    EXPECT_EQ(layer_bytes(R"({"layers": [{"size": -1}]})"), 0);
    EXPECT_EQ(layer_bytes(R"({"layers": [{"size": 9223372036854775807}, {"size": 7}]})"),
              std::int64_t{1} << 50);
}

TEST(Manifest, OfAListGivesTheInstanceForTheMachine) {
    const std::string list = R"({"manifests": [
        {"digest": "sha256:1", "platform": {"architecture": "arm64", "os": "linux"}},
        {"digest": "sha256:2", "platform": {"architecture": "amd64", "os": "windows"}},
        {"digest": "sha256:3", "platform": {"architecture": "amd64", "os": "linux"}}]})";
    EXPECT_EQ(instance_digest(list, "amd64"), "sha256:3");
    EXPECT_EQ(instance_digest(list, "s390x"), "");
    EXPECT_EQ(instance_digest(R"({"layers": []})", "amd64"), "");
}

TEST(Manifest, OfAListSaysWhichDigestsItHas) {
    const std::string list = R"({"manifests": [1, {"digest": "sha256:1"}, {"digest": null}]})";
    EXPECT_TRUE(lists_digest(list, "sha256:1"));
    EXPECT_FALSE(lists_digest(list, "sha256:2"));
    EXPECT_FALSE(lists_digest(R"({"layers": [{"digest": "sha256:1"}]})", "sha256:1"));
    EXPECT_FALSE(lists_digest("nonsense", "sha256:1"));
}

TEST(Manifest, OfAnImageIsAccepted) {
    for (const std::string packing : {"", "+gzip", "+zstd"}) {
        EXPECT_EQ(
            why_not_an_image(manifest(oci, "application/vnd.oci.image.layer.v1.tar" + packing)),
            "");
    }
    EXPECT_EQ(
        why_not_an_image(manifest(docker, "application/vnd.docker.image.rootfs.diff.tar.gzip")),
        "");
    // What only a registry can say, and a list of instances, are for skopeo to judge.
    EXPECT_EQ(why_not_an_image(R"({"manifests": []})"), "");
    EXPECT_EQ(why_not_an_image(R"({"schemaVersion": 1, "fsLayers": []})"), "");
    EXPECT_EQ(why_not_an_image("nonsense"), "");
}

TEST(Manifest, OfSomethingElseIsNot) {
    EXPECT_EQ(why_not_an_image(manifest("application/vnd.cncf.helm.config.v1+json",
                                        "application/vnd.cncf.helm.chart.content.v1.tar+gzip")),
              "is not a container image but an artifact of type "
              "\"application/vnd.cncf.helm.config.v1+json\"");
    EXPECT_EQ(
        why_not_an_image(manifest(oci, "application/vnd.sylabs.sif.layer.v1.sif")),
        "has a layer of type \"application/vnd.sylabs.sif.layer.v1.sif\", which is not a root "
        "file system");
    EXPECT_EQ(
        why_not_an_image(manifest(oci, "application/vnd.oci.image.layer.v1.tar+gzip+encrypted")),
        "has encrypted layers, which are not supported");
    EXPECT_NE(why_not_an_image(manifest(oci, "application/vnd.oci.image.layer.v1.tar+lz4")), "");
}

}  // namespace
}  // namespace batchai::image
