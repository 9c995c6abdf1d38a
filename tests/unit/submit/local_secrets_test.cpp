// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/local_secrets.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/json.hpp"
#include "job/to_json.hpp"

namespace batchai::submit {

namespace {

class LocalSecrets : public testing::Test {
  protected:
    void SetUp() override {
        std::string name =
            (std::filesystem::temp_directory_path() / "batchai-secret.XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        directory_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    std::string file(const std::string& text, mode_t mode = 0600) const {
        const auto path = directory_ / "secret";
        std::filesystem::remove(path);
        std::ofstream(path, std::ios::binary) << text;
        chmod(path.c_str(), mode);
        return path.string();
    }

    // Reads the secrets of a job file with these properties; returns the faults.
    std::string read(const std::string& properties) {
        parsed_ = job::parse(fmt::format(
            R"({{"properties": {{"nodeCount": 1, "stdOutErrPathPrefix": "/l",
            "customMpiSettings": {{"commandLine": "true"}}, {}}}}})",
            properties));
        if (!parsed_.spec) return parsed_.diagnostics.front().message;
        std::string out;
        for (const auto& fault : read_local_secrets({*parsed_.spec}, parsed_.positions)) {
            EXPECT_GT(fault.position.line, 0U);
            out += fmt::format("{} {}", fault.code, fault.message);
        }
        return out;
    }
    std::string secret(const std::string& source) {
        return read(fmt::format(R"("secrets": [{{"name": "A", {}}}])", source));
    }

    std::filesystem::path directory_;
    job::Parsed parsed_;
};

}  // namespace

TEST_F(LocalSecrets, TakesTheVariableOutOfTheEnvironment) {
    setenv("SECRET_OF_TEST", "hush", 1);
    const char* const memory = std::getenv("SECRET_OF_TEST");
    EXPECT_EQ(secret(R"("fromEnv": "SECRET_OF_TEST")"), "");
    EXPECT_EQ(parsed_.spec->secrets[0].value, "hush");
    EXPECT_EQ(std::getenv("SECRET_OF_TEST"), nullptr);
    EXPECT_EQ(std::string(memory), "") << "/proc would still show it";
    EXPECT_EQ(secret_variables({*parsed_.spec}), std::vector<std::string>{"SECRET_OF_TEST"});
    const std::string shown = base::format_json(job::to_json(*parsed_.spec));
    EXPECT_EQ(shown.find("hush"), std::string::npos);
    EXPECT_NE(shown.find("SECRET_OF_TEST"), std::string::npos);
}

TEST_F(LocalSecrets, ReadsAFileWithoutItsLineBreak) {
    EXPECT_EQ(secret(fmt::format(R"("fromFile": "{}")", file("two\nlines\r\n"))), "");
    EXPECT_EQ(parsed_.spec->secrets[0].value, "two\nlines");
}

TEST_F(LocalSecrets, ReadsKeysOfAccountsAndPasswordsOfRegistries) {
    const std::string path = file("key\n");
    EXPECT_EQ(read(fmt::format(
                  R"("mountVolumes": {{"azureFileShares": [{{"azureFileUrl": "https://a.file.x/s",
                  "relativeMountPath": "m", "credentials": {{"fromFile": "{0}"}}}}]}},
                  "containerSettings": {{"imageSourceRegistry": {{"image": "r.x/i", "credentials":
                  {{"username": "u", "fromFile": "{0}"}}}}}})",
                  path)),
              "");
    EXPECT_EQ(parsed_.spec->mount_volumes.azure_file_shares[0].credentials->account_key, "key");
    EXPECT_EQ(parsed_.spec->container_settings->credentials->password, "key");
}

TEST_F(LocalSecrets, NamesWhatCannotBeReadWithoutQuotingIt) {
    unsetenv("NOT_SET");
    EXPECT_EQ(secret(R"("fromEnv": "NOT_SET")"),
              "E118 the variable NOT_SET is not set in the shell that submits the job");
    setenv("EMPTY_SECRET", "", 1);
    EXPECT_EQ(secret(R"("fromEnv": "EMPTY_SECRET")"), "E118 the variable EMPTY_SECRET is empty");
    const std::string path = file("hush\n", 0640);
    EXPECT_EQ(secret(fmt::format(R"("fromFile": "{}")", path)),
              fmt::format("E118 {}: must be a file of yours that nobody else can read", path));
    file("hush");
    const std::string link = (directory_ / "link").string();
    std::filesystem::create_symlink(path, link);
    EXPECT_EQ(secret(fmt::format(R"("fromFile": "{}")", link)),
              fmt::format("E118 {}: must be a file of yours that nobody else can read", link));
    file(std::string("a\0b", 3));
    EXPECT_EQ(secret(fmt::format(R"("fromFile": "{}")", path)),
              fmt::format("E118 the text of {} has a zero byte", path));
    file("\xFF");
    EXPECT_EQ(secret(fmt::format(R"("fromFile": "{}")", path)),
              fmt::format("E118 the text of {} is not UTF-8 text", path));
    file("hush\n\n");
    EXPECT_EQ(secret(fmt::format(R"("fromFile": "{}")", path)),
              fmt::format("E118 the text of {} has an empty line at its end", path));
    file("\xef\xbb\xbfhush");
    EXPECT_EQ(secret(fmt::format(R"("fromFile": "{}")", path)),
              fmt::format("E118 the text of {} begins with a byte order mark", path));
    file(std::string(200000, 'x'));
    EXPECT_NE(secret(fmt::format(R"("fromFile": "{}")", path)).find("larger than 131072 bytes"),
              std::string::npos);
    EXPECT_NE(secret(R"("fromFile": "relative")").find("must be an absolute path"),
              std::string::npos);
}

TEST_F(LocalSecrets, AreLimitedTogether) {
    const std::string path = file(std::string(100000, 'x'));
    const std::string two = fmt::format(
        R"("secrets": [{{"name": "A", "fromFile": "{0}"}}, {{"name": "B", "fromFile": "{0}"}}])",
        path);
    EXPECT_EQ(read(two), "E118 the secrets of the job have more than 131072 bytes together");
}

TEST_F(LocalSecrets, LeavesVariablesThatOthersNeed) {
    for (const char* const name : {"PATH", "HOME", "LD_PRELOAD", "BATCHAI_HOME", "SLURM_CONF",
                                   "PMIX_RANK", "AZURE_BATCHAI_STORAGE_KEY", "LC_ALL"})
        EXPECT_NE(secret(fmt::format(R"("fromEnv": "{}")", name)).find("cannot be"),
                  std::string::npos)
            << name;
    EXPECT_NE(secret(R"("fromEnv": "a b")").find("is not a variable's name"), std::string::npos);
}

}  // namespace batchai::submit
