// SPDX-License-Identifier: GPL-2.0-or-later
#include "site/site.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

namespace batchai::site {

class SiteTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string name =
            (std::filesystem::temp_directory_path() / "batchai-site.XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        directory_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    base::Result<Site> load_text(const std::string& text) const {
        const auto path = directory_ / "site.lua";
        std::ofstream(path) << text;
        return load(path);
    }
    // The message for a file that must be refused.
    std::string refusal(const std::string& text) const {
        const auto site = load_text(text);
        if (site) return "(accepted)";
        EXPECT_EQ(site.error().exit_code, base::ExitCode::bad_job_file);
        EXPECT_EQ(site.error().where, (directory_ / "site.lua").string());
        return site.error().what;
    }

    std::filesystem::path directory_;
};

TEST_F(SiteTest, AnEmptyTableMeansTheDefaults) {
    const auto site = load_text("return {}");
    ASSERT_TRUE(site) << site.error().text();
    EXPECT_EQ(site->node_directory, "/tmp");
    EXPECT_TRUE(site->any_vm_size);
    EXPECT_TRUE(site->exclusive);
    EXPECT_FALSE(site->note_failed_nodes);
    EXPECT_EQ(site->source, (directory_ / "site.lua").string());
}

TEST_F(SiteTest, ReadsStorageThatRcloneOpens) {
    const auto site = load_text(R"(return {
        other_accounts_in_azure = true, mount_timeout = 5, flush_timeout = 0,
        storage_accounts = { mine = {
            file_share_remote = { type = "smb", host = "10.0.0.9", port = "4455" },
            blob_container_remote = { type = "webdav", url = "http://dav/%u", path = "data/%s" },
            credentials_file = "/etc/batchai/keys/%u" } } })");
    ASSERT_TRUE(site) << site.error().text();
    const StorageAccount& account = site->storage_accounts.at("mine");
    ASSERT_TRUE(account.file_share_remote && account.blob_container_remote);
    EXPECT_EQ(*account.file_share_remote,
              (RemoteStorage{"smb", "%s", {{"host", "10.0.0.9"}, {"port", "4455"}}, "pass"}));
    EXPECT_EQ(*account.blob_container_remote,
              (RemoteStorage{"webdav", "data/%s", {{"url", "http://dav/%u"}}, "pass"}));
    EXPECT_EQ(account.credentials_file, "/etc/batchai/keys/%u");
    EXPECT_TRUE(site->other_accounts_in_azure);
    EXPECT_EQ(site->mount_timeout, 5);
    EXPECT_EQ(site->flush_timeout, 0);
}

TEST_F(SiteTest, RefusesSecretsInTheFileThatEverybodyReads) {
    const auto account = [&](const std::string& entries) {
        return refusal("return { storage_accounts = { mine = { " + entries + " } } }");
    };
    EXPECT_EQ(
        account(R"(file_share_remote = { type = "smb", pass = "hush" })"),
        "storage_accounts.mine.file_share_remote: pass is a secret, but everybody can read this "
        "file");
    EXPECT_EQ(account(R"(blob_container_remote = { url = "http://dav" })"),
              "storage_accounts.mine.blob_container_remote: has no type");
    EXPECT_EQ(account(R"(file_share_remote = { type = "smb", ["a=b"] = "" })"),
              "storage_accounts.mine.file_share_remote: \"a=b\" cannot be an option of rclone");
    EXPECT_EQ(account(R"(credentials_file = "keys")"),
              "storage_accounts.mine.credentials_file: is not an absolute path");
}

TEST_F(SiteTest, ReadsEveryKindOfValue) {
    const auto site = load_text(R"(
        local function gpu(n) return { partition = "gpu", gres = "gpu:" .. n, gpus = n } end
        return {
            node_directory = "/scratch", exclusive = false, any_vm_size = false,
            vm_sizes = { Standard_NC6 = gpu(1), standard_nc24 = gpu(4) },
            storage_accounts = { mine = { file_share_directory = "/data/%s", read_only = true } },
            file_servers = { nfs = { directory = "/nfs" } },
            named_mounts = { lustre = { directory = "/lustre" } },
            environment = { B = "2", A = "1" },
            image_directory = "/scratch/%u/images", shared_image_directory = "",
            image_cache_limit = 0, insecure_registries = { "Registry:5000" },
            image_entrypoint = true, inject_mpi_bridge = false,
        })");
    ASSERT_TRUE(site) << site.error().text();
    EXPECT_EQ(site->vm_sizes.at("STANDARD_NC24").gres, "gpu:4");
    EXPECT_EQ(site->vm_sizes.at("STANDARD_NC6").gpus, 1);
    EXPECT_TRUE(site->storage_accounts.at("mine").read_only);
    EXPECT_EQ(site->file_servers.at("nfs").directory, "/nfs");
    EXPECT_EQ(site->named_mounts.at("lustre").directory, "/lustre");
    EXPECT_FALSE(site->any_vm_size);
    EXPECT_EQ(site->environment.front().first, "A");
    EXPECT_EQ(site->image_directory, "/scratch/%u/images");
    EXPECT_EQ(site->shared_image_directory, "");
    EXPECT_EQ(site->image_cache_limit, 0);
    EXPECT_TRUE(site->insecure_registries.contains("registry:5000"));
    EXPECT_TRUE(site->image_entrypoint);
    EXPECT_FALSE(site->inject_mpi_bridge);
}

TEST_F(SiteTest, TakesNumbersInVariablesAsTheyAreWritten) {
    const auto site = load_text(R"(return {
        environment = { A = 0, B = -3, C = 3.0, D = 1e3, E = 0.5, F = "0", G = 9007199254740993, H = 1e300 } })");
    ASSERT_TRUE(site) << site.error().text();
    const std::vector<std::pair<std::string, std::string>> wanted{{"A", "0"},
                                                                  {"B", "-3"},
                                                                  {"C", "3"},
                                                                  {"D", "1000"},
                                                                  {"E", "0.5"},
                                                                  {"F", "0"},
                                                                  {"G", "9007199254740993"},
                                                                  {"H", "1e+300"}};
    EXPECT_EQ(site->environment, wanted);
    EXPECT_EQ(refusal("return { environment = { A = true } }"),
              "environment.A: is a boolean, must be a string or a number");
    EXPECT_EQ(refusal("return { environment = { A = {} } }"),
              "environment.A: is a table, must be a string");
}

TEST_F(SiteTest, TakesLongOptionsOfSbatchAndNoOthers) {
    const auto site = load_text(
        R"(return { vm_sizes = { BIG = { extra_options = { "--mem=0", "--contiguous", "--x=a=b c" } } } })");
    ASSERT_TRUE(site) << site.error().text();
    EXPECT_EQ(site->vm_sizes.at("BIG").extra_options,
              (std::vector<ExtraOption>{{"mem", "0"}, {"contiguous", ""}, {"x", "a=b c"}}));
    for (const char* word : {"-p", "gpu", "--", "--=x", "--mem=", "--Mem=1"}) {
        const auto text =
            std::string("return { vm_sizes = { BIG = { extra_options = { \"") + word + "\" } } } }";
        EXPECT_EQ(refusal(text),
                  std::string("vm_sizes.BIG.extra_options: \"") + word + "\" is not a long option");
    }
    EXPECT_EQ(refusal(R"(return { vm_sizes = { BIG = { extra_options = { "--nodes=9" } } } })"),
              "vm_sizes.BIG.extra_options: --nodes is set by the job file");
    EXPECT_EQ(refusal("return { vm_sizes = { BIG = { extra_options = { \"--x=a\\nb\" } } } }"),
              "vm_sizes.BIG.extra_options: entry 1 holds a control character");
}

TEST_F(SiteTest, RefusesImageDirectoriesThatAreNoPlainPlaces) {
    EXPECT_EQ(refusal("return { image_directory = 'images' }"),
              "image_directory: \"images\" is not an absolute path");
    for (const char* pattern : {"/%s", "/%u/%u", "/100%"})
        EXPECT_NE(refusal(std::string("return { image_directory = '") + pattern + "' }")
                      .find("as a single %u"),
                  std::string::npos)
            << pattern;
    EXPECT_EQ(refusal("return { shared_image_directory = '/%u' }"),
              "shared_image_directory: holds a %; use a plain path here");
}

TEST_F(SiteTest, ReadsWhatEveryContainerShows) {
    const auto site = load_text(
        "return { container_binds = { '/scratch/%u', '/sw//gpu/:/opt/gpu:ro:optional' } }");
    ASSERT_TRUE(site) << site.error().text();
    EXPECT_EQ(site->container_binds,
              (std::vector<ContainerBind>{{"/scratch/%u", "/scratch/%u", false, false},
                                          {"/sw/gpu", "/opt/gpu", true, true}}));
}

TEST_F(SiteTest, RefusesBindsThatNoContainerCanShow) {
    const auto fault = [&](const std::string& entries) {
        return refusal("return { container_binds = { " + entries + " } }");
    };
    EXPECT_EQ(fault("'sw'"), "container_binds: entry \"sw\": \"sw\" is not absolute");
    EXPECT_EQ(fault("'/sw:rw'"),
              "container_binds: entry \"/sw:rw\": \"rw\" is neither a path nor an option");
    EXPECT_EQ(fault("'/a/../b'"),
              "container_binds: entry \"/a/../b\": \"/a/../b\" has a . or .. component");
    EXPECT_EQ(fault("'/a/%s'"),
              "container_binds: entry \"/a/%s\": \"/a/%s\" has a % that is not %u");
    for (const char* target : {"/", "/proc", "/sys/fs", "/dev"})
        EXPECT_NE(fault(std::string("'/a:") + target + "'").find("cannot be replaced"),
                  std::string::npos)
            << target;
    EXPECT_EQ(fault("'/a:/c', '/b:/c/'"),
              "container_binds: entry \"/b:/c/\": /c is the target of another entry");
}

TEST_F(SiteTest, NamesAnUnknownKeyAndWhatWasMeant) {
    EXPECT_EQ(refusal("return { vm_sizes = { NC6 = { partitoin = 'x' } } }"),
              "vm_sizes.NC6.partitoin: unknown key; did you mean \"partition\"?");
}

TEST_F(SiteTest, NamesAWrongType) {
    EXPECT_EQ(refusal("return { node_directory = 7 }"),
              "node_directory: is a number, must be a string");
    EXPECT_EQ(refusal("return { vm_sizes = { A = { cpus = 1.5 } } }"),
              "vm_sizes.A.cpus: must be a whole number from 0 to 1000000");
    EXPECT_EQ(refusal("return { vm_sizes = { 'A' } }"), "vm_sizes: has an entry without a name");
}

TEST_F(SiteTest, RefusesPathsThatAreNotPlain) {
    EXPECT_EQ(refusal("return { node_directory = 'tmp' }"),
              "node_directory: \"tmp\" is not an absolute path");
    EXPECT_EQ(refusal("return { file_servers = { a = { directory = '/x/../y' } } }"),
              "file_servers.a.directory: \"/x/../y\" has a . or .. component");
    EXPECT_EQ(refusal("return { named_mounts = { a = {} } }"),
              "named_mounts.a.directory: is missing; it must be an absolute path");
    for (const char* pattern : {"/%d", "/all", "/%s/%s"})
        EXPECT_NE(
            refusal(std::string("return { storage_accounts = { a = { file_share_directory = '") +
                    pattern + "' } } }")
                .find("must contain exactly one %s"),
            std::string::npos)
            << pattern;
}

TEST_F(SiteTest, GivesTheLineOfASyntaxError) {
    EXPECT_NE(refusal("return {\n  x = \n}").find("line 3:"), std::string::npos);
    EXPECT_EQ(refusal("local x = 1"), "the file must return one table");
}

TEST_F(SiteTest, LetsTheFileComputeAndNothingElse) {
    for (const char* forbidden : {"io.open('/etc/passwd')", "os.execute('true')", "require 'os'",
                                  "load('return 1')()", "dofile('/etc/passwd')"})
        EXPECT_NE(refusal(std::string(forbidden) + " return {}").find("nil value"),
                  std::string::npos)
            << forbidden;
    EXPECT_NE(refusal("\x1bLua").find("binary"), std::string::npos);
}

TEST_F(SiteTest, StopsAFileThatDoesNotEnd) {
    EXPECT_NE(refusal("while true do end").find("instructions"), std::string::npos);
    EXPECT_NE(refusal("local s = 'x' while true do s = s .. s end").find("memory"),
              std::string::npos);
}

TEST_F(SiteTest, AcceptsTheExampleThatIsShipped) {
    const auto site = load(SITE_EXAMPLE);
    ASSERT_TRUE(site) << site.error().text();
    EXPECT_FALSE(site->vm_sizes.empty());
}

TEST_F(SiteTest, KnowsWhichKeysTheFileSets) {
    EXPECT_NE(refusal("return { mpi = 'pmix', vm_sizes = {}, [7] = 1 }"), "(accepted)");
    auto keys = keys_given_by(directory_ / "site.lua");
    ASSERT_TRUE(keys) << keys.error().text();
    std::sort(keys->begin(), keys->end());
    EXPECT_EQ(*keys, (std::vector<std::string>{"mpi", "vm_sizes"}));
    EXPECT_FALSE(keys_given_by(directory_ / "none.lua"));
}

TEST_F(SiteTest, TakesTheFileThatTheEnvironmentNames) {
    ASSERT_TRUE(load_text("return { location = 'here' }"));
    setenv("BATCHAI_SITE", (directory_ / "site.lua").c_str(), 1);
    EXPECT_EQ(load_default()->location, "here");
    setenv("BATCHAI_SITE", (directory_ / "none.lua").c_str(), 1);
    EXPECT_EQ(load_default().error().exit_code, base::ExitCode::not_found);
    unsetenv("BATCHAI_SITE");
}

}  // namespace batchai::site
