// SPDX-License-Identifier: GPL-2.0-or-later
#include "user/config.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"

namespace batchai::user {
namespace {

using testing::HasSubstr;

constexpr std::string_view some_config = R"(# mine
[defaults]
workspace = "dev"

[slurm]   # for all jobs
partition = 'gpu' # the fast one
mail-type = "END,FAIL"
exclusive = false
)";

// Returns "line:column+length code message; hint" of each fault.
std::vector<std::string> faults(std::string_view text) {
    std::vector<std::string> out;
    for (const auto& fault : parse_user_config(text).diagnostics)
        out.push_back(fmt::format("{}:{}+{} {} {}{}", fault.position.line, fault.position.column,
                                  fault.position.length, fault.code, fault.message,
                                  fault.hint.empty() ? "" : "; " + fault.hint));
    return out;
}

TEST(UserConfig, IsReadWithTheLineOfEachValue) {
    const auto parsed = parse_user_config(some_config);
    EXPECT_TRUE(parsed.diagnostics.empty()) << testing::PrintToString(faults(some_config));
    EXPECT_EQ(parsed.config.defaults.workspace, "dev");
    EXPECT_FALSE(parsed.config.defaults.group);
    EXPECT_EQ(parsed.config.slurm.partition, "gpu");
    EXPECT_EQ(parsed.config.slurm.mail_type, "END,FAIL");
    EXPECT_EQ(parsed.config.slurm.exclusive, false);
    EXPECT_EQ(parsed.config.lines.at("slurm.partition"), 6U);
    EXPECT_EQ(parsed.config.lines.size(), 4U);
    EXPECT_EQ(setting(parsed.config, "slurm.partition"), job::Value("gpu"));
    EXPECT_EQ(setting(parsed.config, "defaults.workspace"), job::Value("dev"));
    EXPECT_FALSE(setting(parsed.config, "slurm.account"));
    EXPECT_FALSE(setting(parsed.config, "colour"));
}

TEST(UserConfig, HasItsFaultsReportedWhereTheyAre) {
    const auto only = [](std::string_view text) {
        const auto found = faults(text);
        return found.size() == 1 ? found.front() : testing::PrintToString(found);
    };
    EXPECT_EQ(only("[slurm]\n partiton = \"x\"\n"),
              "2:2+8 E012 unknown key \"partiton\"; did you mean \"partition\"?");
    EXPECT_EQ(only("[slurn]\n"), "1:2+5 E012 unknown key \"slurn\"; did you mean \"slurm\"?");
    EXPECT_EQ(only("slurm = 3\n"),
              "1:1+5 E014 \"slurm\" must be a table; write [slurm] on a line of its own");
    EXPECT_EQ(only("[slurm]\nnodes = \"3\"\n"),
              "2:1+5 E020 \"nodes\" cannot be set here; \"nodeCount\" sets it");
    EXPECT_EQ(only("[slurm]\nmem = 64\n"),
              "2:7+2 E014 \"mem\" must be a string; write it in double quotes");
    EXPECT_EQ(only("[slurm]\nexclusive = \"no\"\n"),
              "2:13+4 E014 \"exclusive\" must be true or false");
    EXPECT_EQ(only("[slurm]\naccount = \"-x\"\n"),
              "2:11+4 E026 \"account\" must not start with \"-\"");
    EXPECT_THAT(only("[slurm]\naccount = \"x\n"), testing::StartsWith("2:"));
    EXPECT_THAT(only("[slurm]\nmem = \"1\"\nmem = \"2\"\n"), HasSubstr("E009"));
    EXPECT_EQ(faults("[slurm]\nx1 = 1\nx2 = 2\n").size(), 2U);
}

TEST(UserConfig, KeepsItsTextWhenAValueIsSet) {
    std::string wanted(some_config);
    const auto replace = [&](std::string_view old, std::string_view by) {
        wanted.replace(wanted.find(old), old.size(), by);
    };
    auto text = with_setting(some_config, "slurm.partition", "debug").value();
    replace("'gpu'", "\"debug\"");
    EXPECT_EQ(text, wanted);
    text = with_setting(text, "slurm.exclusive", "true").value();
    replace("false", "true");
    EXPECT_EQ(text, wanted);
    text = with_setting(text, "slurm.comment", R"(ü "q" \)").value();
    replace("for all jobs\n", "for all jobs\ncomment = \"ü \\\"q\\\" \\\\\"\n");
    EXPECT_EQ(text, wanted);
    text = with_setting(text, "slurm.comment", "short").value();
    replace(R"("ü \"q\" \\")", R"("short")");
    EXPECT_EQ(text, wanted);
    EXPECT_EQ(with_setting("", "defaults.group", "team").value(), "[defaults]\ngroup = \"team\"\n");
    EXPECT_EQ(with_setting("# x", "slurm.qos", "high").value(), "# x\n\n[slurm]\nqos = \"high\"\n");
}

TEST(UserConfig, IsNotSpoiltWhenAValueCannotBeSet) {
    for (const auto& [key, value, said] :
         {std::tuple{"slurm.partiton", "x", "did you mean slurm.partition?"},
          std::tuple{"slurm.nodes", "3", "there is no key"},
          std::tuple{"slurm.exclusive", "maybe", "must be true or false"},
          std::tuple{"slurm.mem", "lots", "is not a memory size"},
          std::tuple{"slurm.comment", "a\nb", "must not contain control characters"}}) {
        const auto changed = with_setting(some_config, key, value);
        ASSERT_FALSE(changed) << key;
        EXPECT_THAT(changed.error().text(), HasSubstr(said));
    }
    // Forms of TOML for which the text would have to be changed in another way.
    for (const char* text :
         {"slurm = { mem = \"1\" }\n", "slurm.mem = \"1\"\n", "[slurm]\nmem = \"\"\"\n1\"\"\"\n"}) {
        const auto changed = with_setting(text, "slurm.qos", "x");
        if (changed) {
            EXPECT_EQ(parse_user_config(*changed).config.slurm.mem, "1") << *changed;
            EXPECT_EQ(parse_user_config(*changed).config.slurm.qos, "x") << *changed;
        } else {
            EXPECT_THAT(changed.error().what, HasSubstr("not supported for this yet"));
        }
    }
}

class UserConfigFile : public testing::Test {
  protected:
    UserConfigFile() {
        std::string name = testing::TempDir() + "config-XXXXXX";
        directory_ = mkdtemp(name.data());
        path_ = directory_ / "config.toml";
    }
    ~UserConfigFile() override { std::filesystem::remove_all(directory_); }

    std::filesystem::path directory_;
    std::filesystem::path path_;
};

TEST_F(UserConfigFile, NeedNotExist) {
    EXPECT_EQ(read_user_config(path_).value_or("?"), "");
    ASSERT_TRUE(base::write_atomically(path_, some_config, 0644));
    EXPECT_EQ(read_user_config(path_).value_or("?"), some_config);
}

TEST_F(UserConfigFile, ThatOthersCanWriteToIsRefused) {
    for (const mode_t mode : {mode_t{0664}, mode_t{0646}}) {
        ASSERT_TRUE(base::write_atomically(path_, some_config, mode));
        const auto text = read_user_config(path_);
        ASSERT_FALSE(text);
        EXPECT_THAT(text.error().text(), HasSubstr("can be written to by other users"));
        EXPECT_THAT(text.error().hint, HasSubstr("chmod go-w"));
    }
}

TEST_F(UserConfigFile, OfAnotherUserIsRefused) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
    ASSERT_TRUE(base::write_atomically(path_, some_config, 0644));
    ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
    const auto text = read_user_config(path_);
    ASSERT_FALSE(text);
    EXPECT_THAT(text.error().what, HasSubstr("belongs to user 65534"));
}

TEST_F(UserConfigFile, ThatIsNoFileIsRefused) {
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
    EXPECT_FALSE(read_user_config(path_));
}

}  // namespace
}  // namespace batchai::user
