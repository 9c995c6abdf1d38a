// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/secrets.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "node/reply.hpp"
#include "spank/protocol.h"
#include "tests/unit/base/scratch.hpp"

namespace {

using batchai::node::check_environment;
using batchai::node::read_secrets;

class Secrets : public testing::Test {
  protected:
    void write(const std::string& text, mode_t mode = 0600) const {
        const auto path = scratch.path() / "secrets.json";
        std::ofstream(path) << text;
        ASSERT_EQ(chmod(path.c_str(), mode), 0);
    }
    [[nodiscard]] auto read() const { return read_secrets(scratch.path().string(), {"TOKEN"}); }

    Scratch scratch;
};

TEST_F(Secrets, AreReadFromAPrivateFile) {
    write(R"({"OTHER": "x", "TOKEN": "hush"})");
    const auto secrets = read();
    ASSERT_TRUE(secrets);
    ASSERT_EQ(secrets->size(), 1U);
    EXPECT_EQ(secrets->front().value, "hush");
}

TEST_F(Secrets, InAFileThatOthersCanReadAreRefused) {
    write(R"({"TOKEN": "hush"})", 0640);
    EXPECT_FALSE(read());
}

TEST_F(Secrets, ReachedThroughALinkAreRefused) {
    write(R"({"TOKEN": "hush"})");
    std::filesystem::rename(scratch.path() / "secrets.json", scratch.path() / "real");
    std::filesystem::create_symlink(scratch.path() / "real", scratch.path() / "secrets.json");
    EXPECT_FALSE(read());
}

TEST_F(Secrets, AreNeverQuotedInAMessage) {
    for (const char* text :
         {R"({"TOKEN": hush})", R"({"TOKEN": ["hush"]})", R"(["hush"])", R"({"OTHER": "hush"})"}) {
        write(text);
        const auto secrets = read();
        ASSERT_FALSE(secrets) << text;
        EXPECT_EQ(secrets.error().text().find("hush"), std::string::npos);
    }
}

TEST_F(Secrets, ThatNobodyAsksForNeedNoFile) {
    EXPECT_TRUE(read_secrets(scratch.path().string(), {}));
    EXPECT_FALSE(read());
}

TEST(CheckEnvironment, RefusesWhatCannotBeHandedOn) {
    using Variables = std::vector<batchai::plan::Variable>;
    EXPECT_TRUE(check_environment(Variables{{"A", "b=c\n"}}));
    EXPECT_FALSE(check_environment(Variables{{"", "b"}}));
    EXPECT_FALSE(check_environment(Variables{{"A=B", "c"}}));
    EXPECT_FALSE(check_environment(Variables{{"A", std::string("b\0c", 3)}}));
    EXPECT_FALSE(check_environment(Variables{{"A", std::string(BATCHAI_REPLY_LIMIT, 'x')}}));
}

}  // namespace
