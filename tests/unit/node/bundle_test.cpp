// SPDX-License-Identifier: GPL-2.0-or-later
// Whether an image can run the bundle, and whose libpmix is used: told by the versions in
// libraries.
#include "node/bundle/bundle.hpp"

#include <filesystem>
#include <fstream>

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>

#include "tests/unit/base/scratch.hpp"

namespace batchai::node {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

constexpr int this_machine =
#if defined(__x86_64__)
    EM_X86_64;
#else
    EM_AARCH64;
#endif

class Image : public testing::Test {
  protected:
    Image() { root.directory.reset(open(top.c_str(), O_PATH | O_DIRECTORY)); }

    // A library of an image is what has an ELF header and tells its version.
    void add(const std::string& path, const std::string& words, int machine = this_machine) {
        Elf64_Ehdr header{};
        std::copy_n(ELFMAG, SELFMAG, header.e_ident);
        header.e_machine = static_cast<Elf64_Half>(machine);
        fs::create_directories((top / path).parent_path());
        std::ofstream file(top / path, std::ios::binary);
        file.write(reinterpret_cast<const char*>(&header), sizeof header);
        file << std::string(5000, '\0') << words << '\0' << std::string(500, '\1');
    }
    std::string c_library_version() {
        const auto found = find_c_library(root);
        return found ? found->version : "none";
    }
    std::string pmix_path(std::string_view library_path = "") {
        const auto found = find_pmix(root, library_path);
        return found ? found->path : "none";
    }

    Scratch scratch;
    fs::path top = scratch.path();
    base::Root root{{}, top};
};

TEST(CLibrary, OfThisMachineTellsItsRelease) {
    const base::Root node{base::FileDescriptor(open("/", O_PATH | O_DIRECTORY)), "/"};
    const auto found = find_c_library(node);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->version, gnu_get_libc_version());
    EXPECT_EQ(found->machine, this_machine);
}

TEST_F(Image, TellsTheReleaseOfItsCLibrary) {
    EXPECT_EQ(c_library_version(), "none");
    add("lib64/libc.so.6", "GNU C Library (GNU libc) stable release version 2.17, by Roland\n");
    EXPECT_EQ(c_library_version(), "2.17");
    add("usr/lib/x86_64-linux-gnu/libc-2.31.so",
        "GNU C Library (Debian GLIBC 2.31-13+deb11u11) stable release version 2.31.\n");
    fs::create_directory_symlink("usr/lib", top / "lib");
    fs::create_symlink("libc-2.31.so", top / "usr/lib/x86_64-linux-gnu/libc.so.6");
#if defined(__x86_64__)
    EXPECT_EQ(c_library_version(), "2.31");
#endif
}

TEST_F(Image, TellsWhetherItsCLibraryIsTooLongToBeRead) {
    add("lib64/libc.so.6", "");
    EXPECT_FALSE(find_c_library(root)->cut_off);
    fs::resize_file(top / "lib64/libc.so.6", 64U << 20U);
    EXPECT_FALSE(find_c_library(root)->cut_off);
    std::ofstream(top / "lib64/libc.so.6", std::ios::binary | std::ios::app)
        << "GNU C Library stable release version 2.31.";
    const auto found = find_c_library(root);
    EXPECT_EQ(found->version, "");
    EXPECT_TRUE(found->cut_off);
}

TEST_F(Image, LeadsToNoLibraryOfTheNode) {
    fs::create_directories(top / "lib64");
    fs::create_symlink("../../../../../../lib/x86_64-linux-gnu/libc.so.6", top / "lib64/libc.so.6");
    EXPECT_EQ(c_library_version(), "none");
    std::ofstream(top / "lib/libc.so.6") << "GNU C Library stable release version 2.31";
    EXPECT_EQ(c_library_version(), "none") << "no ELF object";
}

TEST_F(Image, HasItsPmixWhereItsLoaderFindsIt) {
    EXPECT_EQ(pmix_path(), "none");
    add("usr/lib/libpmix.so.2", "OpenPMIx is here: OpenPMIx 4.1.2 (PMIx Standard: 4.1)");
    EXPECT_EQ(pmix_path(), "/usr/lib/libpmix.so.2");
    EXPECT_EQ(find_pmix(root, "")->version, "4.1.2");
    add("opt/pmix/libpmix.so.2", "OpenPMIx 5.0.7rc1 (PMIx Standard: 5.1)");
    EXPECT_EQ(pmix_path("relative:/opt/pmix::/none"), "/opt/pmix/libpmix.so.2");
    EXPECT_EQ(find_pmix(root, "/opt/pmix")->version, "5.0.7rc1");

    // As glibc writes the list: numbers, then strings.
    fs::create_directories(top / "etc");
    std::ofstream(top / "etc/ld.so.cache", std::ios::binary)
        << "glibc-ld.so.cache1.1" << std::string(8, '\3') << '\0' << "/usr/lib/libother.so.2"
        << '\0' << "libpmix.so.2" << '\0' << "/opt/pmix/libpmix.so.2" << '\0';
    EXPECT_EQ(pmix_path(), "/opt/pmix/libpmix.so.2");
    fs::remove(top / "opt/pmix/libpmix.so.2");
    EXPECT_EQ(pmix_path(), "/usr/lib/libpmix.so.2");
}

TEST(LoaderCache, OfThisMachineIsUnderstood) {
    const base::Root node{base::FileDescriptor(open("/", O_PATH | O_DIRECTORY)), "/"};
    const auto listed = paths_in_loader_cache(node, "libc.so.6");
    ASSERT_THAT(listed, Contains(HasSubstr("/libc.so.6")));
    for (const std::string& path : listed)
        EXPECT_TRUE(fs::exists(path)) << path;
}

TEST(Versions, AreComparedNumberByNumber) {
    EXPECT_TRUE(is_older("2.9", "2.34"));
    EXPECT_TRUE(is_older("4.2.2rc2", "4.10.0"));
    EXPECT_TRUE(is_older("4.2.2rc2", "5.0"));
    EXPECT_TRUE(is_older("", "2.2"));
    EXPECT_FALSE(is_older("4.2.2rc2", "4.2.2"));
    EXPECT_FALSE(is_older("4.2.2", "4.2.2rc2"));
    EXPECT_FALSE(is_older("2.36", "2.36"));
    EXPECT_FALSE(is_older("9.9.9", "4.2.2"));
}

class Fitness : public testing::Test {
  protected:
    static std::string of(const ImageLibrary& library) { return why_unfit(library, bundle()); }
    static BundleManifest bundle() { return {.glibc = "2.34", .pmix = "4.2.2", .machine = 62}; }
};

TEST_F(Fitness, IsThatOfTheCLibrary) {
    EXPECT_EQ(of({.path = "/lib64/libc.so.6", .version = "2.34", .machine = 62}), "");
    EXPECT_EQ(of({.path = "/lib64/libc.so.6", .version = "2.41", .machine = 62}), "");
    EXPECT_EQ(of({.path = "/lib64/libc.so.6", .version = "2.31", .machine = 62}),
              "the image has glibc 2.31, and mpi_bridge of the node needs 2.34 or newer");
    EXPECT_THAT(of({.path = "/lib64/libc.so.6", .version = "", .machine = 62}),
                HasSubstr("glibc of an unknown version, and"));
    EXPECT_EQ(of({.path = "/lib64/libc.so.6", .version = "", .machine = 62, .cut_off = true}),
              "the image has glibc of an unknown version (no more than 64 MiB of /lib64/libc.so.6 "
              "are read, which is longer), and mpi_bridge of the node needs 2.34 or newer");
    EXPECT_THAT(of({.path = "/lib64/libc.so.6", .version = "2.41", .machine = 183}),
                HasSubstr("another kind of processor"));
    EXPECT_THAT(why_unfit(std::nullopt, bundle()), HasSubstr("the image has no glibc"));
}

TEST(Manifest, IsReadStrictly) {
    const auto read = parse_bundle_manifest(
        R"({"schema": "batchai-bundle/v1", "glibc": "2.34", "pmix": "4.2.2", "machine": 62})");
    ASSERT_TRUE(read);
    EXPECT_EQ(read->glibc, "2.34");
    EXPECT_EQ(read->pmix, "4.2.2");
    EXPECT_EQ(read->machine, 62);
    EXPECT_FALSE(parse_bundle_manifest(R"({"schema": "batchai-bundle/v1", "glibc": "2.34"})"));
    EXPECT_FALSE(parse_bundle_manifest(
        R"({"schema": "batchai-bundle/v2", "glibc": "2.34", "pmix": "4.2.2", "machine": 62})"));
}

}  // namespace
}  // namespace batchai::node
