// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>

#include <gtest/gtest.h>

#include "job/parse.hpp"
#include "job/to_json.hpp"
#include "job_text.hpp"

namespace batchai::job::test {
namespace {

base::Value echo_of(const std::string& name) {
    const Parsed parsed = parse(read_data(std::string(BATCHAI_JOB_DATA) + "/" + name + ".json"));
    EXPECT_TRUE(parsed.spec.has_value());
    return to_json(parsed.spec.value_or(JobSpec()));
}

std::string sorted(const base::Value& value) {
    return base::format_json(value, base::KeyOrder::sorted);
}

TEST(Echo, OfTheTutorialIsWhatJobShowPrinted) {
    const base::Value wanted = base::parse_json(R"({
        "caffe2Settings": null, "caffeSettings": null, "chainerSettings": null, "cluster": null,
        "cntkSettings": null, "constraints": {"maxWallClockTime": "7 days, 0:00:00"},
        "containerSettings": {
            "imageSourceRegistry": {
                "credentials": null, "image": "tensorflow/tensorflow:1.8.0-gpu", "serverUrl": null},
            "shmSize": null},
        "customMpiSettings": null, "customToolkitSettings": null, "environmentVariables": null,
        "horovodSettings": {
            "commandLineArgs": "--dir=$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare/cifar",
            "processCount": 4, "pythonInterpreterPath": null,
            "pythonScriptFilePath":
                "$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare/cifar/cifar_cnn_distributed.py"},
        "inputDirectories": null,
        "jobPreparation": {"commandLine":
            "apt update; apt install mpi-default-dev mpi-default-bin -y; pip install keras horovod"},
        "mountVolumes": {
            "azureBlobFileSystems": null,
            "azureFileShares": [{
                "accountName": null,
                "azureFileUrl":
                    "https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/myshare",
                "credentials": {"accountKey": null, "accountKeySecretReference": null},
                "directoryMode": "0777", "fileMode": "0777", "relativeMountPath": "myshare"}],
            "fileServers": null, "unmanagedFileSystems": null},
        "nodeCount": 4, "outputDirectories": null, "pyTorchSettings": null,
        "schedulingPriority": "normal", "secrets": null,
        "stdOutErrPathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare/cifar",
        "tensorFlowSettings": null, "toolType": "horovod"})",
                                                "wanted")
                                   .value_or(base::Value());
    EXPECT_EQ(sorted(echo_of("tutorial")), sorted(wanted));
}

TEST(Echo, ShowsNoSecret) {
    const base::Value echo = echo_of("every-setting");
    EXPECT_EQ(sorted(echo["secrets"]),
              "[\n  {\n    \"name\": \"TOKEN\",\n    \"value\": null,\n"
              "    \"valueSecretReference\": null\n  },\n"
              "  {\n    \"name\": \"KEPT\",\n    \"value\": null,\n"
              "    \"valueSecretReference\": null\n  }\n]\n");
    const std::string all = sorted(echo);
    for (const char* secret : {"hush-hush", "pass-word", "key-of-shares"}) {
        EXPECT_EQ(all.find(secret), std::string::npos) << secret;
    }
    EXPECT_EQ(echo["environmentVariables"].array()->at(1)["value"], "2");
}

TEST(Echo, FillsInWhatTheServiceDid) {
    EXPECT_EQ(echo_of("chainer-distributed")["chainerSettings"]["processCount"], 2);
    EXPECT_EQ(echo_of("cntk-python")["cntkSettings"]["languageType"], "Python");
    EXPECT_TRUE(echo_of("batch-scoring")["customMpiSettings"]["processCount"].is_null());
    EXPECT_EQ(echo_of("pytorch-gloo")["pyTorchSettings"]["communicationBackend"], "Gloo");
}

// The echo of a job is itself a job file, so that a user can edit and submit it again.
TEST(Echo, CanBeReadAgain) {
    base::Value::Object echo = *echo_of("cntk-python-distributed").object();
    std::erase_if(echo, [](const auto& member) { return member.first == "toolType"; });
    const std::string text = base::format_json(base::Value::Object{{"properties", echo}});
    const Parsed again = parse(text);
    EXPECT_EQ(render_all(again.diagnostics, "again.json", text), "");
    ASSERT_TRUE(again.spec.has_value());
    EXPECT_EQ(to_json(*again.spec), echo_of("cntk-python-distributed"));
}

}  // namespace
}  // namespace batchai::job::test
