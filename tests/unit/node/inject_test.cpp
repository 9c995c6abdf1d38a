// SPDX-License-Identifier: GPL-2.0-or-later
// What is brought into a container: how objects are read, where loaders look, what is chosen.
#include "node/bundle/inject.hpp"

#include <cstdint>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.hpp"
#include "node/bundle/inject_choice.hpp"
#include "node/bundle/inject_elf.hpp"
#include "node/bundle/inject_image.hpp"
#include "node/bundle/inject_search.hpp"
#include "scratch.hpp"

namespace batchai::node {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

std::optional<ElfObject> elf_of(const std::string& path) {
    const base::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return read_elf(file.get());
}

// As this machine's own loader finds it.
std::string path_of(const std::string& name) {
    const auto bytes = base::read_file("/etc/ld.so.cache");
    for (const std::string& path : places_of_library(name, "", read_loader_cache(*bytes))) {
        if (access(path.c_str(), R_OK) == 0) return path;
    }
    return {};
}

TEST(Elf, TellsWhatAProgramNeedsAndWhoLoadsIt) {
    const auto self = elf_of("/proc/self/exe");
    ASSERT_TRUE(self);
    EXPECT_THAT(self->interpreter, HasSubstr("/ld-linux"));
    EXPECT_THAT(self->needed, Contains("libc.so.6"));
    EXPECT_THAT(self->needed_versions, Contains(Pair("libc.so.6", Not(IsEmpty()))));
    EXPECT_EQ(self->soname, "");
}

TEST(Elf, TellsTheReleaseOfTheCLibraryWithoutRunningIt) {
    const auto library = elf_of(path_of("libc.so.6"));
    ASSERT_TRUE(library);
    EXPECT_EQ(library->soname, "libc.so.6");
    // A release need not bring new symbols.
    const Release running = newest_release({std::string("GLIBC_") + gnu_get_libc_version()});
    EXPECT_FALSE(running < newest_release(library->versions));
    EXPECT_FALSE(newest_release(library->versions) < (Release{2, 34}));
    EXPECT_THAT(library->versions, Contains("GLIBC_2.17"));
    EXPECT_THAT(library->versions, Not(Contains("libc.so.6")));
}

TEST(Elf, OfDamagedFilesIsNothingOrLess) {
    const auto library = base::read_file(path_of("libdl.so.2"));
    ASSERT_TRUE(library);
    const Scratch scratch;
    const std::string path = scratch.path() / "object";
    for (std::size_t length : {0UL, 3UL, 16UL, 63UL, 64UL, 100UL, 4000UL, library->size() / 2}) {
        std::ofstream(path, std::ios::trunc) << library->substr(0, length);
        const auto object = elf_of(path);
        if (length < 4000) {
            EXPECT_FALSE(object) << length;
        }
    }
    // Every byte of the head and of the table of segments, one at a time, or every fifth.
    for (std::size_t i = 4; i < 700; i += i < 64 ? 1 : 5) {
        std::string damaged = *library;
        damaged[i] = static_cast<char>(~damaged[i]);
        std::ofstream(path, std::ios::trunc) << damaged;
        const auto object = elf_of(path);
        if (object) {
            EXPECT_LE(object->needed.size(), 4096U);
        }
    }
}

TEST(Release, IsTheNewestOfTheCLibrarys) {
    EXPECT_EQ(newest_release({"GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.9"}), (Release{2, 34}));
    EXPECT_EQ(newest_release({"GLIBC_ABI_DT_RELR", "GLIBCXX_3.4", "GLIBC_PRIVATE"}), Release{});
    EXPECT_EQ((Release{2, 34}.text()), "2.34");
}

TEST(LoaderCache, OfThisMachineNamesWhatIsThere) {
    const auto cache = read_loader_cache(*base::read_file("/etc/ld.so.cache"));
    const auto [first, last] = cache.equal_range("libc.so.6");
    ASSERT_NE(first, last);
    EXPECT_EQ(access(first->second.c_str(), R_OK), 0);
}

TEST(LoaderCache, ThatIsNoneOrCutShortHasFewerEntries) {
    const auto bytes = *base::read_file("/etc/ld.so.cache");
    EXPECT_THAT(read_loader_cache("nothing of the kind"), IsEmpty());
    EXPECT_THAT(read_loader_cache(bytes.substr(0, 30)), IsEmpty());
    EXPECT_LE(read_loader_cache(bytes.substr(0, bytes.size() / 3)).size(),
              read_loader_cache(bytes).size());
}

TEST(PlacesOfLibrary, BeginWithTheOnesNamedByTheEnvironment) {
    const auto places =
        places_of_library("libx.so.1", "/opt/x:relative::/y",
                          {{"libx.so.1", "/listed/libx.so.1"}, {"liby.so", "/no/liby.so"}});
    ASSERT_GT(places.size(), 3U);
    EXPECT_EQ(places[0], "/opt/x/libx.so.1");
    EXPECT_EQ(places[1], "/y/libx.so.1");
    EXPECT_EQ(places[2], "/listed/libx.so.1");
    EXPECT_THAT(places, Contains("/usr/lib64/libx.so.1"));
}

TEST(LoadedObjects, AreReadFromTheLoadersList) {
    const auto found = read_loaded_objects(
        "\tlinux-vdso.so.1 (0x00007ffd)\n\t/usr/lib/ucx/libuct_ib.so.0 (0x00007f)\n"
        "\tlibpmix.so.2 => /usr/lib/pmix (2)/libpmix.so.2 (0x00007f25)\n"
        "\tlibgone.so.1 => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n");
    EXPECT_THAT(found, ElementsAre(Pair("libpmix.so.2", "/usr/lib/pmix (2)/libpmix.so.2")));
}

// A node and an image made of names.
class Choice : public testing::Test {
  protected:
    Choice() {
        node_.essential = {object("libmpi_bridge.so.0", {"libpmix.so.2", "libucs.so.0"}, "2.34"),
                           object("mpi_bridge_wireup", {"libpmix.so.2"}, "2.34")};
        add("libpmix.so.2", {"libevent.so.7", "libhwloc.so.15"}, "2.36");
        add("libucs.so.0", {"libnuma.so.1", "libm.so.6"}, "2.34");
        add("libevent.so.7", {}, "2.36");
        add("libhwloc.so.15", {}, "2.34");
        add("libnuma.so.1", {}, "2.33").versions = {"numa_1.1", "numa_1.2"};
        needs_numa("numa_1.2");
        add("libz.so.1", {}, "2.14").versions = {"ZLIB_1.2.9"};
        node_.pmix_components = {object("pcompress.so", {"libz.so.1", "libpmix.so.2"}, "2.4")};
        image_has("libc.so.6").versions = {"GLIBC_2.2.5", "GLIBC_2.36"};
    }

    static NodeObject object(const std::string& name, std::vector<std::string> needed,
                             const std::string& release) {
        NodeObject out;
        out.path = "/node/" + name;
        out.elf.machine = 62;
        out.elf.needed = std::move(needed);
        out.elf.needed.emplace_back("libc.so.6");
        out.elf.needed_versions["libc.so.6"] = {"GLIBC_2.2.5", "GLIBC_" + release};
        return out;
    }
    ElfObject& add(const std::string& name, std::vector<std::string> needed,
                   const std::string& release) {
        node_.libraries[name] = object(name, std::move(needed), release);
        return node_.libraries[name].elf;
    }
    void needs_numa(const std::string& version) {
        node_.libraries["libucs.so.0"].elf.needed_versions["libnuma.so.1"] = {version};
    }
    ElfObject& image_has(const std::string& name) {
        image_[name].machine = 62;
        return image_[name];
    }
    [[nodiscard]] InjectionChoice choose() const {
        return choose_injection(node_, [&](const std::string& name) {
            const auto found = image_.find(name);
            return found == image_.end() ? nullptr : &found->second;
        });
    }

    NodeObjects node_;
    std::map<std::string, ElfObject> image_;
};

TEST_F(Choice, IsAllButTheCLibraryForAnImageThatHasNothing) {
    const auto choice = choose();
    EXPECT_EQ(choice.refusal, "");
    EXPECT_FALSE(choice.pmix_of_image);
    EXPECT_THAT(choice.libraries,
                UnorderedElementsAre("libpmix.so.2", "libucs.so.0", "libevent.so.7",
                                     "libhwloc.so.15", "libnuma.so.1", "libz.so.1"));
}

TEST_F(Choice, LeavesPmixAndAllThatOnlyItNeedsToAnImageThatHasIt) {
    image_has("libpmix.so.2");
    const auto choice = choose();
    EXPECT_TRUE(choice.pmix_of_image);
    EXPECT_THAT(choice.libraries, UnorderedElementsAre("libucs.so.0", "libnuma.so.1"));
}

TEST_F(Choice, TakesTheImagesLibraryIfItsVersionsTellThatItIsNewEnough) {
    image_has("libnuma.so.1").versions = {"numa_1.1", "numa_1.2", "numa_1.3"};
    image_has("libhwloc.so.15");  // says nothing of versions
    const auto choice = choose();
    EXPECT_THAT(choice.libraries, Not(Contains("libnuma.so.1")));
    EXPECT_THAT(choice.libraries, Contains("libhwloc.so.15"));
}

TEST_F(Choice, BringsTheNodesLibraryWhereTheImagesIsTooOld) {
    image_has("libnuma.so.1").versions = {"numa_1.1"};
    EXPECT_THAT(choose().libraries, Contains("libnuma.so.1"));
}

TEST_F(Choice, IsRefusedWithBothReleasesWhenTheImagesCLibraryIsOlder) {
    image_["libc.so.6"].versions = {"GLIBC_2.2.5", "GLIBC_2.31"};
    const auto choice = choose();
    EXPECT_THAT(choice.refusal, HasSubstr("the image has glibc 2.31, the node's lib"));
    EXPECT_THAT(choice.refusal, HasSubstr("needs 2.36"));
    EXPECT_THAT(choice.libraries, IsEmpty());
}

TEST_F(Choice, AsksForNoMoreThanWhatIsBroughtNeeds) {
    image_["libc.so.6"].versions = {"GLIBC_2.2.5", "GLIBC_2.34"};
    EXPECT_NE(choose().refusal, "");
    image_has("libpmix.so.2");  // the one that needs 2.36, with its libraries, stays away
    EXPECT_EQ(choose().refusal, "");
}

TEST_F(Choice, IsRefusedForWhatIsNoReleaseOfTheCLibraryEither) {
    node_.essential[0].elf.needed_versions["libc.so.6"].insert("GLIBC_ABI_DT_RELR");
    EXPECT_THAT(choose().refusal, HasSubstr("no GLIBC_ABI_DT_RELR"));
    image_["libc.so.6"].versions.insert("GLIBC_ABI_DT_RELR");
    EXPECT_EQ(choose().refusal, "");
}

TEST_F(Choice, IsRefusedForAnImageWithoutTheCLibraryOrOfAnotherProcessor) {
    image_["libc.so.6"].machine = 183;
    EXPECT_THAT(choose().refusal, HasSubstr("another kind of processor"));
    image_.erase("libc.so.6");
    EXPECT_THAT(choose().refusal, HasSubstr("no glibc"));
}

TEST_F(Choice, IsRefusedWhereALibraryWouldLookElsewhereForItsOwn) {
    node_.libraries["libucs.so.0"].elf.runpath = "/opt/ucx/lib";
    EXPECT_THAT(choose().refusal, HasSubstr("by its RUNPATH /opt/ucx/lib"));
    node_.libraries["libucs.so.0"].elf.runpath = "/opt/ucx/lib:$ORIGIN";
    EXPECT_EQ(choose().refusal, "");
}

TEST(ImageLibraries, AreFoundInsideTheImageOnly) {
    const Scratch scratch;
    const std::filesystem::path image = scratch.path() / "image";
    std::filesystem::create_directories(image / "opt/own");
    std::filesystem::create_directories(image / "usr/lib");
    std::filesystem::copy_file(path_of("libm.so.6"), image / "opt/own/libmine.so.1");
    // Absolute links are the image's own, whatever the machine has there.
    std::filesystem::create_symlink("/opt/own/libmine.so.1", image / "usr/lib/liblink.so.1");
    std::filesystem::create_symlink(path_of("libc.so.6"), image / "usr/lib/libaway.so.1");
    std::ofstream(image / "usr/lib/libtext.so.1") << "GROUP ( libmine.so.1 )";
    const Root root{base::FileDescriptor(open(image.c_str(), O_PATH | O_DIRECTORY)), image};
    const auto user = elf_of("/proc/self/exe");
    ImageLibraries with_path(root, "/opt/own", *user);
    ImageLibraries without(root, "", *user);
    EXPECT_NE(with_path.find("libmine.so.1"), nullptr);
    EXPECT_EQ(without.find("libmine.so.1"), nullptr);
    EXPECT_NE(without.find("liblink.so.1"), nullptr);
    EXPECT_EQ(without.find("libaway.so.1"), nullptr);
    EXPECT_EQ(without.find("libtext.so.1"), nullptr);
    EXPECT_EQ(without.find("libc.so.6"), nullptr);
    ElfObject other = *user;
    other.machine = 1;
    ImageLibraries foreign(root, "/opt/own", other);
    EXPECT_EQ(foreign.find("libmine.so.1"), nullptr);
}

}  // namespace
}  // namespace batchai::node
