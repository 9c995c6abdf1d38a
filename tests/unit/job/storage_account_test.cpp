// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/schema/storage_account.hpp"

#include <string>

#include <gtest/gtest.h>

#include "job/parse.hpp"
#include "job_text.hpp"

namespace batchai::job::test {
namespace {

Parsed with_placeholders() {
    return parse(with_properties(R"("mountVolumes": {"azureFileShares": [{
  "azureFileUrl": "https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/s/d",
  "credentials": {"accountKey": "<AZURE_BATCHAI_STORAGE_KEY>"},
  "relativeMountPath": "a"}], "azureBlobFileSystems": [{
  "accountName": "<AZURE_BATCHAI_STORAGE_ACCOUNT>", "containerName": "c",
  "relativeMountPath": "b"}]},
"environmentVariables": [{"name": "A", "value": "<AZURE_BATCHAI_STORAGE_ACCOUNT>"}])"));
}

TEST(StorageAccount, ReplacesThePlaceholdersOfMountsOnly) {
    Parsed parsed = with_placeholders();
    ASSERT_TRUE(parsed.spec.has_value());
    EXPECT_TRUE(apply_storage_account(*parsed.spec, StorageAccount{"acct", "key"}, parsed.positions)
                    .empty());
    const MountVolumes& mounts = parsed.spec->mount_volumes;
    EXPECT_EQ(mounts.azure_file_shares[0].azure_file_url, "https://acct.file.core.windows.net/s/d");
    EXPECT_EQ(mounts.azure_file_shares[0].account_name, "acct");
    EXPECT_EQ(mounts.azure_file_shares[0].credentials->account_key, "key");
    EXPECT_EQ(mounts.azure_blob_file_systems[0].account_name, "acct");
    EXPECT_EQ(parsed.spec->environment_variables[0].value, account_placeholder);
}

TEST(StorageAccount, WithoutAKeyLeavesTheCredentialsToTheSite) {
    Parsed parsed = with_placeholders();
    ASSERT_TRUE(parsed.spec.has_value());
    EXPECT_TRUE(
        apply_storage_account(*parsed.spec, StorageAccount{"acct", {}}, parsed.positions).empty());
    EXPECT_FALSE(parsed.spec->mount_volumes.azure_file_shares[0].credentials.has_value());
}

TEST(StorageAccount, ThatIsNotConfiguredIsAskedForInTheWordsOfTheService) {
    Parsed parsed = with_placeholders();
    ASSERT_TRUE(parsed.spec.has_value());
    const auto faults = apply_storage_account(*parsed.spec, std::nullopt, parsed.positions);
    ASSERT_EQ(faults.size(), 3U);
    EXPECT_EQ(faults[0].message,
              "Please configure Azure Storage account name via AZURE_BATCHAI_STORAGE_ACCOUNT or "
              "provide storage_account value in batchai section of your az configuration file.");
    EXPECT_EQ(faults[0].position.line, 6U);
    EXPECT_EQ(faults[1].message,
              "Please configure Azure Storage account key via AZURE_BATCHAI_STORAGE_KEY or provide "
              "storage_key value in batchai section of your az configuration file.");
    EXPECT_EQ(faults[1].position.line, 7U);
    EXPECT_EQ(faults[2].position.line, 9U);
    EXPECT_TRUE(has_error(faults));
}

TEST(StorageAccount, WithANameThatBreaksTheUrlIsRefused) {
    Parsed parsed = with_placeholders();
    ASSERT_TRUE(parsed.spec.has_value());
    const auto faults =
        apply_storage_account(*parsed.spec, StorageAccount{"../up", {}}, parsed.positions);
    ASSERT_FALSE(faults.empty());
    EXPECT_EQ(faults[0].message,
              "Ill-formed Azure File URL \"https://../up.file.core.windows.net/s/d\"");
}

TEST(StorageAccount, ComesFromTheUrlWhenTheFileNamesNone) {
    Parsed parsed = parse(with_properties(
        R"("mountVolumes": {"azureFileShares": [{"relativeMountPath": "a",
           "azureFileUrl": "https://mine.file.core.windows.net/s"}]})"));
    ASSERT_TRUE(parsed.spec.has_value());
    EXPECT_TRUE(apply_storage_account(*parsed.spec, std::nullopt, parsed.positions).empty());
    EXPECT_EQ(parsed.spec->mount_volumes.azure_file_shares[0].account_name, "mine");
}

TEST(AzureFileUrl, IsTakenApart) {
    EXPECT_EQ(azure_file_location("https://a.file.core.windows.net/share"),
              (AzureFileLocation{"a", "share", ""}));
    EXPECT_EQ(azure_file_location("https://a.file.core.windows.net/share/x/y/"),
              (AzureFileLocation{"a", "share", "x/y"}));
}

TEST(AzureFileUrl, ThatLeavesItsShareOrHasNoneIsIllFormed) {
    for (const char* url :
         {"", "share", "https://", "https://host/share", "https://a.b", "https://a.b/",
          "https://.b/share", "https://a.b/..", "https://a.b/s/../t", "https://a.b/s//t",
          "https://a.b/s/.", "https://a.b/s\\t", "https://a.b/s?x=1", "https://a/x.b/s",
          "https://a b.c/s", "ftp://a.b/s", "https://a.b/s\n"}) {
        EXPECT_FALSE(azure_file_location(url).has_value()) << url;
    }
}

}  // namespace
}  // namespace batchai::job::test
