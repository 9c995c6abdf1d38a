// SPDX-License-Identifier: GPL-2.0-or-later
// What a released version wrote, later versions read. Each directory beside this file is the home
// that a release would make, with every member of each record. A new release gets one:
//
//     BATCHAI_NEW_RELEASE=tests/unit/records/0.2.0 records_test
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "plan/plan_file.hpp"
#include "plan/sweep_file.hpp"
#include "record/attempt.hpp"
#include "record/job_files.hpp"
#include "record/node_notes.hpp"
#include "record/rank_logs.hpp"
#include "record/retries.hpp"
#include "record/snapshot.hpp"
#include "record/usage.hpp"
#include "store/store.hpp"
#include "tests/unit/filled.hpp"

namespace batchai {

namespace {

namespace fs = std::filesystem;

const store::JobKey job_key{"group", "workspace", "experiment", "job"};
constexpr const char* slurm_job = "12";
constexpr const char* node = "h1";

// Only processes of one version use these: those of one attempt, and the parts of one installation.
// A report is for other programs.
const std::set<std::string> not_kept{
    "batchai-bundle/v1",         "batchai-hosts-update/v1", "batchai-ranks-left/v1",
    "batchai-ranks-stay/v1",     "batchai-ranks-lost/v1",   "batchai-ranks-lost-answer/v1",
    "batchai-resize-request/v1", "batchai-health/v1",       "batchai-report/v1",
    "batchai-stacks/v1",         "batchai-torch/v1"};

template <typename T>
T must(base::Result<T> result) {
    if (!result) throw std::runtime_error(result.error().text());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

std::string text_of(const fs::path& path) {
    return must(base::read_file(path));
}

void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    must(base::write_atomically(path, text));
}

// All that a home has: the resources of each kind, and the files of one job.
struct Home {
    store::Group group;
    store::Workspace workspace;
    store::Experiment experiment;
    store::Cluster cluster;
    store::StorageAccount account;
    store::FileServer server;
    store::Job job;
    plan::Plan plan;
    plan::Sweep sweep;
    record::Attempt attempt;
    record::RankPlaces places;
    record::RetryCount retries;
    record::Snapshot snapshot;
    record::FailureNote failure;
    record::StorageNote storage;
    record::NodeUsage usage;
    record::Piece piece;
};

Home full_home() {
    const std::string text = "text";
    const base::Time time(std::chrono::seconds(1'700'000'000));
    const store::Tags tags{{"key", "value"}};
    const store::WorkspaceKey workspace{"group", "workspace"};
    Home home{
        .group = {{"group"}, "here", tags, time},
        .workspace = {workspace, "here", tags, time},
        .experiment = {job_key.parent(), time},
        .cluster = {.key = {"group", "workspace", "cluster"},
                    .uuid = "5f0c",
                    .vm_size = "gpu",
                    .vm_priority = store::VmPriority::low_priority,
                    .scale = {.manual = {},
                              .auto_scale = store::AutoScale{.minimum_node_count = 1,
                                                             .maximum_node_count = 4,
                                                             .initial_node_count = 2}},
                    .admin_user_name = "alice",
                    .admin_user_ssh_public_key = "ssh-ed25519 AAAA",
                    .properties = base::Value::Object{{"nodeSetup", base::Value::Object{}}},
                    .creation_time = time,
                    .allocation_state_transition_time = time,
                    .scaling = store::Scaling::power_saving,
                    .nodes = {"h1", "h2"},
                    .leaving = {"h2"},
                    .held_jobs = {"11"}},
        .account = {{"group", "account"}, "here", "Standard_LRS", tags, time},
        .server = {.key = {"group", "workspace", "server"},
                   .vm_size = "gpu",
                   .disk_count = 2,
                   .disk_size = 64,
                   .caching_type = "readonly",
                   .storage_sku = "Premium_LRS",
                   .admin_user_name = "alice",
                   .creation_time = time},
        .job = {.key = job_key,
                .uuid = "5f0d",
                .subscription = "subscription",
                .cluster = "cluster",
                .cluster_group = "group",
                .cluster_workspace = "other",
                .tool_type = "horovod",
                .node_count = 2,
                .properties = base::Value::Object{{"nodeCount", 2}},
                .plan_digest = "ab12",
                .slurm_job_id = slurm_job,
                .is_array = true,
                .array = "0-3%2",
                .array_runs = {{.slurm_job_id = "13", .tasks = "1,3", .attempts_before = 1}},
                .creation_time = time,
                .termination_requested = time},
        .storage = {.node = "h2", .slurm_job_id = slurm_job, .until = time},
        .usage = {.step = "1",
                  .number = 3,
                  .node = node,
                  .head = {.start = time, .interval = 10, .cpus = 4, .memory = 1LL << 30},
                  .samples = {{.time = time + std::chrono::seconds(10),
                               .cpu_seconds = 20.5,
                               .memory = 3LL << 20,
                               .peak = 4LL << 20,
                               .threads = 7,
                               .read = 1 << 20,
                               .written = 2 << 20,
                               .received = 3 << 20,
                               .sent = 4 << 20,
                               .ranks = {{.rank = 5, .cpu_seconds = 20.5, .memory = 3LL << 20}},
                               .gpus = {{.index = 1,
                                         .busy = 50,
                                         .memory = 5LL << 20,
                                         .watts = 300,
                                         .mean_busy = 40}}}},
                  .ended = true},
        .piece = {.time = time,
                  .offset = 1ULL << 33U,
                  .length = 80,
                  .rank = 5,
                  .stream = record::RankStream::error},
    };
    base::fill(home.plan, text);
    base::fill(home.sweep, text);
    base::fill(home.attempt, text);
    base::fill(home.places, text);
    base::fill(home.retries, text);
    base::fill(home.snapshot, text);
    base::fill(home.failure, text);
    home.failure.node = node;
    return home;
}

void write_home(const Home& home, const fs::path& path) {
    const store::Store store(path);
    must(store.create(home.group));
    must(store.create(home.workspace));
    must(store.create(home.experiment));
    must(store.create(home.cluster));
    must(store.create(home.account));
    must(store.create(home.server));
    const record::JobFiles files = store.job_files(job_key);
    write(files.record(), store::to_json(home.job));
    write(files.plan(), plan::to_json(home.plan));
    write(files.sweep(), plan::to_json(home.sweep));
    write(files.attempt(1), record::to_json(home.attempt));
    must(record::write_rank_places(files, "1", home.places));
    must(record::write_retry_count(files, home.retries));
    must(record::write_snapshot(files, home.snapshot));
    fs::create_directories(files.node_logs());
    ASSERT_TRUE(record::write_failure_note(files, home.failure));
    record::StorageNote note = home.storage;
    note.path = files.storage_note(note.node, "5f0e").string();  // another time it has a random one
    record::rewrite_storage_note(note);
    std::string usage = usage_line(home.usage.head);
    for (const record::UsageSample& sample : home.usage.samples)
        usage += usage_line(sample, home.usage.head, record::SampleDetail::record);
    if (home.usage.ended) usage += fmt::format("{}\n", record::usage_end);
    write(files.usage(home.usage.step, home.usage.number, home.usage.node), usage);
    const auto piece = record::encode(home.piece);
    write(files.rank_pieces("1"), std::string(piece.data(), piece.size()));
}

Home read_home(const fs::path& path) {
    const store::Store store(path);
    const store::WorkspaceKey workspace{"group", "workspace"};
    const record::JobFiles files = store.job_files(job_key);
    const auto usage = record::usage_of_attempt(files, 1);
    const auto failures = record::failure_notes(files);
    const auto storage = record::storage_notes(files, slurm_job);
    if (usage.size() != 1 || failures.size() != 1 || storage.size() != 1)
        throw std::runtime_error("a file of usage or a note of a node is not understood");
    std::array<char, record::piece_bytes> piece{};
    const std::string bytes = text_of(files.rank_pieces("1"));
    std::copy_n(bytes.begin(), std::min(bytes.size(), piece.size()), piece.begin());
    return {.group = must(store.get<store::Group>({"group"})),
            .workspace = must(store.get<store::Workspace>(workspace)),
            .experiment = must(store.get<store::Experiment>(job_key.parent())),
            .cluster = must(store.get<store::Cluster>({"group", "workspace", "cluster"})),
            .account = must(store.get<store::StorageAccount>({"group", "account"})),
            .server = must(store.get<store::FileServer>({"group", "workspace", "server"})),
            .job = must(store.get<store::Job>(job_key)),
            .plan = must(plan::plan_from_json(text_of(files.plan()))),
            .sweep = must(plan::sweep_from_json(text_of(files.sweep()))),
            .attempt = must(record::attempt_of(files, 1)).value(),
            .places = must(record::read_rank_places(files, "1")),
            .retries = must(record::read_retry_count(files)).value(),
            .snapshot = must(record::read_snapshot(files)).value(),
            .failure = failures.front(),
            .storage = storage.front(),
            .usage = usage.front(),
            .piece = record::decode_piece(piece)};
}

// The files with something in them; locks have nothing.
std::vector<fs::path> files_of(const fs::path& home) {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(home)) {
        if (entry.is_regular_file() && entry.file_size() > 0)
            out.push_back(entry.path().lexically_relative(home));
    }
    std::sort(out.begin(), out.end());
    return out;
}

// Returns the keys of `earlier` that `now` lacks or has another value for.
std::vector<std::string> lost(const base::Value& earlier, const base::Value& now,
                              const std::string& place = {}) {
    std::vector<std::string> out;
    const auto add = [&](const base::Value& a, const base::Value& b, const std::string& where) {
        for (std::string& key : lost(a, b, where))
            out.push_back(std::move(key));
    };
    if (const auto* const members = earlier.object(); members != nullptr && now.is_object()) {
        for (const auto& [key, value] : *members)
            if (key != "schema") add(value, now[key], place + "." + key);
    } else if (const auto* const items = earlier.array();
               items != nullptr && now.is_array() && items->size() == now.array()->size()) {
        for (std::size_t i = 0; i < items->size(); ++i)
            add((*items)[i], (*now.array())[i], fmt::format("{}[{}]", place, i));
    } else if (!(earlier == now)) {
        out.push_back(place);
    }
    return out;
}

class Releases : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "records.XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        directory_ = name;
    }
    void TearDown() override { fs::remove_all(directory_); }

    fs::path directory_;
};

std::vector<fs::path> releases() {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(BATCHAI_RELEASES))
        if (entry.is_directory()) out.push_back(entry.path());
    return out;
}

}  // namespace

// What this version has read and written again still says what the release has written.
TEST_F(Releases, AreReadWithAllThatTheyHaveWritten) {
    ASSERT_FALSE(releases().empty());
    for (const fs::path& release : releases()) {
        const fs::path again = directory_ / release.filename();
        ASSERT_NO_THROW(write_home(read_home(release), again)) << release;
        for (const fs::path& file : files_of(release)) {
            SCOPED_TRACE((release / file).string());
            const std::string earlier = text_of(release / file);
            ASSERT_TRUE(fs::exists(again / file));
            const std::string now = text_of(again / file);
            if (file.extension() == ".json")
                EXPECT_THAT(lost(must(base::parse_json(earlier, "the release")),
                                 must(base::parse_json(now, "this version"))),
                            ::testing::IsEmpty());
            else
                EXPECT_EQ(earlier, now);
        }
    }
}

// Each format of the sources is among those of a release, or is one that no later version reads.
// For a new one, make the directory of the next release, which can be made again until that is
// released.
TEST_F(Releases, HaveEachFormat) {
    const std::regex format("\"(batchai-[a-z-]+/v[0-9]+)\"");
    std::set<std::string> released;
    for (const fs::path& release : releases()) {
        for (const fs::path& file : files_of(release)) {
            const std::string text = text_of(release / file);
            for (std::sregex_iterator match(text.begin(), text.end(), format), end; match != end;
                 ++match)
                released.insert((*match)[1]);
            if (text.starts_with("batchai-")) released.insert(text.substr(0, text.find(' ')));
        }
    }
    const fs::path sources = fs::path(BATCHAI_SOURCE) / "launcher";
    for (const auto& entry : fs::recursive_directory_iterator(sources)) {
        if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
        const std::string text = text_of(entry.path());
        for (std::sregex_iterator match(text.begin(), text.end(), format), end; match != end;
             ++match)
            EXPECT_TRUE(released.contains((*match)[1]) || not_kept.contains((*match)[1]))
                << entry.path() << " has " << (*match)[1]
                << ", which the newest directory of records does not have";
    }
}

// The writers of this version, for the next release.
TEST_F(Releases, CanBeMade) {
    const char* const wanted = std::getenv("BATCHAI_NEW_RELEASE");
    const fs::path home = wanted != nullptr ? fs::absolute(wanted) : directory_ / "new";
    ASSERT_NO_THROW(write_home(full_home(), home));
    const Home read = read_home(home);
    EXPECT_EQ(read.plan, full_home().plan);
    EXPECT_EQ(read.job, full_home().job);
    EXPECT_EQ(read.cluster, full_home().cluster);
}

}  // namespace batchai
