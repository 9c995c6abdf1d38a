// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/diagnosis.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "admin/masking.hpp"
#include "base/process.hpp"
#include "base/temporary_directory.hpp"
#include "image/credentials.hpp"

namespace batchai::admin {

namespace {

namespace fs = std::filesystem;

TEST(Masked, ReplacesKnownSecretsAsTheyAreAndInJson) {
    EXPECT_EQ(masked("a hunter2 b hunter2", {"hunter2"}), "a *** b ***");
    EXPECT_EQ(masked(R"({"v": "q\"x\n"})", {"q\"x\n"}), R"({"v": "***"})");
    EXPECT_EQ(masked("nothing", {"", "secret!"}), "nothing");
}

TEST(Masked, ReplacesTheLongestSecretFirst) {
    const auto secrets = secrets_in(base::Value::Object{{"A", "key"}, {"B", "keylonger"}});
    EXPECT_EQ(masked("keylonger key", secrets), "*** ***");
}

TEST(Masked, ReplacesWhatUsuallyIsASecret) {
    EXPECT_EQ(masked("https://u:p@host/x", {}), "https://***@host/x");
    EXPECT_EQ(masked("https://token@host", {}), "https://***@host");
    EXPECT_EQ(masked("https://host/a@b", {}), "https://host/a@b");
    EXPECT_EQ(masked("x?sv=1&sig=AbC%3D&se=2", {}), "x?sv=1&sig=***&se=2");
    EXPECT_EQ(masked("AccountKey=abc==;x", {}), "AccountKey=***;x");
    EXPECT_EQ(masked(R"("WANDB_API_KEY": "k1")", {}), R"("WANDB_API_KEY": "***")");
    EXPECT_EQ(masked("password : p", {}), "password : ***");
}

// Breaks when a key goes out in clear because the job file has it as the value of a variable.
TEST(Masked, ReplacesValuesOfVariablesThatAreNamedAsSecrets) {
    EXPECT_EQ(masked(R"({"name": "WANDB_API_KEY", "value": "k1"})", {}),
              R"({"name": "WANDB_API_KEY", "value": "***"})");
    EXPECT_EQ(masked("{\n \"value\" : \"a b, c\",\n \"name\": \"HF_TOKEN\"\n}", {}),
              "{\n \"value\" : \"***\",\n \"name\": \"HF_TOKEN\"\n}");
    for (const char* text : {R"([{"name":"TOKEN","value":"x"},{"name":"EPOCHS","value":"5"}])",
                             R"([{"value":"5","name":"EPOCHS"},{"value":"x","name":"TOKEN"}])"}) {
        const std::string out = masked(text, {});
        EXPECT_NE(out.find(R"("value":"***")"), std::string::npos) << out;
        EXPECT_NE(out.find(R"("value":"5")"), std::string::npos) << out;
        EXPECT_EQ(out.find(R"("value":"x")"), std::string::npos) << out;
    }
}

TEST(Masked, ReplacesAValueInQuotesAsAWhole) {
    EXPECT_EQ(masked(R"("password": "correct \" horse", "a": 1)", {}),
              R"("password": "***", "a": 1)");
    EXPECT_EQ(masked("AWS_SECRET_ACCESS_KEY=abc/d+e x", {}), "AWS_SECRET_ACCESS_KEY=*** x");
    EXPECT_EQ(masked("Authorization: Bearer abc.d", {}), "Authorization: Bearer ***");
    EXPECT_EQ(masked("'apikey': 'x'", {}), "'apikey': '***'");
}

TEST(Masked, KeepsOtherWords) {
    for (const char* text : {"design=flat", "time: 12:30:01", "tokens: 5", "a=b:c", "sig", "="})
        EXPECT_EQ(masked(text, {}), text);
}

class Archive : public testing::Test {
  protected:
    void write(const fs::path& path, const std::string& text) const {
        fs::create_directories(path.parent_path());
        std::ofstream(path, std::ios::binary) << text;
    }
    std::string unpacked(const std::string& name) const {
        const auto out = base::run({"tar", "-xzOf", archive(), "diag/" + name});
        return out && out->exit_code == 0 ? out->standard_output : "not in the archive";
    }
    std::string archive() const { return (directory_.path() / "out.tar.gz").string(); }
    base::Result<void> pack(const Diagnosis& diagnosis,
                            const std::vector<std::string>& secrets = {}) const {
        const auto scratch = base::TemporaryDirectory::make(directory_.path(), "scratch-");
        return write_archive(diagnosis, secrets, scratch->path().string(), "diag", archive());
    }

    base::TemporaryDirectory directory_ =
        std::move(*base::TemporaryDirectory::make(fs::temp_directory_path(), "batchai-diag-test-"));
    record::JobFiles files_{directory_.path() / "job"};
};

TEST_F(Archive, HasRecordsAndLogsButNoSecrets) {
    write(files_.record(), "{}");
    write(files_.attempt(1), "one");
    write(files_.rank_error("1", "0"), "my key is hunter2\n");
    write(files_.node_log("n1"), "node\n");
    write(files_.array_task(3).attempt(1), "task");
    write(files_.secrets(), R"({"KEY": "hunter2"})");
    chmod(files_.secrets().c_str(), 0600);
    write(files_.registry_auth(), image::auth_file_text("r.example.org", {"ada", "pass:word"}));
    chmod(files_.registry_auth().c_str(), 0600);
    write(files_.slurm_log(), "logged in with pass:word\n");
    write(files_.elastic() / "committed.pickle", "model");
    const auto secrets = secrets_of(files_);
    ASSERT_TRUE(secrets) << secrets.error().text();
    Diagnosis diagnosis;
    add_job_files(diagnosis, files_);
    ASSERT_TRUE(pack(diagnosis, *secrets));
    EXPECT_EQ(unpacked("job/attempts/1.json"), "one");
    EXPECT_EQ(unpacked("job/attempts/1.stderr-0.txt"), "my key is ***\n");
    EXPECT_EQ(unpacked("job/node/n1.log"), "node\n");
    EXPECT_EQ(unpacked("job/task-3/attempts/1.json"), "task");
    EXPECT_EQ(unpacked("job/secrets.json"), "not in the archive");
    EXPECT_EQ(unpacked("job/registry-auth.json"), "not in the archive");
    EXPECT_EQ(unpacked("job/slurm.log"), "logged in with ***\n");
    EXPECT_EQ(unpacked("job/elastic/committed.pickle"), "not in the archive");
    struct stat status {};
    ASSERT_EQ(stat(archive().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(Archive, FollowsNoLinkAndWaitsForNoFifo) {
    write(directory_.path() / "elsewhere", "private");
    write(files_.attempt(1), "one");
    fs::create_symlink(directory_.path() / "elsewhere", files_.attempts() / "2.json");
    fs::create_directory_symlink(directory_.path(), files_.node_logs());
    ASSERT_EQ(mkfifo((files_.attempts() / "pipe").c_str(), 0600), 0);
    Diagnosis diagnosis;
    add_job_files(diagnosis, files_);
    EXPECT_EQ(diagnosis.files.size(), 1U);
    // A link where the logs of the nodes should be is worth a word.
    EXPECT_EQ(diagnosis.missing.size(), 1U);
}

TEST_F(Archive, KeepsTheEndOfALongFile) {
    write(files_.slurm_log(), std::string(diagnosis_file_limit, 'a') + "the end");
    write(files_.node_log("n1"), std::string(diagnosis_file_limit, 'a'));
    Diagnosis diagnosis;
    add_job_files(diagnosis, files_);
    ASSERT_TRUE(pack(diagnosis));
    const std::string kept = unpacked("job/slurm.log");
    EXPECT_TRUE(kept.starts_with("[of 1048583 bytes, only the end is here]\naaa"));
    EXPECT_TRUE(kept.ends_with("the end"));
    EXPECT_EQ(unpacked("job/node/n1.log").size(), diagnosis_file_limit);
}

// Breaks when a file is cut inside a secret, whose rest is then no secret that anybody knows.
TEST_F(Archive, ShowsNoPartOfASecretInWhichAFileIsCut) {
    const std::string secret =
        "-----BEGIN KEY-----\n" + std::string(3000, 'k') + "\n-----END KEY-----";
    for (const std::size_t offset : {std::size_t{0}, std::size_t{64} << 10U}) {
        const std::size_t end = diagnosis_file_limit + offset - secret.size() / 2;
        write(files_.slurm_log(), std::string(200000, 'a') + secret + std::string(end, 'b'));
        Diagnosis diagnosis;
        add_job_files(diagnosis, files_);
        ASSERT_TRUE(pack(diagnosis, {secret}));
        const std::string shown = unpacked("job/slurm.log");
        EXPECT_EQ(shown.find("kkk"), std::string::npos) << offset;
        EXPECT_TRUE(shown.ends_with("bbb"));
        fs::remove(archive());
    }
}

TEST_F(Archive, ReplacesNoFile) {
    write(archive(), "mine");
    const auto refused = pack({.files = {{"a", "b"}}, .missing = {}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().exit_code, base::ExitCode::refused);
}

TEST_F(Archive, IsRefusedIfSecretsCannotBeRead) {
    for (const auto& path : {files_.secrets(), files_.registry_auth()}) {
        write(path, "not JSON with hunter2");
        chmod(path.c_str(), 0600);
        const auto secrets = secrets_of(files_);
        ASSERT_FALSE(secrets);
        EXPECT_EQ(secrets.error().text().find("hunter2"), std::string::npos);
        fs::remove(path);
    }
    write(files_.registry_auth(), R"({"auths": {"r": {"auth": "!!"}}})");
    chmod(files_.registry_auth().c_str(), 0600);
    EXPECT_FALSE(secrets_of(files_));
}

}  // namespace

}  // namespace batchai::admin
