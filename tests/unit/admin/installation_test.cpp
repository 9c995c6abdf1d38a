// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/installation.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace batchai::admin {
namespace {

class Installation : public ::testing::Test {
  protected:
    void SetUp() override {
        std::filesystem::create_directories(directory_);
        write("slurm.conf", "ClusterName=x\n");
        write("plugstack.conf", "# ours\noptional /opt/batchai.so timeout=40\n");
        write("site.lua", "return { exclusive = true, vm_sizes = { nc6 = { cpus = 6 } } }");
        setenv("SLURM_CONF", (directory_ + "/slurm.conf").c_str(), 1);
        setenv("BATCHAI_SITE", (directory_ + "/site.lua").c_str(), 1);
    }
    void TearDown() override {
        unsetenv("SLURM_CONF");
        unsetenv("BATCHAI_SITE");
        std::filesystem::remove_all(directory_);
    }

    void write(const std::string& name, const std::string& text) const {
        std::ofstream(directory_ + "/" + name) << text;
    }
    // "VALUE from ORIGIN", without the test's directory.
    [[nodiscard]] std::string setting(const std::string& key) const {
        const auto settings = installed_settings();
        if (!settings) return settings.error().text();
        const auto found =
            std::find_if(settings->begin(), settings->end(),
                         [&](const InstalledSetting& setting) { return setting.key == key; });
        if (found == settings->end()) return "(none)";
        std::string text = base::format_json(found->value) + " from " + found->origin;
        std::erase(text, '\n');
        for (auto at = text.find(directory_); at != std::string::npos; at = text.find(directory_))
            text.erase(at, directory_.size());
        return text;
    }

    std::string directory_ = ::testing::TempDir() + "installation-" + std::to_string(getpid());
};

TEST_F(Installation, SaysWhereEachSettingComesFrom) {
    EXPECT_EQ(setting("slurm.conf"), "\"/slurm.conf\" from SLURM_CONF");
    EXPECT_EQ(setting("plugstack.conf"), "\"/plugstack.conf\" from default");
    EXPECT_EQ(setting("plugin"), "\"/opt/batchai.so\" from /plugstack.conf:2");
    EXPECT_EQ(setting("plugin.timeout"), "\"40\" from /plugstack.conf:2");
    EXPECT_EQ(setting("site.lua"), "\"/site.lua\" from BATCHAI_SITE");
    // A key that the file sets to the default comes from the file.
    EXPECT_EQ(setting("site.exclusive"), "true from /site.lua");
    EXPECT_EQ(setting("site.mpi"), "\"pmix\" from default");
}

TEST_F(Installation, NamesTheFileThatHasPlugStackConfig) {
    write("slurm.conf", "PlugStackConfig=/none/plugstack.conf\n");
    EXPECT_EQ(setting("plugstack.conf"), "\"/none/plugstack.conf\" from /slurm.conf");
    EXPECT_EQ(setting("plugin"), "(none)");
}

TEST_F(Installation, ReportsAFaultOfTheSite) {
    write("site.lua", "return { exclusiv = true }");
    EXPECT_NE(setting("site.mpi").find("exclusiv"), std::string::npos);
}

}  // namespace
}  // namespace batchai::admin
