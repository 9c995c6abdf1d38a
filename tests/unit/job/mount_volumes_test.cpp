// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstddef>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "job/parse.hpp"
#include "job/schema/storage_account.hpp"

namespace batchai::job {

namespace {

constexpr const char* share =
    R"({"azureFileShares": [{"azureFileUrl": "https://mine.file.core.windows.net/data",
        "credentials": {"accountKey": "<AZURE_BATCHAI_STORAGE_KEY>"},
        "relativeMountPath": "data"}]})";

}  // namespace

TEST(MountVolumes, AreReadWithoutAJobAroundThem) {
    const auto parsed = parse_mount_volumes(share);
    ASSERT_TRUE(parsed.spec);
    ASSERT_EQ(parsed.spec->mount_volumes.azure_file_shares.size(), 1U);
    EXPECT_EQ(parsed.spec->mount_volumes.azure_file_shares[0].relative_mount_path, "data");
    EXPECT_TRUE(parsed.diagnostics.empty());
}

TEST(MountVolumes, KeepThePlacesThatAStorageAccountIsMissedAt) {
    auto parsed = parse_mount_volumes(share);
    ASSERT_TRUE(parsed.spec);
    const auto faults = apply_storage_account(*parsed.spec, std::nullopt, parsed.positions);
    ASSERT_EQ(faults.size(), 1U);
    EXPECT_EQ(faults[0].code, "E027");
    EXPECT_EQ(faults[0].position.line, 2U);
}

TEST(MountVolumes, AreCheckedAsThoseOfAJobAre) {
    for (const char* text :
         {"", "[]", "{", R"({"azureFileShare": []})", R"({"azureFileShares": [{}]})",
          R"({"unmanagedFileSystems": [{"mountCommand": "a", "relativeMountPath": "x"},
                                       {"mountCommand": "b", "relativeMountPath": "x/y"}]})"}) {
        const auto parsed = parse_mount_volumes(text);
        EXPECT_FALSE(parsed.spec) << text;
        EXPECT_TRUE(has_error(parsed.diagnostics)) << text;
    }
}

// Breaks when a kind of mount is parsed and then forgotten by what goes through all of them.
TEST(MountVolumes, AreVisitedKindByKind) {
    const auto parsed = parse_mount_volumes(R"({
        "unmanagedFileSystems": [{"mountCommand": "scratch", "relativeMountPath": "d"}],
        "fileServers": [{"fileServer": {"id": "nfs"}, "relativeMountPath": "c"}],
        "azureBlobFileSystems": [
            {"accountName": "mine", "containerName": "x", "relativeMountPath": "b0"},
            {"accountName": "mine", "containerName": "y", "relativeMountPath": "b1"}],
        "azureFileShares": [{"azureFileUrl": "https://mine.file.core.windows.net/data",
                             "relativeMountPath": "a"}]})");
    ASSERT_TRUE(parsed.spec);
    std::string seen;
    each_volume(parsed.spec->mount_volumes,
                [&]<typename Volume>(const Volume& volume, std::size_t index) {
                    seen += fmt::format("{} {} {} {}\n", Volume::key, index,
                                        volume.relative_mount_path, mount_error(Volume::key));
                });
    EXPECT_EQ(seen,
              "azureFileShares 0 a AZFMountError\n"
              "azureBlobFileSystems 0 b0 BFSMountError\n"
              "azureBlobFileSystems 1 b1 BFSMountError\n"
              "fileServers 0 c MountError\n"
              "unmanagedFileSystems 0 d MountError\n");
}

}  // namespace batchai::job
