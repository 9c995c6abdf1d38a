// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>

#include "job/schema/field_binding.hpp"
#include "job/schema/field_table.hpp"

namespace batchai::job {

namespace {

using Reference = KeyVaultSecretReference;

constexpr std::array source_vault_fields = {
    text<&Reference::source_vault_id>("id", "Id of the key vault",
                                      R"("/subscriptions/.../vaults/keys")")
        .required()
        .checked(Check::word),
};
constexpr Object source_vault_object = {"SourceVault", "A key vault", source_vault_fields};

constexpr std::array key_vault_secret_reference_fields = {
    object_within<&Reference::source_vault_id>("sourceVault", source_vault_object,
                                               "The key vault that holds the secret")
        .required(),
    text<&Reference::secret_url>("secretUrl", "URL of the secret in the key vault",
                                 R"("https://keys.vault.azure.net/secrets/storage")")
        .required()
        .checked(Check::word),
};

constexpr std::array storage_credentials_fields = {
    text<&StorageCredentials::account_key>("accountKey", "Key of the storage account",
                                           R"("<AZURE_BATCHAI_STORAGE_KEY>")")
        .checked(Check::word)
        .in_group(Group::at_most_one, "account key")
        .kept_secret(),
    object<&StorageCredentials::account_key_secret_reference>(
        "accountKeySecretReference", key_vault_secret_reference_object,
        "Where the key is kept, instead of the key itself")
        .in_group(Group::at_most_one, "account key")
        .kept_secret(),
};
constexpr Object storage_credentials_object = {
    "StorageCredentials", "How to open a storage account", storage_credentials_fields};

template <auto Pointer>
constexpr Field relative_mount_path() {
    return text<Pointer>("relativeMountPath",
                         "Directory below `$AZ_BATCHAI_JOB_MOUNT_ROOT` where it is mounted",
                         R"("myshare")")
        .required()
        .checked(Check::relative_mount_path);
}

template <auto Pointer>
constexpr Field mount_options() {
    return text<Pointer>("mountOptions", "Options of the mount; the site decides which it follows",
                         R"("rw")")
        .checked(Check::path);
}

// Batch AI's `job show` always prints the credentials of a mount, with nothing in them.
template <auto Pointer>
constexpr Field credentials() {
    Field field =
        object<Pointer>("credentials", storage_credentials_object, "Credentials of the account")
            .defaults_to("those that the site or the command line has for the account");
    field.access.count = [](const void*) -> std::size_t { return 1; };
    field.access.at = [](const void* owner, std::size_t) -> const void* {
        static const StorageCredentials none;
        const auto& held = MemberOf<Pointer>::of(owner);
        return held ? &*held : &none;
    };
    return field;
}

constexpr std::array azure_file_share_fields = {
    text<&AzureFileShare::account_name>("accountName", "Storage account", R"("mystorageaccount")")
        .defaults_to("the first part of the host in `azureFileUrl`")
        .checked(Check::path_component),
    text<&AzureFileShare::azure_file_url>(
        "azureFileUrl", "URL of the share, or of a directory in it",
        R"("https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/myshare")")
        .required()
        .checked(Check::file_share_url),
    credentials<&AzureFileShare::credentials>(),
    relative_mount_path<&AzureFileShare::relative_mount_path>(),
    text<&AzureFileShare::file_mode>("fileMode", "Permissions of files", R"("0777")")
        .defaults_to(R"("0777")")
        .checked(Check::octal_mode),
    text<&AzureFileShare::directory_mode>("directoryMode", "Permissions of directories",
                                          R"("0777")")
        .defaults_to(R"("0777")")
        .checked(Check::octal_mode),
};
constexpr Object azure_file_share_object = {"AzureFileShare", "A file share of a storage account",
                                            azure_file_share_fields};

constexpr std::array azure_blob_file_system_fields = {
    text<&AzureBlobFileSystem::account_name>("accountName", "Storage account",
                                             R"("mystorageaccount")")
        .required()
        .checked(Check::path_component),
    text<&AzureBlobFileSystem::container_name>("containerName", "Blob container", R"("data")")
        .required()
        .checked(Check::path_component),
    credentials<&AzureBlobFileSystem::credentials>(),
    relative_mount_path<&AzureBlobFileSystem::relative_mount_path>(),
    mount_options<&AzureBlobFileSystem::mount_options>(),
};
constexpr Object azure_blob_file_system_object = {
    "AzureBlobFileSystem", "A blob container of a storage account", azure_blob_file_system_fields};

constexpr std::array file_server_id_fields = {
    text<&FileServerMount::file_server_id>("id", "Name or resource id of the file server",
                                           R"("datasets")")
        .required()
        .checked(Check::word),
};
constexpr Object file_server_id_object = {"FileServerId", "Names a file server",
                                          file_server_id_fields};

constexpr std::array file_server_fields = {
    object_within<&FileServerMount::file_server_id>("fileServer", file_server_id_object,
                                                    "The file server")
        .required(),
    text<&FileServerMount::source_directory>("sourceDirectory", "Directory of the server",
                                             R"("cifar")")
        .defaults_to("the whole server")
        .checked(Check::path),
    relative_mount_path<&FileServerMount::relative_mount_path>(),
    mount_options<&FileServerMount::mount_options>(),
};
constexpr Object file_server_object = {"FileServerMount", "A directory of a file server",
                                       file_server_fields};

constexpr std::array unmanaged_file_system_fields = {
    text<&UnmanagedFileSystem::mount_command>(
        "mountCommand", "Names a mount that the site defines; it is never run as a command",
        R"("scratch")")
        .required()
        .checked(Check::path),
    relative_mount_path<&UnmanagedFileSystem::relative_mount_path>(),
};
constexpr Object unmanaged_file_system_object = {
    "UnmanagedFileSystem", "A file system that the site's administrator has set up",
    unmanaged_file_system_fields};

constexpr std::array mount_volumes_fields = {
    list<&MountVolumes::azure_file_shares>("azureFileShares", azure_file_share_object,
                                           "File shares of storage accounts"),
    list<&MountVolumes::azure_blob_file_systems>("azureBlobFileSystems",
                                                 azure_blob_file_system_object,
                                                 "Blob containers of storage accounts"),
    list<&MountVolumes::file_servers>("fileServers", file_server_object,
                                      "Directories of file servers"),
    list<&MountVolumes::unmanaged_file_systems>("unmanagedFileSystems",
                                                unmanaged_file_system_object,
                                                "File systems that the site has set up"),
};

}  // namespace

constexpr Object key_vault_secret_reference_object = {"KeyVaultSecretReference",
                                                      "A secret that is kept in a key vault",
                                                      key_vault_secret_reference_fields};
constexpr Object mount_volumes_object = {
    "MountVolumes",
    "Directories that appear below `$AZ_BATCHAI_JOB_MOUNT_ROOT` while the job runs. No two may "
    "have "
    "the same `relativeMountPath`, and none may lie inside another.",
    mount_volumes_fields};

namespace {

constexpr std::string_view script_name = "pythonScriptFilePath";

template <auto Pointer>
constexpr Field script() {
    return text<Pointer>(script_name, "Python script that each process runs",
                         R"("$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare/train.py")")
        .checked(Check::path);
}

template <auto Pointer>
constexpr Field interpreter() {
    return text<Pointer>("pythonInterpreterPath", "Python interpreter", R"("/usr/bin/python3")")
        .defaults_to("the site's, found on `PATH`")
        .checked(Check::path);
}

template <auto Pointer>
constexpr Field arguments(
    std::string_view name = "commandLineArgs",
    std::string_view doc = "Arguments, as written on a shell's command line") {
    return text<Pointer>(name, doc, R"("--epochs=10 --dir=$AZ_BATCHAI_OUTPUT_MODEL")")
        .checked(Check::anything);
}

template <auto Pointer>
constexpr Field process_count() {
    return integer<Pointer>("processCount", 1, maximum_processes,
                            "Number of processes over all nodes", "8")
        .defaults_to("`nodeCount`");
}

template <auto Pointer>
constexpr Field config_file(std::string_view doc) {
    return text<Pointer>("configFilePath", doc, R"("$AZ_BATCHAI_INPUT_CONFIG/network.config")")
        .checked(Check::path)
        .in_group(Group::exactly_one, "program");
}

constexpr std::array horovod_fields = {
    script<&HorovodSettings::python_script_file_path>().required(),
    interpreter<&HorovodSettings::python_interpreter_path>(),
    arguments<&HorovodSettings::command_line_args>(),
    process_count<&HorovodSettings::process_count>(),
};

constexpr std::array custom_mpi_fields = {
    text<&CustomMpiSettings::command_line>(
        "commandLine", "What each rank runs; without a launcher such as `mpirun`",
        R"("python $AZ_BATCHAI_INPUT_SCRIPT/score.py")")
        .required(),
    process_count<&CustomMpiSettings::process_count>(),
};

constexpr std::array custom_toolkit_fields = {
    text<&CustomToolkitSettings::command_line>(
        "commandLine", "Run once by a shell, on the first node only", R"("./train.sh --fast")")
        .with_presence(Presence::required_until_2018_03_01),
};

constexpr std::array<std::string_view, 3> backends = {"TCP", "Gloo", "MPI"};
constexpr std::array pytorch_fields = {
    script<&PyTorchSettings::python_script_file_path>().required(),
    interpreter<&PyTorchSettings::python_interpreter_path>(),
    arguments<&PyTorchSettings::command_line_args>(),
    process_count<&PyTorchSettings::process_count>(),
    choice<&PyTorchSettings::communication_backend>(
        "communicationBackend", backends, "How the processes talk; not needed for one process",
        R"("Gloo")"),
};

using TensorFlow = TensorFlowSettings;
constexpr std::array tensorflow_fields = {
    script<&TensorFlow::python_script_file_path>().required(),
    interpreter<&TensorFlow::python_interpreter_path>(),
    arguments<&TensorFlow::master_command_line_args>("masterCommandLineArgs",
                                                     "Arguments of the master, which is worker 0")
        .with_presence(Presence::required_in_preview),
    arguments<&TensorFlow::worker_command_line_args>("workerCommandLineArgs",
                                                     "Arguments of the other workers"),
    arguments<&TensorFlow::parameter_server_command_line_args>(
        "parameterServerCommandLineArgs", "Arguments of the parameter servers"),
    integer<&TensorFlow::worker_count>("workerCount", 1, maximum_processes, "Number of workers",
                                       "4")
        .defaults_to("`nodeCount`"),
    integer<&TensorFlow::parameter_server_count>(
        "parameterServerCount", 1, maximum_nodes,
        "Number of parameter servers, at most one on a node", "1")
        .defaults_to("`1` when the job is distributed"),
};

constexpr std::array<std::string_view, 2> languages = {"BrainScript", "Python"};
constexpr std::array cntk_fields = {
    choice<&CntkSettings::language_type>("languageType", languages, "Language of the program",
                                         R"("Python")")
        .defaults_to("what the program's kind says"),
    config_file<&CntkSettings::config_file_path>("BrainScript configuration"),
    script<&CntkSettings::python_script_file_path>().in_group(Group::exactly_one, "program"),
    interpreter<&CntkSettings::python_interpreter_path>().only_with(script_name),
    arguments<&CntkSettings::command_line_args>(),
    process_count<&CntkSettings::process_count>(),
};

constexpr std::array caffe_fields = {
    config_file<&CaffeSettings::config_file_path>("Solver configuration"),
    script<&CaffeSettings::python_script_file_path>().in_group(Group::exactly_one, "program"),
    interpreter<&CaffeSettings::python_interpreter_path>().only_with(script_name),
    arguments<&CaffeSettings::command_line_args>(),
    process_count<&CaffeSettings::process_count>(),
};

constexpr std::array caffe2_fields = {
    script<&Caffe2Settings::python_script_file_path>().required(),
    interpreter<&Caffe2Settings::python_interpreter_path>(),
    arguments<&Caffe2Settings::command_line_args>(),
};

constexpr std::array chainer_fields = {
    script<&ChainerSettings::python_script_file_path>().required(),
    interpreter<&ChainerSettings::python_interpreter_path>(),
    arguments<&ChainerSettings::command_line_args>(),
    process_count<&ChainerSettings::process_count>(),
};

}  // namespace

constexpr Object horovod_object = {"HorovodSettings", "Horovod: ranks of one Python script",
                                   horovod_fields};
constexpr Object custom_mpi_object = {"CustomMpiSettings", "Any MPI program", custom_mpi_fields};
constexpr Object custom_toolkit_object = {
    "CustomToolkitSettings", "Any program that starts its own processes", custom_toolkit_fields};
constexpr Object pytorch_object = {"PyTorchSettings", "PyTorch's own distribution", pytorch_fields};
constexpr Object tensorflow_object = {"TensorFlowSettings",
                                      "TensorFlow, one process or workers with parameter servers",
                                      tensorflow_fields};
constexpr Object cntk_object = {"CntkSettings", "Microsoft Cognitive Toolkit", cntk_fields};
constexpr Object caffe_object = {"CaffeSettings", "Caffe", caffe_fields};
constexpr Object caffe2_object = {"Caffe2Settings", "Caffe2: one process on each node",
                                  caffe2_fields};
constexpr Object chainer_object = {"ChainerSettings", "ChainerMN: ranks of one Python script",
                                   chainer_fields};

}  // namespace batchai::job
