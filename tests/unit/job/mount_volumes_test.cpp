// SPDX-License-Identifier: GPL-2.0-or-later
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

}  // namespace batchai::job
