// SPDX-License-Identifier: GPL-2.0-or-later
// Files in the shapes that users have are accepted without a word, and mean what they say.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "job/parse.hpp"
#include "job_text.hpp"

namespace batchai::job::test {
namespace {

std::vector<std::string> names_in_data() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(BATCHAI_JOB_DATA)) {
        names.push_back(entry.path().stem().string());
    }
    return names;
}

Parsed parse_data(const std::string& name) {
    return parse(read_data(std::string(BATCHAI_JOB_DATA) + "/" + name + ".json"));
}

JobSpec spec_of(const std::string& name) {
    Parsed parsed = parse_data(name);
    EXPECT_TRUE(parsed.spec.has_value()) << name;
    return parsed.spec.value_or(JobSpec());
}

class JobFile : public testing::TestWithParam<std::string> {};

TEST_P(JobFile, IsAcceptedWithoutADiagnostic) {
    const Parsed parsed = parse_data(GetParam());
    EXPECT_TRUE(parsed.spec.has_value());
    EXPECT_EQ(render_all(parsed.diagnostics, GetParam(), ""), "");
}

std::string data_name(const testing::TestParamInfo<std::string>& info) {
    std::string name = info.param;
    for (char& c : name)
        c = c == '-' ? '_' : c;
    return name;
}

INSTANTIATE_TEST_SUITE_P(Data, JobFile, testing::ValuesIn(names_in_data()), data_name);

TEST(TheTutorialsJob, IsReadAsItIsWritten) {
    const JobSpec spec = spec_of("tutorial");
    JobSpec wanted;
    wanted.node_count = 4;
    HorovodSettings horovod;
    horovod.python_script_file_path =
        "$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare/cifar/cifar_cnn_distributed.py";
    horovod.command_line_args = "--dir=$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare/cifar";
    wanted.toolkit = horovod;
    wanted.std_out_err_path_prefix = "$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare/cifar";
    AzureFileShare share;
    share.azure_file_url = "https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/myshare";
    share.relative_mount_path = "myshare";
    wanted.mount_volumes.azure_file_shares = {share};
    wanted.job_preparation =
        "apt update; apt install mpi-default-dev mpi-default-bin -y; pip install keras horovod";
    wanted.container_settings.emplace();
    wanted.container_settings->image = "tensorflow/tensorflow:1.8.0-gpu";
    EXPECT_EQ(spec, wanted);
    EXPECT_EQ(spec.max_wall_clock_time, std::chrono::hours(168));
    EXPECT_EQ(tool_type(spec.toolkit), "horovod");
}

TEST(EverySetting, ReachesTheModel) {
    const JobSpec spec = spec_of("every-setting");
    EXPECT_EQ(spec.scheduling_priority, SchedulingPriority::high);
    EXPECT_EQ(spec.cluster_id, "nc6cluster");
    EXPECT_EQ(spec.max_wall_clock_time, std::chrono::hours(36));
    EXPECT_EQ(spec.environment_variables[1], (EnvironmentVariable{"OMP_NUM_THREADS", "2"}));
    EXPECT_EQ(spec.secrets[0].value, "hush-hush");
    EXPECT_EQ(spec.secrets[1].value_secret_reference,
              (KeyVaultSecretReference{"/subscriptions/s/vaults/v", "https://v/secrets/k"}));
    ASSERT_TRUE(spec.container_settings && spec.container_settings->credentials);
    EXPECT_EQ(spec.container_settings->credentials->password, "pass-word");
    EXPECT_EQ(spec.container_settings->shm_size, "16gb");
    const MountVolumes& mounts = spec.mount_volumes;
    EXPECT_EQ(mounts.azure_file_shares[0].account_name, "shares");
    EXPECT_EQ(mounts.azure_file_shares[0].file_mode, "0644");
    EXPECT_EQ(mounts.azure_file_shares[0].credentials->account_key, "key-of-shares");
    EXPECT_EQ(mounts.azure_blob_file_systems[0].mount_options, "-o allow_other");
    EXPECT_EQ(mounts.file_servers[0], (FileServerMount{"nfs", "datasets", "nfs", "rw"}));
    EXPECT_EQ(mounts.unmanaged_file_systems[0], (UnmanagedFileSystem{"scratch", "data/scratch"}));
}

TEST(EachToolkit, IsReadIntoItsOwnSettings) {
    const auto toolkit_of = [](const std::string& name) { return spec_of(name).toolkit; };
    EXPECT_EQ(std::get<CustomMpiSettings>(toolkit_of("batch-scoring")).process_count, std::nullopt);
    EXPECT_EQ(std::get<CntkSettings>(toolkit_of("cntk-python")).language_type,
              CntkLanguage::python);
    EXPECT_EQ(std::get<CntkSettings>(toolkit_of("cntk-brainscript-distributed")).process_count, 2);
    EXPECT_TRUE(std::get<CaffeSettings>(toolkit_of("caffe")).config_file_path.has_value());
    EXPECT_EQ(tool_type(toolkit_of("caffe2-distributed")), "caffe2");
    EXPECT_EQ(std::get<ChainerSettings>(toolkit_of("chainer-infiniband")).process_count, 8);
    EXPECT_EQ(std::get<PyTorchSettings>(toolkit_of("pytorch-gloo")).communication_backend,
              CommunicationBackend::gloo);
    EXPECT_EQ(std::get<TensorFlowSettings>(toolkit_of("tensorflow-distributed")).worker_count, 2);
    EXPECT_EQ(tool_type(toolkit_of("custom-toolkit")), "custom");
}

TEST(OlderSchemas, HaveTheirOwnFields) {
    const Parsed parsed = parse(in_schema(
        "2017-09-01-preview",
        "\"priority\": -5, \"experimentName\": \"e\", \"location\": \"eastus\",\n"
        "\"outputDirectories\": [{\"id\": \"A\", \"pathPrefix\": \"p\", \"type\": \"Model\", "
        "\"createNew\": false}]"));
    ASSERT_TRUE(parsed.spec.has_value());
    std::string codes;
    for (const Diagnostic& diagnostic : parsed.diagnostics)
        codes += diagnostic.code + " " + diagnostic.message + "\n";
    EXPECT_EQ(codes,
              "W105 \"experimentName\" has no effect: the experiment is chosen when the job is "
              "created\n"
              "W105 \"location\" has no effect: a region belongs to a workspace\n"
              "W105 \"type\" has no effect: it only describes the directory\n");
    EXPECT_EQ(parsed.spec->schema, SchemaVersion::v2017_09_01_preview);
    EXPECT_EQ(parsed.spec->priority, -5);
    EXPECT_EQ(parsed.spec->scheduling_priority, SchedulingPriority::low);
    EXPECT_EQ(parsed.spec->experiment_name, "e");
    EXPECT_EQ(parsed.spec->output_directories[0].type, OutputType::model);
    EXPECT_FALSE(parsed.spec->output_directories[0].create_new);
}

TEST(OlderSchemas, PriorityGivesWayToSchedulingPriority) {
    const Parsed parsed =
        parse(in_schema("2018-03-01", "\"priority\": 900,\n\"schedulingPriority\": \"low\""));
    ASSERT_TRUE(parsed.spec.has_value());
    EXPECT_EQ(parsed.spec->scheduling_priority, SchedulingPriority::low);
    EXPECT_FALSE(parsed.spec->priority.has_value());
    ASSERT_EQ(parsed.diagnostics.size(), 2U);
    EXPECT_EQ(parsed.diagnostics[0].message,
              "\"priority\" has no effect beside \"schedulingPriority\"");
    EXPECT_EQ(parsed.diagnostics[0].position.line + 1, parsed.diagnostics[1].position.line);
}

TEST(Escapes, AreResolved) {
    const Parsed parsed = parse(with_properties(
        R"("environmentVariables": [{"name": "A", "value": "\"\\\/\n\t\u00e4\ud83d\ude00"}])"));
    ASSERT_TRUE(parsed.spec.has_value());
    EXPECT_EQ(parsed.spec->environment_variables[0].value, "\"\\/\n\t\u00e4\U0001F600");
}

TEST(NullForAnOptionalSetting, MeansAbsent) {
    const Parsed parsed = parse(with_properties("\"containerSettings\": null, \"secrets\": null"));
    ASSERT_TRUE(parsed.spec.has_value());
    EXPECT_FALSE(parsed.spec->container_settings.has_value());
}

TEST(Positions, AreKeptByJsonPointer) {
    const Parsed parsed = parse(with_properties(
        "\"mountVolumes\": {\"fileServers\": [\n  {\"fileServer\": {\"id\": \"nfs\"},\n"
        "   \"relativeMountPath\": \"a\"}]}"));
    const PositionTable& at = parsed.positions;
    const std::string mount = "/properties/mountVolumes/fileServers/0";
    EXPECT_EQ(at.find(mount + "/relativeMountPath"), (Position{7, 25, 3}));
    EXPECT_EQ(at.find(mount + "/fileServer/id"), (Position{6, 25, 5}));
    EXPECT_EQ(at.find(mount), (Position{6, 3, 1}));
    EXPECT_EQ(at.find("/properties/nodeCount"), (Position{3, 18, 1}));
    EXPECT_EQ(at.find(mount + "/mountOptions"), (Position{6, 3, 1})) << "the enclosing object";
    EXPECT_EQ(at.find("/properties/horovodSettings/processCount"), (Position{4, 24, 1}));
    EXPECT_EQ(PositionTable().find("/properties"), Position());
}

}  // namespace
}  // namespace batchai::job::test
