// SPDX-License-Identifier: GPL-2.0-or-later
#include "storage/places.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/base/scratch.hpp"

namespace batchai::storage {
namespace {

namespace fs = std::filesystem;
using site::StorageKind;
using site::StoragePlace;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> names(const StoragePlace& place) {
    std::vector<std::string> out;
    const auto stores = stores_of(place);
    if (!stores) return {stores.error().text()};
    for (const auto& entry : *stores)
        out.push_back(entry.name);
    return out;
}

TEST(StoragePlaces, AreWhereJobsFindThem) {
    site::Site site;
    auto place = site::storage_place(site, "/home/a/storage", "acct", StorageKind::file_shares);
    EXPECT_EQ(place.where, StoragePlace::Where::launcher);
    EXPECT_EQ(place.directory("data"), "/home/a/storage/acct/file-shares/data");
    EXPECT_EQ(site::storage_place(site, "/s", "acct", StorageKind::containers).directory("data"),
              "/s/acct/containers/data");
    site.storage_accounts["acct"].file_share_directory = "/srv/%s/files";
    site.storage_accounts["acct"].read_only = true;
    place = site::storage_place(site, "/s", "acct", StorageKind::file_shares);
    EXPECT_EQ(place.where, StoragePlace::Where::site);
    EXPECT_TRUE(place.read_only);
    EXPECT_EQ(place.directory("data"), "/srv/data/files");
    EXPECT_EQ(site::storage_place(site, "/s", "acct", StorageKind::containers).where,
              StoragePlace::Where::nowhere);
    site.other_accounts_in_azure = true;
    EXPECT_EQ(site::storage_place(site, "/s", "other", StorageKind::containers).where,
              StoragePlace::Where::azure);
}

TEST(StoragePlaces, OfTheLauncherAreMadeListedAndRemoved) {
    const Scratch scratch;
    StoragePlace place;
    place.where = StoragePlace::Where::launcher;
    place.parent = (scratch.path() / "acct/file-shares").string();
    EXPECT_THAT(names(place), IsEmpty());
    EXPECT_EQ(create_store(place, "data").value(), true);
    EXPECT_EQ(create_store(place, "data").value(), false);
    EXPECT_EQ(create_store(place, "more").value(), true);
    EXPECT_THAT(names(place), ElementsAre("data", "more"));
    std::ofstream(place.directory("data") + "/file") << "x";
    EXPECT_EQ(remove_store(place, "data").value(), true);
    EXPECT_EQ(remove_store(place, "data").value(), false);
    const auto missing = open_store(place, "mor", "share");
    ASSERT_FALSE(missing);
    EXPECT_THAT(missing.error().text(), HasSubstr("did you mean \"more\"?"));
}

TEST(StoragePlaces, OfTheSiteMayHaveTheNameInsideOfThePath) {
    const Scratch scratch;
    StoragePlace place;
    place.where = StoragePlace::Where::site;
    place.pattern = (scratch.path() / "share-%s/files").string();
    fs::create_directories(scratch.path() / "share-one/files");
    fs::create_directories(scratch.path() / "share-two/other");
    fs::create_directories(scratch.path() / "unrelated/files");
    EXPECT_THAT(names(place), ElementsAre("one"));
    EXPECT_EQ(create_store(place, "three").value(), true);
    EXPECT_TRUE(fs::is_directory(scratch.path() / "share-three/files"));
    EXPECT_EQ(remove_store(place, "three").value(), true);
    place.pattern = (scratch.path() / "none/%s").string();
    EXPECT_FALSE(create_store(place, "x")) << "the site's directory itself is not made";
    place.pattern = (scratch.path() / "%s/%s").string();
    EXPECT_THAT(names(place), ElementsAre(HasSubstr("cannot be listed")));
}

// Breaks when the files of a share are deleted before it is known whether the share may be.
TEST(StoragePlaces, KeepTheFilesOfAShareThatMayNotBeDeleted) {
    if (geteuid() == 0) GTEST_SKIP() << "root may delete everything";
    const Scratch scratch;
    StoragePlace place;
    place.where = StoragePlace::Where::site;
    place.pattern = (scratch.path() / "shares/%s").string();
    fs::create_directories(scratch.path() / "shares/data");
    std::ofstream(scratch.path() / "shares/data/file") << "x";
    fs::permissions(scratch.path() / "shares", fs::perms::owner_read | fs::perms::owner_exec);
    EXPECT_FALSE(remove_store(place, "data"));
    EXPECT_TRUE(fs::exists(scratch.path() / "shares/data/file"));
    fs::permissions(scratch.path() / "shares", fs::perms::owner_all);
}

TEST(StoragePlaces, TakeNoNameThatIsMoreThanOneComponent) {
    for (const char* name : {"", ".", "..", "a/b", ".hidden", "a b", "a\n", "%s", "a\\b"})
        EXPECT_FALSE(check_store_name(name, "share")) << name;
    for (const char* name : {"data", "my-share", "My_Share.1"})
        EXPECT_TRUE(check_store_name(name, "share")) << name;
}

}  // namespace
}  // namespace batchai::storage
