// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "planned.hpp"

namespace batchai::plan {

namespace {

std::string job_with(std::string_view volumes) {
    return small_job(fmt::format(R"(, "mountVolumes": {{{}}})", volumes));
}

std::string share(std::string_view place, std::string_view target = "data") {
    return fmt::format(R"("azureFileShares": [{{"azureFileUrl":
        "https://acct.file.core.windows.net/{}", "relativeMountPath": "{}"}}])",
                       place, target);
}

site::Site site_with_storage() {
    site::Site site;
    site.source = "/etc/batchai/site.lua";
    site.storage_accounts["acct"] = {"/srv/%s/files", "", true};
    site.file_servers["nfs"] = {"/export"};
    site.named_mounts["lustre"] = {"/lustre", true};
    return site;
}

}  // namespace

TEST(Mounts, UseTheDefaultStorageWithoutASite) {
    const auto made = planned(job_with(share("myshare/sub")));
    ASSERT_TRUE(made.plan) << faults(made);
    ASSERT_EQ(made.plan->mounts.size(), 1U);
    const Mount& mount = made.plan->mounts.front();
    EXPECT_EQ(mount.source, "/home/ada/.batchai/storage/acct/file-shares/myshare/sub");
    EXPECT_TRUE(mount.create_source);
    EXPECT_FALSE(mount.read_only);
    EXPECT_TRUE(made.plan->notices.empty());
}

TEST(Mounts, UseTheSitesDirectoryOfTheAccount) {
    const auto made = planned(job_with(share("myshare/sub")), site_with_storage());
    ASSERT_TRUE(made.plan) << faults(made);
    const Mount& mount = made.plan->mounts.front();
    EXPECT_EQ(mount.source, "/srv/myshare/files/sub");
    EXPECT_FALSE(mount.create_source);
    EXPECT_TRUE(mount.read_only);
}

TEST(Mounts, SayThatAnAccountIsNotTheSites) {
    auto site = site_with_storage();
    site.storage_accounts["other"] = std::exchange(site.storage_accounts["acct"], {});
    site.storage_accounts.erase("acct");
    const auto made = planned(job_with(share("myshare")), site);
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_TRUE(made.plan->mounts.front().create_source);
    ASSERT_EQ(made.plan->notices.size(), 1U);
    EXPECT_NE(made.plan->notices[0].find("acct is not in /etc/batchai/site.lua"),
              std::string::npos);
}

TEST(Mounts, RefuseContainersOfAnAccountThatHasOnlyShares) {
    const auto made = planned(job_with(R"("azureBlobFileSystems": [{"accountName": "acct",
                "containerName": "c", "relativeMountPath": "b"}])"),
                              site_with_storage());
    EXPECT_EQ(faults(made),
              "E110 storage account acct has no blob_container_directory in "
              "/etc/batchai/site.lua");
}

TEST(Mounts, FindFileServersByTheLastPartOfTheirId) {
    const auto made = planned(
        job_with(R"("fileServers": [{"fileServer": {"id": "/subscriptions/s/fileServers/nfs"},
            "sourceDirectory": "/a/b", "relativeMountPath": "n", "mountOptions": "ro,noatime"}])"),
        site_with_storage());
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->mounts.front().source, "/export/a/b");
    EXPECT_TRUE(made.plan->mounts.front().read_only);
    EXPECT_EQ(faults(planned(job_with(R"("fileServers": [{"fileServer": {"id": "x"},
            "relativeMountPath": "n"}])"))),
              "E107 this site has no file server \"x\"");
}

TEST(Mounts, KeepTheFileServersSourceBelowIt) {
    const auto made = planned(job_with(R"("fileServers": [{"fileServer": {"id": "nfs"},
            "sourceDirectory": "a/../../etc", "relativeMountPath": "n"}])"),
                              site_with_storage());
    EXPECT_FALSE(made.plan);
    EXPECT_EQ(made.diagnostics.front().severity, job::Severity::error);
}

TEST(Mounts, TakeMountCommandAsANameOnly) {
    const auto unmanaged = [](std::string_view command) {
        return planned(job_with(fmt::format(R"("unmanagedFileSystems": [{{"mountCommand": "{}",
                "relativeMountPath": "u"}}])",
                                            command)),
                       site_with_storage());
    };
    const auto made = unmanaged(" lustre ");
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->mounts.front().source, "/lustre");
    EXPECT_TRUE(made.plan->mounts.front().read_only);
    const auto refused = unmanaged("mount -o password=hush lustre");
    EXPECT_FALSE(refused.plan);
    EXPECT_EQ(refused.diagnostics.front().code, "E108");
    EXPECT_EQ((refused.diagnostics.front().message + refused.diagnostics.front().hint).find("hush"),
              std::string::npos);
}

TEST(Mounts, RefuseAPlaceholderThatIsLeft) {
    const auto made = planned(job_with(R"("azureFileShares": [{"azureFileUrl":
            "https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/s",
            "relativeMountPath": "s"}])"));
    EXPECT_FALSE(made.plan);
    ASSERT_EQ(made.diagnostics.size(), 1U);
    const std::string text = made.diagnostics[0].message + made.diagnostics[0].hint;
    EXPECT_NE(text.find("AZURE_BATCHAI_STORAGE_ACCOUNT"), std::string::npos);
}

TEST(Mounts, MapPathsByWholeComponents) {
    auto plan = planned(job_with(share("myshare", "a"))).plan.value();
    const std::string root = plan.directories.job_mount_root;
    const std::string source = plan.mounts.front().source;
    plan.mounts.push_back({"fileServers", "n", "/inner", "a/b", MountScope::job, false, false});
    EXPECT_EQ(plan.host_path(root + "/a"), source);
    EXPECT_EQ(plan.host_path(root + "//a/./x/"), source + "/x");
    EXPECT_EQ(plan.host_path(root + "/a/b/c"), "/inner/c");
    EXPECT_EQ(plan.host_path(root + "/a/bc"), source + "/bc");
    EXPECT_EQ(plan.host_path(root + "/ab"), std::nullopt);
    EXPECT_EQ(plan.host_path(root + "/a/../ab"), std::nullopt);
    EXPECT_EQ(plan.host_path(plan.directories.job_temp), std::nullopt);
    EXPECT_EQ(plan.host_path("/tmp/x"), std::nullopt);
    EXPECT_EQ(plan.host_path("/tmpx"), "/tmpx");
    EXPECT_EQ(plan.host_path("relative"), std::nullopt);
    EXPECT_EQ(plan.host_path(plan.directories.shared_job_temp), plan.directories.shared_job_temp);
}

}  // namespace batchai::plan
