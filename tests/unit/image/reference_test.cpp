// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/reference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::image {
namespace {

using testing::HasSubstr;

const std::string digest = "sha256:" + std::string(64, 'a');

struct Name {
    const char* image;
    const char* server;  // "": none
    std::string expected;
};

class NamesInRegistries : public testing::TestWithParam<Name> {};

TEST_P(NamesInRegistries, AreCompleted) {
    const Name& name = GetParam();
    const auto parsed = parse(name.image, std::string(name.server));
    ASSERT_TRUE(parsed) << parsed.error().what;
    EXPECT_EQ(parsed->kind, Kind::registry);
    EXPECT_EQ(parsed->registry_name(), name.expected);
    EXPECT_TRUE(parsed->is_imported());
}

const std::string pinned = "registry:5000/x@" + digest;
const std::string pinned_and_tagged = "debian:12@" + digest;

INSTANTIATE_TEST_SUITE_P(
    Forms, NamesInRegistries,
    testing::Values(
        Name{"debian", "", "docker.io/library/debian:latest"},
        Name{"tensorflow/tensorflow:1.8.0-gpu", "", "docker.io/tensorflow/tensorflow:1.8.0-gpu"},
        Name{"docker://tensorflow/tensorflow", "", "docker.io/tensorflow/tensorflow:latest"},
        Name{"docker.io/debian:12", "", "docker.io/library/debian:12"},
        Name{"index.docker.io/library/debian:12", "", "docker.io/library/debian:12"},
        Name{"registry:5000/x", "", "registry:5000/x:latest"},
        Name{"registry:5000", "", "docker.io/library/registry:5000"},
        Name{"localhost/x:1", "", "localhost/x:1"},
        Name{"nvcr.io/nvidia/tensorflow:18.07-py3", "", "nvcr.io/nvidia/tensorflow:18.07-py3"},
        Name{"Registry.Example:5000/a/b-c__d:V1", "", "registry.example:5000/a/b-c__d:V1"},
        Name{"[::1]:5000/x:1", "", "[::1]:5000/x:1"}, Name{pinned.c_str(), "", pinned},
        Name{pinned_and_tagged.c_str(), "", "docker.io/library/debian@" + digest},
        Name{"nvidia/tensorflow:1", "nvcr.io", "nvcr.io/nvidia/tensorflow:1"},
        Name{"nvcr.io/nvidia/tensorflow:1", "nvcr.io", "nvcr.io/nvidia/tensorflow:1"},
        Name{"myreg.azurecr.io/img:tag", "https://myreg.azurecr.io", "myreg.azurecr.io/img:tag"},
        Name{"img:tag", "https://myreg.azurecr.io/", "myreg.azurecr.io/img:tag"},
        Name{"img", "registry:5000", "registry:5000/img:latest"},
        Name{"img", "https://index.docker.io/v1/", "docker.io/library/img:latest"}));

TEST(Reference, AServerWithHttpIsRememberedAsSuch) {
    EXPECT_TRUE(parse("img", "http://registry:5000")->plain_http);
    EXPECT_FALSE(parse("img", "registry:5000")->plain_http);
}

struct Local {
    const char* image;
    Kind kind;
    const char* path;
    const char* name;
};

class LocalImages : public testing::TestWithParam<Local> {};

TEST_P(LocalImages, ArePaths) {
    const Local& local = GetParam();
    const auto parsed = parse(local.image);
    ASSERT_TRUE(parsed) << parsed.error().what;
    EXPECT_EQ(parsed->kind, local.kind);
    EXPECT_EQ(parsed->path, local.path);
    EXPECT_EQ(parsed->name_in_archive, local.name);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, LocalImages,
    testing::Values(Local{"oci:images/layout", Kind::oci_layout, "images/layout", ""},
                    Local{"oci:/srv/layout:v1", Kind::oci_layout, "/srv/layout", "v1"},
                    Local{"oci-archive:x.tar:v1", Kind::oci_archive, "x.tar", "v1"},
                    Local{"docker-archive:/srv/x.tar", Kind::docker_archive, "/srv/x.tar", ""},
                    Local{"docker-archive:x.tar:debian:12", Kind::docker_archive, "x.tar",
                          "debian:12"},
                    Local{"x.sqsh", Kind::squashfs, "x.sqsh", ""},
                    Local{"~/x.squashfs", Kind::squashfs, "~/x.squashfs", ""},
                    Local{"/srv/x.sqfs", Kind::squashfs, "/srv/x.sqfs", ""},
                    Local{"/srv/roots/debian12", Kind::directory, "/srv/roots/debian12", ""},
                    Local{"./root", Kind::directory, "./root", ""}));

TEST(Reference, WithADigestHasNoTag) {
    const auto both = parse("site.example/image:1.0@" + digest);
    ASSERT_TRUE(both);
    EXPECT_EQ(both->tag, "");
    EXPECT_EQ(*both, *parse("site.example/image@" + digest));
    EXPECT_EQ(both->registry_name(), "site.example/image@" + digest);
    EXPECT_FALSE(parse("site.example/image:-@" + digest)) << "a wrong tag is told nevertheless";
}

TEST(Reference, IsNoLongerThanRegistriesTakeIt) {
    EXPECT_TRUE(parse("site.example/" + std::string(255, 'a')));
    const auto long_name = parse("site.example/" + std::string(256, 'a'));
    ASSERT_FALSE(long_name);
    EXPECT_THAT(long_name.error().what, HasSubstr("repository is 256 characters long"));
    EXPECT_TRUE(parse(std::string(247, 'a'))) << "with \"library/\" it has 255";
    EXPECT_FALSE(parse(std::string(248, 'a')));
    EXPECT_TRUE(parse(std::string(249, 'a') + ".com:65535/a"));
    EXPECT_FALSE(parse(std::string(256, 'a') + ".com/a"));
}

TEST(Reference, ThatIsLongerThanAPathIsRefusedInFewWords) {
    const auto parsed = parse(std::string(300000, 'x'));
    ASSERT_FALSE(parsed);
    EXPECT_THAT(parsed.error().what, HasSubstr("is 300000 bytes long"));
    EXPECT_LT(parsed.error().what.size(), 200U);
}

struct Wrong {
    const char* image;
    const char* server;
    const char* what;
    const char* hint;
    bool in_server;
};

class WrongImages : public testing::TestWithParam<Wrong> {};

TEST_P(WrongImages, AreRefusedWithWhatToWriteInstead) {
    const Wrong& wrong = GetParam();
    const auto parsed = parse(wrong.image, std::string(wrong.server));
    ASSERT_FALSE(parsed);
    EXPECT_THAT(parsed.error().what, HasSubstr(wrong.what));
    EXPECT_THAT(parsed.error().hint, HasSubstr(wrong.hint));
    EXPECT_EQ(parsed.error().in_server_url, wrong.in_server);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, WrongImages,
    testing::Values(
        Wrong{"", "", "has no name", "repository", false},
        Wrong{"x", "https://registry/", "without a domain", "\"registry:443\"", true},
        Wrong{"a b", "", "a blank", "repository", false},
        Wrong{"https://nvcr.io/x:1", "", "web address", "\"nvcr.io/x:1\"", false},
        Wrong{"nvcr.io#nvidia/x:1", "", "enroot's way", "\"nvcr.io/nvidia/x:1\"", false},
        Wrong{"me@nvcr.io#x:1", "", "enroot's way", "\"nvcr.io/x:1\"", false},
        Wrong{"dockerd://x", "", "not supported", "docker-archive:", false},
        Wrong{"TensorFlow/tensorflow", "", "capital letters", "\"tensorflow/tensorflow\"", false},
        Wrong{"x:", "", "\"\" is not a tag", "128", false},
        Wrong{"x:-1", "", "\"-1\" is not a tag", "128", false},
        Wrong{"x@sha256:abc", "", "not a digest", "64 digits", false},
        Wrong{"x@md5:00", "", "not a digest", "sha256", false},
        Wrong{"a//b", "", "is not an image", "repository", false},
        Wrong{"a/b_-c", "", "is not an image", "repository", false},
        Wrong{"re_g.-x:5000/x", "", "not a registry", "port", false},
        Wrong{"registry:port/x", "", "not a registry", "port", false},
        Wrong{"./image.tar", "", "unknown kind", "docker-archive:./image.tar", false},
        Wrong{"/srv/x.sif", "", "Singularity", "registry", false},
        Wrong{"oci:", "", "names no file", "oci:PATH", false},
        Wrong{"oci://x", "", "names no file", "oci:PATH", false},
        Wrong{"nvcr.io/x", "quay.io", "names the registry quay.io", "leave", true},
        Wrong{"x", "https://", "names no registry", "host", true},
        Wrong{"x", "oci:5000", "name of a transport", "domain", true},
        Wrong{"x", "ostree:443", "name of a transport", "domain", true},
        Wrong{"x", "https://gitlab.example/group", "has a path", "\"group/\"", true},
        Wrong{"./x.sqsh", "nvcr.io", "no meaning", "leave it out", true}));

}  // namespace
}  // namespace batchai::image
