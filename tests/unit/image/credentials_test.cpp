// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/credentials.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/json.hpp"
#include "base/process.hpp"
#include "scratch.hpp"

namespace batchai::image {
namespace {

using testing::HasSubstr;

class Credentials : public testing::Test {
  protected:
    void SetUp() override {
        setenv("HOME", scratch.path().c_str(), 1);
        setenv("XDG_RUNTIME_DIR", (scratch / "run").c_str(), 1);
        unsetenv("REGISTRY_AUTH_FILE");
        unsetenv("DOCKER_CONFIG");
        unsetenv("XDG_CONFIG_HOME");
    }
    Scratch scratch;
};

TEST_F(Credentials, OfAJobFileAreInAFileThatOnlyTheUserReads) {
    const Reference reference = parse("reg:5000/x").value();
    std::string path;
    {
        const auto access = access_for(reference, {}, Login{"me", "p w"});
        ASSERT_TRUE(access);
        path = access->auth_file;
        struct stat status {};
        ASSERT_EQ(stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 0777U, 0600U);
        for (const std::string& option : access->options())
            EXPECT_EQ(option.find("p w"), std::string::npos);
        EXPECT_THAT(access->credential_source, HasSubstr("user me"));
    }
    EXPECT_NE(access(path.c_str(), F_OK), 0);
}

// Breaks when a killed process leaves a password behind.
TEST_F(Credentials, OfAJobFileAreInNoDirectory) {
    setenv("TMPDIR", scratch.path().c_str(), 1);
    const auto access = access_for(parse("reg:5000/x").value(), {}, Login{"me", "p w"});
    unsetenv("TMPDIR");
    ASSERT_TRUE(access);
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
    // Another process reads them.
    const auto read = base::run({"cat", access->auth_file});
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->standard_output, auth_file_text("reg:5000", {"me", "p w"}));
}

TEST_F(Credentials, AreWrittenAsDockerWritesThem) {
    const auto written = base::parse_json(auth_file_text("reg:5000", {"me", "pass"}), "auth.json");
    ASSERT_TRUE(written);
    EXPECT_EQ((*written)["auths"]["reg:5000"]["auth"], base::Value("bWU6cGFzcw=="));
}

TEST_F(Credentials, AreFoundInTheOrderInWhichSkopeoLooks) {
    EXPECT_EQ(own_credentials("reg:5000").source, "none");
    const auto docker = scratch.write(
        ".docker/config.json", R"({"auths": {"https://reg:5000": {"auth": "x"}, "other": {}}})");
    EXPECT_EQ(own_credentials("reg:5000").source, docker);
    EXPECT_EQ(own_credentials("other").source, "none");
    const auto config =
        scratch.write(".config/containers/auth.json", R"({"auths": {"reg:5000": {"auth": "x"}}})");
    EXPECT_EQ(own_credentials("reg:5000").file, config);
    setenv("XDG_CONFIG_HOME", (scratch / "elsewhere").c_str(), 1);
    EXPECT_EQ(own_credentials("reg:5000").file, docker);
    const auto run =
        scratch.write("run/containers/auth.json", R"({"auths": {"reg:5000": {"auth": "x"}}})");
    EXPECT_EQ(own_credentials("reg:5000").file, run);
}

TEST_F(Credentials, OfHelpersSayWhichProgramIsAsked) {
    scratch.write(".docker/config.json",
                  R"({"credHelpers": {"reg:5000": "pass"}, "credsStore": "desktop"})");
    EXPECT_THAT(own_credentials("reg:5000").source, HasSubstr("docker-credential-pass (named in"));
    EXPECT_EQ(own_credentials("reg:5000").store, "");
    EXPECT_EQ(own_credentials("docker.io").store, "desktop");
}

}  // namespace
}  // namespace batchai::image
