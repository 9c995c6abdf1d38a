// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/store.hpp"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.hpp"
#include "store/records.hpp"
#include "temporary_store.hpp"

namespace batchai::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class StoreTest : public TemporaryStore {};

mode_t mode_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777U;
}

TEST_F(StoreTest, ReadingMakesNothing) {
    EXPECT_EQ(store_.list<Group>({}).value().size(), 0U);
    EXPECT_FALSE(store_.get<Group>({"g"}));
    EXPECT_FALSE(fs::exists(store_.home()));
}

TEST_F(StoreTest, TheRootIsPrivateFromTheFirstWrite) {
    create_parents();
    EXPECT_EQ(mode_of(store_.home()), 0700U);
}

TEST_F(StoreTest, WhatWasCreatedIsReadBack) {
    const Group group{{"my.group"}, "local", Tags{{"a", "b"}}, base::now()};
    ASSERT_TRUE(store_.create(group));
    EXPECT_EQ(store_.get<Group>({"my.group"}).value(), group);
    create_parents();
    const Workspace workspace{{"g", "second"}, "local", Tags{}, base::now()};
    ASSERT_TRUE(store_.create(workspace));
    EXPECT_EQ(store_.get<Workspace>(workspace.key).value(), workspace);
    Cluster cluster;
    cluster.key = {"g", "w", "c"};
    cluster.vm_size = "standard_nc6";
    cluster.scale.manual =
        ManualScale{.target_node_count = 4,
                    .node_deallocation_option = NodeDeallocationOption::wait_for_job_completion};
    cluster.properties.set("nodeSetup", base::Value::Object{{"mountVolumes", nullptr}});
    cluster.vm_priority = VmPriority::low_priority;
    ASSERT_TRUE(store_.create(cluster));
    EXPECT_EQ(store_.get<Cluster>(cluster.key).value(), cluster);
    cluster.scale = {
        .manual = {},
        .auto_scale =
            AutoScale{.minimum_node_count = 1, .maximum_node_count = 5, .initial_node_count = 2}};
    cluster.key.cluster = "automatic";
    ASSERT_TRUE(store_.create(cluster));
    EXPECT_EQ(store_.list<Cluster>({"g", "w"}).value().at(0), cluster);
}

TEST_F(StoreTest, StorageAccountsAndFileServersAreReadBackAndGoWithTheirParents) {
    create_parents();
    const StorageAccount account{
        {"g", "mystorage"}, "eastus", "Standard_LRS", Tags{{"a", "b"}}, base::now()};
    ASSERT_TRUE(store_.create(account));
    EXPECT_EQ(store_.get<StorageAccount>(account.key).value(), account);
    EXPECT_EQ(store_.create(account).error().exit_code, base::ExitCode::refused);
    EXPECT_THAT(store_.get<StorageAccount>({"g", "mystorag"}).error().hint, HasSubstr("mystorage"));
    FileServer server;
    server.key = {"g", "w", "nfs"};
    server.disk_count = 2;
    server.disk_size = 10;
    server.creation_time = base::now();
    ASSERT_TRUE(store_.create(server));
    EXPECT_EQ(store_.get<FileServer>(server.key).value(), server);
    EXPECT_EQ(store_.list<FileServer>({"g", "w"}).value().size(), 1U);
    ASSERT_TRUE(store_.remove<FileServer>(server.key));
    EXPECT_THAT(store_.get<FileServer>(server.key).error().hint,
                HasSubstr("batchai file-server create"));
    ASSERT_TRUE(store_.remove<Group>({"g"}));
    ASSERT_TRUE(store_.create(Group{{"g"}, "local", {}, base::now()}));
    EXPECT_TRUE(store_.list<StorageAccount>({"g"}).value().empty());
}

TEST_F(StoreTest, ASecondResourceOfTheSameNameIsRefusedAndChangesNothing) {
    create_parents();
    const auto again = store_.create(Group{{"g"}, "elsewhere", {}, base::now()});
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().exit_code, base::ExitCode::refused);
    EXPECT_EQ(store_.get<Group>({"g"}).value().location, "local");
    EXPECT_TRUE(store_.get<Workspace>({"g", "w"}));
    EXPECT_TRUE(fs::is_empty(store_.home() / ".new"));
}

TEST_F(StoreTest, AMissingResourceNamesTheNearestOne) {
    create_parents();
    const auto missing = store_.get<Workspace>({"g", "W"});
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().exit_code, base::ExitCode::not_found);
    EXPECT_EQ(missing.error().hint, "did you mean \"w\"?");
    EXPECT_THAT(store_.get<Experiment>({"g", "w", "training"}).error().text(),
                HasSubstr("there are: e"));
}

TEST_F(StoreTest, AMissingResourceNamesAFewThatAreThere) {
    create_parents();
    const fs::path experiments = store_.home() / "groups/g/workspaces/w/experiments";
    // Directories without a record are none.
    for (const char* const name : {"empty", "trainin"})
        fs::create_directory(experiments / name);
    EXPECT_EQ(store_.get<Experiment>({"g", "w", "training"}).error().hint, "there are: e");
    for (char name = 'm'; name < 't'; ++name)
        ASSERT_TRUE(store_.create(Experiment{{"g", "w", std::string(1, name)}, base::now()}));
    EXPECT_EQ(store_.get<Experiment>({"g", "w", "training"}).error().hint,
              "there are: e, m, n, o, p, q, r, s");
    ASSERT_TRUE(store_.create(Experiment{{"g", "w", "z"}, base::now()}));
    EXPECT_EQ(store_.get<Experiment>({"g", "w", "training"}).error().hint,
              "there are: e, m, n, o, p, q, r, s, …");
}

TEST_F(StoreTest, HasAJobWhoseRecordCannotBeReadToo) {
    create_parents();
    const JobKey key{"g", "w", "e", "j"};
    EXPECT_EQ(store_.has_job(key), false);
    const fs::path record = store_.job_files(key).record();
    fs::create_directories(record.parent_path());
    EXPECT_EQ(store_.has_job(key), false);
    ASSERT_TRUE(base::write_atomically(record, "{"));
    EXPECT_EQ(store_.has_job(key), true);
    EXPECT_FALSE(store_.get<Job>(key));
    EXPECT_EQ(store_.has_job({"other", "w", "e", "j"}).error().exit_code,
              base::ExitCode::not_found);
}

// A loop of links stands for each reason for which a path cannot be looked at, also as root.
TEST_F(StoreTest, WhatCannotBeLookedForIsNotSaidToBeMissing) {
    create_parents();
    const fs::path groups = store_.home() / "groups";
    fs::rename(groups, store_.home() / "elsewhere");
    fs::create_symlink("groups", groups);
    for (const auto& error :
         {store_.get<Group>({"g"}).error(), store_.list<Job>({"g", "w", "e"}).error(),
          store_.remove<Experiment>({"g", "w", "e"}).error()}) {
        EXPECT_EQ(error.exit_code, base::ExitCode::failed) << error.text();
        EXPECT_THAT(error.text(), HasSubstr("cannot look for"));
        EXPECT_THAT(error.text(), HasSubstr("groups/g"));
    }
}

TEST_F(StoreTest, TheOutermostMissingParentIsNamed) {
    const auto made = store_.create(Experiment{{"g", "w", "e"}, base::now()});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().exit_code, base::ExitCode::not_found);
    EXPECT_THAT(made.error().what, HasSubstr("resource group \"g\""));
    EXPECT_FALSE(fs::exists(store_.home()));
}

TEST_F(StoreTest, RemovingAParentRemovesItsChildren) {
    create_parents();
    ASSERT_TRUE(store_.remove<Workspace>({"g", "w"}));
    EXPECT_EQ(store_.get<Experiment>({"g", "w", "e"}).error().exit_code, base::ExitCode::not_found);
    ASSERT_TRUE(store_.create(Workspace{{"g", "w"}, "local", {}, base::now()}));
    EXPECT_TRUE(store_.list<Experiment>({"g", "w"}).value().empty());
    EXPECT_TRUE(fs::is_empty(store_.home() / ".trash"));
    EXPECT_EQ(store_.remove<Experiment>({"g", "w", "e"}).error().exit_code,
              base::ExitCode::not_found);
}

TEST_F(StoreTest, ADamagedRecordIsAnErrorThatNamesPathAndPlace) {
    create_parents();
    const fs::path path = store_.home() / "groups/g/group.json";
    write(path, "{\"schema\": \"batchai-group/v1\",\n  \"location\" 7}");
    EXPECT_EQ(store_.get<Group>({"g"}).error().where, path.string() + ":2:14");
    const std::vector<std::pair<std::string, std::string>> cases{
        {"", ""},
        {"[]", "not an object"},
        {std::string(100000, '['), ""},
        {R"({"schema": "batchai-group/v2"})", "batchai-group/v2"},
        {R"({"schema": "batchai-group/v1"})", "\"location\" is missing"},
        {R"({"schema": "batchai-group/v1", "location": 7})", "\"location\" is not a string"},
        {R"({"schema": "batchai-group/v1", "location": "l", "tags": [], "creationTime": "x"})",
         "\"tags\" is not an object"},
        {R"({"schema": "batchai-group/v1", "location": "l", "tags": null, "creationTime": "x"})",
         "\"creationTime\" is not a time"},
    };
    for (const auto& [text, message] : cases) {
        write(path, text);
        const auto group = store_.get<Group>({"g"});
        ASSERT_FALSE(group) << text.substr(0, 60);
        EXPECT_THAT(group.error().where, HasSubstr(path.string()));
        EXPECT_THAT(group.error().text(), HasSubstr(message)) << text.substr(0, 60);
        EXPECT_FALSE(store_.list<Group>({}));
    }
}

// Breaks when one damaged record hides all other jobs.
TEST_F(StoreTest, ADamagedRecordOfAJobIsNamedBesideTheOthers) {
    create_parents();
    const ExperimentKey experiment{"g", "w", "e"};
    const fs::path jobs = store_.home() / "groups/g/workspaces/w/experiments/e/jobs";
    for (const char* name : {"a", "b"}) {
        fs::create_directories(jobs / name);
        write(jobs / name / "job.json", "{");
    }
    std::vector<base::Error> unreadable;
    const auto found = store_.jobs(experiment, {"a", "b", "none"}, &unreadable);
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->empty());
    ASSERT_EQ(unreadable.size(), 2U);
    EXPECT_THAT(unreadable[0].where, HasSubstr("jobs/a/"));
    EXPECT_FALSE(store_.list<Job>(experiment)) << "what decides about removing must see all";
}

// Breaks when a word of the command line makes a record that no later command can read.
TEST_F(StoreTest, ATextThatIsNotUtf8IsRefusedBeforeAnythingIsWritten) {
    Group group;
    group.key.group = "odd";
    group.location = "\xff\xfe";
    const auto created = store_.create(group);
    ASSERT_FALSE(created);
    EXPECT_EQ(created.error().exit_code, base::ExitCode::usage);
    EXPECT_TRUE(store_.list<Group>({}).value().empty());
}

TEST_F(StoreTest, ANamedPipeInARecordsPlaceDoesNotBlock) {
    create_parents();
    const fs::path path = store_.home() / "groups/g/group.json";
    fs::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_THAT(store_.get<Group>({"g"}).error().what, HasSubstr("not a regular file"));
}

TEST_F(StoreTest, EveryCutOfARecordIsAnErrorOrTheWholeRecord) {
    const std::string text = to_json(job("j"));
    const auto whole = from_json<Job>(text, "job.json", {"g", "w", "e", "j"});
    ASSERT_TRUE(whole);
    for (std::size_t length = 0; length + 2 < text.size(); ++length)
        EXPECT_FALSE(from_json<Job>(text.substr(0, length), "job.json", {})) << length;
}

TEST_F(StoreTest, AClusterScalesInExactlyOneWay) {
    Cluster cluster;
    cluster.key = {"g", "w", "c"};
    const auto read = [&](const std::optional<ManualScale>& manual,
                          const std::optional<AutoScale>& automatic) {
        cluster.scale = {.manual = manual, .auto_scale = automatic};
        return from_json<Cluster>(to_json(cluster), "cluster.json", cluster.key);
    };
    EXPECT_EQ(read(ManualScale{}, {}).value(), cluster);
    EXPECT_EQ(read({}, AutoScale{}).value(), cluster);
    for (const auto& refused : {read({}, {}), read(ManualScale{}, AutoScale{})})
        EXPECT_THAT(refused.error().what, HasSubstr("exactly one"));
}

TEST_F(StoreTest, AnUpdateKeepsTheRest) {
    create_parents();
    Cluster cluster;
    cluster.key = {"g", "w", "c"};
    cluster.vm_size = "x";
    ASSERT_TRUE(store_.create(cluster));
    ASSERT_TRUE(store_.update<Cluster>(cluster.key,
                                       [](Cluster& c) { c.scale.manual->target_node_count = 9; }));
    cluster.scale.manual->target_node_count = 9;
    EXPECT_EQ(store_.get<Cluster>(cluster.key).value(), cluster);
    EXPECT_FALSE(store_.update<Cluster>({"g", "w", "d"}, [](Cluster&) {}));
}

// Breaks when one of two concurrent updates is lost.
TEST_F(StoreTest, ConcurrentUpdatesAreAllKept) {
    create_parents();
    Cluster cluster;
    cluster.key = {"g", "w", "c"};
    cluster.scale.manual->target_node_count = 0;
    ASSERT_TRUE(store_.create(cluster));
    constexpr int threads = 4;
    constexpr int rounds = 25;
    std::vector<std::thread> writers;
    writers.reserve(threads);
    for (int i = 0; i < threads; ++i) {
        writers.emplace_back([&] {
            for (int round = 0; round < rounds; ++round)
                EXPECT_TRUE(store_.update<Cluster>(
                    cluster.key, [](Cluster& c) { ++c.scale.manual->target_node_count; }));
        });
    }
    for (std::thread& writer : writers)
        writer.join();
    EXPECT_EQ(store_.get<Cluster>(cluster.key)->scale.manual->target_node_count, threads * rounds);
}

TEST_F(StoreTest, OfManyCreatorsOfOneNameExactlyOneWins) {
    create_parents();
    for (int round = 0; round < 10; ++round) {
        std::atomic<int> groups = 0;
        std::atomic<int> clusters = 0;
        std::vector<std::thread> threads;
        threads.reserve(8);
        for (int i = 0; i < 8; ++i) {
            threads.emplace_back([&, round] {
                const std::string name = "n" + std::to_string(round);
                if (store_.create(Group{{name}, "local", {}, base::now()})) ++groups;
                Cluster cluster;
                cluster.key = {"g", "w", name};
                if (store_.create(cluster)) ++clusters;
            });
        }
        for (std::thread& thread : threads)
            thread.join();
        EXPECT_EQ(groups, 1);
        EXPECT_EQ(clusters, 1);
    }
}

TEST_F(StoreTest, AReaderNeverSeesAHalfWrittenRecord) {
    create_parents();
    Cluster cluster;
    cluster.key = {"g", "w", "c"};
    ASSERT_TRUE(store_.create(cluster));
    std::atomic<bool> stop = false;
    std::thread writer([&] {
        for (int i = 0; i < 50; ++i)
            static_cast<void>(store_.update<Cluster>(cluster.key, [&](Cluster& c) {
                c.properties = std::string(static_cast<std::size_t>(i) * 1000, 'x');
            }));
        stop = true;
    });
    while (!stop)
        EXPECT_TRUE(store_.get<Cluster>(cluster.key));
    writer.join();
}

TEST(StoreHome, ARelativeBatchaiHomeIsRefused) {
    ASSERT_EQ(setenv("BATCHAI_HOME", "relative/path", 1), 0);
    const auto refused = Store::open_default();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().exit_code, base::ExitCode::usage);
    ASSERT_EQ(setenv("BATCHAI_HOME", "/absolute/path", 1), 0);
    EXPECT_EQ(Store::open_default().value().home(), "/absolute/path");
    ASSERT_EQ(unsetenv("BATCHAI_HOME"), 0);
    ASSERT_EQ(setenv("HOME", "/home/someone", 1), 0);
    EXPECT_EQ(Store::open_default().value().home(), "/home/someone/.batchai");
}

}  // namespace
}  // namespace batchai::store
