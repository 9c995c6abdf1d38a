// SPDX-License-Identifier: GPL-2.0-or-later
#include <gtest/gtest.h>

#include "plan/plan_file.hpp"
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
    site.storage_accounts["acct"] = {"/srv/%s/files", "", true, {}, {}, {}};
    site.file_servers["nfs"] = {"/export"};
    site.named_mounts["lustre"] = {"/lustre", true};
    return site;
}

// An account whose shares are an SMB server's and whose containers are on WebDAV.
site::Site site_with_servers() {
    site::Site site;
    site.source = "/etc/batchai/site.lua";
    site::StorageAccount& account = site.storage_accounts["acct"];
    account.file_share_remote = {"smb", "%s", {{"port", "4455"}}, "pass"};
    account.blob_container_remote = {
        "webdav", "data/%s", {{"url", "http://dav/%u"}, {"user", "%u"}}, "pass"};
    account.credentials_file = "/etc/batchai/keys/%u/acct";
    return site;
}

std::string with_key(std::string_view more = {}) {
    return fmt::format(R"("azureFileShares": [{{"azureFileUrl":
        "https://acct.files.example/share/a/b", "relativeMountPath": "s",
        "credentials": {{"accountKey": "hush=="}}{}}}])",
                       more);
}

std::string option_of(const RemoteVolume& remote, std::string_view name) {
    for (const Variable& option : remote.options) {
        if (option.name == name) return option.value;
    }
    return "(none)";
}

job::MountVolumes volumes_of(std::string_view volumes) {
    return job::parse(fmt::format("{{\"properties\": {{{}}}}}", job_with(volumes)))
        .spec.value()
        .mount_volumes;
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

TEST(Mounts, OpenTheSitesServerWithTheJobsKey) {
    const auto made = planned(job_with(with_key(R"(, "fileMode": "0640")")), site_with_servers());
    ASSERT_TRUE(made.plan) << faults(made);
    const Mount& mount = made.plan->mounts.front();
    EXPECT_TRUE(mount.source.empty());
    ASSERT_TRUE(mount.remote);
    EXPECT_EQ(mount.remote->backend, "smb");
    EXPECT_EQ(mount.remote->path, "share/a/b");
    EXPECT_EQ(option_of(*mount.remote, "host"), "acct.files.example");
    EXPECT_EQ(option_of(*mount.remote, "port"), "4455");
    EXPECT_EQ(option_of(*mount.remote, "user"), "acct");
    EXPECT_EQ(mount.remote->secret_option, "pass");
    EXPECT_EQ(mount.remote->secret_name, "mountVolumes/azureFileShares/0");
    EXPECT_EQ(mount.remote->file_mode, 0640);
    EXPECT_EQ(mount.remote->directory_mode, 0777);
    ASSERT_EQ(made.mount_secrets.size(), 1U);
    EXPECT_EQ(made.mount_secrets.front(), (Variable{"mountVolumes/azureFileShares/0", "hush=="}));
    EXPECT_EQ(to_json(*made.plan).find("hush"), std::string::npos);
}

TEST(Mounts, OpenTheSitesServerWithTheSitesKey) {
    const auto made = planned(job_with(R"("azureBlobFileSystems": [{"accountName": "acct",
        "containerName": "c", "relativeMountPath": "b", "mountOptions": "-o ro"}])"),
                              site_with_servers());
    ASSERT_TRUE(made.plan) << faults(made);
    const Mount& mount = made.plan->mounts.front();
    ASSERT_TRUE(mount.remote);
    EXPECT_EQ(mount.remote->path, "data/c");
    EXPECT_EQ(option_of(*mount.remote, "url"), "http://dav/ada");
    EXPECT_EQ(option_of(*mount.remote, "user"), "ada");
    EXPECT_EQ(mount.remote->credentials_file, "/etc/batchai/keys/ada/acct");
    EXPECT_TRUE(mount.remote->secret_name.empty());
    EXPECT_TRUE(mount.read_only);
}

TEST(Mounts, SayThatAKeyIsMissing) {
    auto site = site_with_servers();
    site.storage_accounts["acct"].credentials_file.clear();
    EXPECT_EQ(faults(planned(job_with(share("s")), site)),
              "E121 there is no key for storage account acct");
}

TEST(Mounts, OpenAzureItselfWhereTheSiteWantsIt) {
    site::Site site;
    site.other_accounts_in_azure = true;
    const auto made = planned(job_with(with_key() + R"(, "azureBlobFileSystems": [{
        "accountName": "acct", "containerName": "c", "relativeMountPath": "b",
        "credentials": {"accountKey": "hush=="}}])"),
                              site);
    ASSERT_TRUE(made.plan) << faults(made);
    ASSERT_EQ(made.plan->mounts.size(), 2U);
    const RemoteVolume& container = made.plan->mounts[1].remote.value();
    EXPECT_EQ(container.backend, "azureblob");
    EXPECT_EQ(container.path, "c");
    EXPECT_EQ(option_of(container, "account"), "acct");
    EXPECT_EQ(container.secret_option, "key");
}

TEST(Mounts, KeepLogsOfRemoteStorageWhereTheyCanBeFollowed) {
    const auto parsed = job::parse(fmt::format(R"({{"properties": {{"nodeCount": 1,
        "stdOutErrPathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/s/logs",
        "customMpiSettings": {{"commandLine": "true"}}, "mountVolumes": {{{}}}}}}})",
                                               with_key()));
    const auto made =
        make(parsed.spec.value(), parsed.positions, site_with_servers(), test_inputs());
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->directories.stdouterr_host, "/home/ada/.batchai/jobs/1/stdouterr");
    const auto place = made.plan->place_of(made.plan->directories.stdouterr);
    ASSERT_EQ(place.mount, &made.plan->mounts.front());
    EXPECT_TRUE(place.rest.starts_with("logs/sub/group/")) << place.rest;
}

TEST(Mounts, HaveThoseOfTheClusterBelowTheClustersRoot) {
    auto inputs = test_inputs();
    inputs.cluster = ClusterView{"nc6", "", {}, volumes_of(share("shared", "data"))};
    const auto made = planned(job_with(share("own", "data")), {}, inputs);
    ASSERT_TRUE(made.plan) << faults(made);
    ASSERT_EQ(made.plan->mounts.size(), 2U);
    EXPECT_EQ(made.plan->mounts[0].scope, MountScope::cluster);
    const auto& directories = made.plan->directories;
    EXPECT_EQ(made.plan->host_path(directories.mount_root + "/data/x"),
              "/home/ada/.batchai/storage/acct/file-shares/shared/x");
    EXPECT_EQ(made.plan->host_path(directories.job_mount_root + "/data/x"),
              "/home/ada/.batchai/storage/acct/file-shares/own/x");
}

TEST(Mounts, NameTheClusterWhoseMountIsAtFault) {
    auto inputs = test_inputs();
    inputs.cluster =
        ClusterView{"nc6", "", {}, volumes_of(R"("fileServers": [{"fileServer": {"id": "x"},
            "relativeMountPath": "n"}])")};
    EXPECT_EQ(faults(planned(small_job(), {}, inputs)),
              "E107 cluster \"nc6\": fileServers 1: this site has no file server \"x\"");
}

TEST(Mounts, FollowTheOptionsThatMeanSomethingHere) {
    const auto server = [](std::string_view options) {
        return planned(job_with(fmt::format(R"("fileServers": [{{"fileServer": {{"id": "nfs"}},
                "relativeMountPath": "n", "mountOptions": "{}"}}])",
                                            options)),
                       site_with_storage());
    };
    const auto made = server("-o vers=4,noexec --use-https=true rw");
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_TRUE(made.plan->mounts.front().no_execute);
    EXPECT_FALSE(made.plan->mounts.front().read_only);
    EXPECT_EQ(faults(made), "W203 these options have no effect: vers, use-https");
    EXPECT_TRUE(server("rw").plan->notices.empty());
    EXPECT_EQ(faults(server("ro,password=hush,suid")),
              "E120 \"mountOptions\" has unknown options: password, suid");
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
    Mount inner = plan.mounts.front();
    inner.source = "/inner";
    inner.target = "a/b";
    plan.mounts.push_back(inner);
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
