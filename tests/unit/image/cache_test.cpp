// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/cache.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <utime.h>

#include "scratch.hpp"

namespace batchai::image {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::string digest(char digit) {
    return "sha256:" + std::string(64, digit);
}

// An entry of so many bytes that was used at a time.
void put(const Scratch& scratch, char digit, std::size_t bytes, std::time_t used) {
    const std::string file =
        scratch.write(std::string(64, digit) + ".squashfs", std::string(bytes, 'x'));
    chmod(file.c_str(), 0444);
    const utimbuf times{used, used};
    utime(file.c_str(), &times);
}

std::vector<std::string> digits_of(const std::vector<Entry>& entries) {
    std::vector<std::string> out;
    out.reserve(entries.size());
    for (const Entry& entry : entries)
        out.push_back(entry.digest.substr(7, 1));
    return out;
}

TEST(Cache, ListsEntriesByLastUseAndPassesOverWhatIsNone) {
    const Scratch scratch;
    put(scratch, 'a', 10, 100);
    put(scratch, 'b', 20, 300);
    scratch.write(std::string(64, 'a') + ".json", R"({"image": "debian:12"})");
    scratch.write("notes.squashfs", "x");
    std::filesystem::create_symlink("/etc/passwd", scratch / (std::string(64, 'c') + ".squashfs"));
    const auto found = entries(scratch.path(), false);
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_THAT(digits_of(*found), ElementsAre("b", "a"));
    EXPECT_EQ(found->back().image, "debian:12");
    EXPECT_EQ(found->back().bytes, 10);
    EXPECT_THAT(entries(scratch / "none", false).value(), IsEmpty());
}

TEST(Cache, KeepsImagesOfRegistriesAndOfFilesApart) {
    const Scratch scratch;
    const std::string digits(64, 'a');
    for (const std::string& name : {"sha256:" + digits, local_digest("sha256:" + digits)}) {
        EXPECT_EQ(digest_of_stem(entry_stem(name)), name);
        scratch.write(entry_stem(name) + ".squashfs", "x");
    }
    const auto found = entries(scratch.path(), false).value();
    EXPECT_THAT(found, UnorderedElementsAre(Field(&Entry::digest, "sha256:" + digits),
                                            Field(&Entry::digest, "local:" + digits)));
    for (const Entry& entry : found)
        EXPECT_EQ(entry.path, entry_path(scratch.path(), entry.digest));
    EXPECT_EQ(digest_of_stem("local-" + digits.substr(1)), "");
    EXPECT_EQ(digest_of_stem("local-local-" + digits), "");
    EXPECT_TRUE(same_digits("sha256:" + digits, "local:" + digits));
}

TEST(Cache, DoesNotBelieveWhatOthersCanWrite) {
    const Scratch scratch;
    put(scratch, 'a', 1, 1);
    const std::string file = entry_path(scratch.path(), digest('a'));
    EXPECT_TRUE(is_there(file).value());
    EXPECT_FALSE(is_there(entry_path(scratch.path(), digest('b'))).value());
    chmod(file.c_str(), 0666);
    const auto open_file = is_there(file);
    ASSERT_FALSE(open_file);
    EXPECT_EQ(open_file.error().where, file);
    EXPECT_THAT(open_file.error().what, HasSubstr("others (mode 0666)"));
    chmod(file.c_str(), 0444);
    chmod(scratch.path().c_str(), 0777);
    EXPECT_THAT(is_there(file).error().where, scratch.path());
    EXPECT_THAT(entries(scratch.path(), false).error().hint,
                HasSubstr("chmod go-w " + scratch.path()));
}

TEST(Cache, ALinkIsNoEntry) {
    const Scratch scratch;
    const std::string target = scratch.write("target", "x");
    const std::string link = entry_path(scratch.path(), digest('a'));
    std::filesystem::create_symlink(target, link);
    EXPECT_THAT(is_there(link).error().what, HasSubstr("is not a file"));
}

TEST(Cache, TheSharedDirectoryIsLookedAtFirst) {
    const Scratch own;
    const Scratch shared;
    put(shared, 'a', 1, 1);
    const Places places{.own = own.path(), .shared = shared.path(), .shared_owner = 4711};
    EXPECT_EQ(choose_root(places, digest('a')).value(),
              (Root{.path = entry_path(shared.path(), digest('a')), .owner = 4711}));
    EXPECT_EQ(choose_root(places, digest('b')).value(),
              (Root{.path = entry_path(own.path(), digest('b'))}));
}

// Run as root, as the test cluster's build is: files can be given to others.
TEST(Cache, OnlyTheOwnerWhomTheSiteNamesMayFillItForOthers) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to give files away";
    constexpr int owner = 4711;
    const Scratch shared;
    put(shared, 'a', 1, 1);
    const std::string file = entry_path(shared.path(), digest('a'));
    ASSERT_EQ(chown(file.c_str(), owner, static_cast<gid_t>(-1)), 0);
    EXPECT_THAT(is_there(file).error().what, HasSubstr("belongs to user 4711"));
    EXPECT_FALSE(is_there(file, owner + 1));
    EXPECT_TRUE(is_there(file, owner).value());
    ASSERT_EQ(chmod(file.c_str(), 0464), 0);
    EXPECT_THAT(is_there(file, owner).error().what, HasSubstr("can be written to by others"));
    ASSERT_EQ(chmod(file.c_str(), 0444), 0);
    ASSERT_EQ(chown(shared.path().c_str(), 4712, static_cast<gid_t>(-1)), 0);
    EXPECT_THAT(is_there(file, owner).error().what, HasSubstr("belongs to user 4712"));
}

TEST(Cache, WhatWasNotUsedForLongestGoesFirstAndNothingInUse) {
    const Scratch scratch;
    put(scratch, 'a', 100, 100);
    put(scratch, 'b', 100, 200);
    put(scratch, 'c', 100, 300);
    const auto all = entries(scratch.path(), false).value();
    EXPECT_THAT(digits_of(surplus(all, 300, {})), IsEmpty());
    EXPECT_THAT(digits_of(surplus(all, 299, {})), ElementsAre("a"));
    EXPECT_THAT(digits_of(surplus(all, 100, {})), ElementsAre("a", "b"));
    EXPECT_THAT(digits_of(surplus(all, 199, {digest('a')})), ElementsAre("b", "c"));
    EXPECT_THAT(digits_of(surplus(all, 0, {digest('a'), digest('b'), digest('c')})), IsEmpty());
}

TEST(Cache, AsksWhatIsInUseOnlyWhenSomethingHasToGo) {
    const Scratch scratch;
    put(scratch, 'a', 100, 100);
    put(scratch, 'b', 100, 200);
    put(scratch, 'c', 100, 300);
    int asked = 0;
    const InUse in_use = [&] {
        ++asked;
        return std::set<std::string>{digest('a')};
    };
    shrink(scratch.path(), 300, digest('c'), in_use);
    shrink(scratch.path(), 0, digest('c'), in_use);
    EXPECT_EQ(asked, 0);
    shrink(scratch.path(), 250, digest('c'), in_use);
    EXPECT_EQ(asked, 1);
    EXPECT_THAT(digits_of(entries(scratch.path(), false).value()), ElementsAre("c", "a"));
}

// Breaks when "not known" is taken for "none".
TEST(Cache, RemovesNothingWhileItIsNotKnownWhatIsInUse) {
    const Scratch scratch;
    put(scratch, 'a', 100, 100);
    put(scratch, 'b', 100, 200);
    shrink(scratch.path(), 100, digest('b'),
           []() -> base::Result<std::set<std::string>> { return base::fail("cannot be read"); });
    EXPECT_THAT(digits_of(entries(scratch.path(), false).value()), ElementsAre("b", "a"));
}

TEST(Cache, PlacesNameTheUser) {
    site::Site site;
    EXPECT_EQ(places_of(site, "/home/ada/.batchai", "ada").own, "/home/ada/.batchai/images");
    EXPECT_EQ(places_of(site, "/h", "ada").limit, std::int64_t{50} << 30);
    site.image_directory = "/scratch/%u/images";
    EXPECT_EQ(places_of(site, "/h", "ada").own, "/scratch/ada/images");
}

}  // namespace
}  // namespace batchai::image
