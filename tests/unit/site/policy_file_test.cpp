// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdlib>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "site/site.hpp"

namespace batchai::site {

namespace {

base::Result<Site> loaded(const std::string& text) {
    std::string name = testing::TempDir() + "site.lua.XXXXXX";
    const int descriptor = mkstemp(name.data());
    if (descriptor < 0) return base::fail("cannot make a file");
    close(descriptor);
    std::ofstream(name) << text;
    auto site = load(name);
    unlink(name.c_str());
    return site;
}

// The error of load(), or "ok".
std::string answer(const std::string& text) {
    const auto site = loaded(text);
    return site ? "ok" : site.error().what;
}

}  // namespace

// job_submit_test.lua reads the same lines.
TEST(PolicyFile, IsReadAsSlurmctldReadsIt) {
    std::ifstream lines(POLICY_FILES);
    std::string line;
    int count = 0;
    while (std::getline(lines, line)) {
        if (line.starts_with('#')) continue;
        const std::size_t tab = line.find('\t');
        ASSERT_NE(tab, std::string::npos) << line;
        const std::string wanted = line.substr(0, tab);
        const std::string given = answer(line.substr(tab + 1));
        if (wanted == "ok")
            EXPECT_EQ(given, "ok") << line;
        else
            EXPECT_NE(given.find(wanted), std::string::npos) << line << "\ngives " << given;
        ++count;
    }
    EXPECT_GT(count, 40);
}

TEST(PolicyFile, HasTheNamesOfAccountsInLowerCase) {
    const auto site = loaded(
        "return { vm_sizes = { NC6 = {} }, policy = { accounts = { 'Physics' }, "
        "vm_sizes = { nc6 = { accounts = { 'X' } } } } }");
    ASSERT_TRUE(site) << site.error().text();
    EXPECT_EQ(site->policy.accounts, std::vector<std::string>{"physics"});
    EXPECT_EQ(site->policy.vm_sizes.at("NC6").accounts, std::vector<std::string>{"x"});
}

TEST(PolicyFile, NamesTheLineOfAPatternThatMayNotEnd) {
    EXPECT_EQ(answer("local x = 1\nlocal y = ('a'):rep(30):match(('a*'):rep(30)) return {}"),
              "line 2: patterns may take more than 1000000000 steps: use fewer of * + - ? in them, "
              "or shorter texts");
}

}  // namespace batchai::site
