// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/schema/field_table.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <variant>

#include "job/schema/field_binding.hpp"
#include "job/schema/local_secret_fields.hpp"

namespace batchai::job {

namespace {

constexpr SchemaVersion preview = SchemaVersion::v2017_09_01_preview;
constexpr SchemaVersion march = SchemaVersion::v2018_03_01;
constexpr SchemaVersion may = SchemaVersion::v2018_05_01;

// What the toolkits run.

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
constexpr Object horovod_object = {"HorovodSettings", "Horovod: ranks of one Python script",
                                   horovod_fields};

constexpr std::array custom_mpi_fields = {
    text<&CustomMpiSettings::command_line>(
        "commandLine", "What each rank runs; without a launcher such as `mpirun`",
        R"("python $AZ_BATCHAI_INPUT_SCRIPT/score.py")")
        .required(),
    process_count<&CustomMpiSettings::process_count>(),
};
constexpr Object custom_mpi_object = {"CustomMpiSettings", "Any MPI program", custom_mpi_fields};

constexpr std::array custom_toolkit_fields = {
    text<&CustomToolkitSettings::command_line>(
        "commandLine", "Run once by a shell, on the first node only", R"("./train.sh --fast")")
        .with_presence(Presence::required_until_2018_03_01),
};
constexpr Object custom_toolkit_object = {
    "CustomToolkitSettings", "Any program that starts its own processes", custom_toolkit_fields};

constexpr std::array pytorch_fields = {
    script<&PyTorchSettings::python_script_file_path>().required(),
    interpreter<&PyTorchSettings::python_interpreter_path>(),
    arguments<&PyTorchSettings::command_line_args>(),
    process_count<&PyTorchSettings::process_count>(),
    choice<&PyTorchSettings::communication_backend>(
        "communicationBackend", communication_backends,
        "How the processes talk; not needed for one process", R"("Gloo")"),
};
constexpr Object pytorch_object = {"PyTorchSettings", "PyTorch's own distribution", pytorch_fields};

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
        "parameterServerCount", 0, maximum_nodes,
        "Number of parameter servers, at most one on a node", "1")
        .defaults_to("`1` if there are several processes"),
};
constexpr Object tensorflow_object = {"TensorFlowSettings",
                                      "TensorFlow, one process or workers with parameter servers",
                                      tensorflow_fields};

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
constexpr Object cntk_object = {"CntkSettings", "Microsoft Cognitive Toolkit", cntk_fields};

constexpr std::array caffe_fields = {
    config_file<&CaffeSettings::config_file_path>("Solver configuration"),
    script<&CaffeSettings::python_script_file_path>().in_group(Group::exactly_one, "program"),
    interpreter<&CaffeSettings::python_interpreter_path>().only_with(script_name),
    arguments<&CaffeSettings::command_line_args>(),
    process_count<&CaffeSettings::process_count>(),
};
constexpr Object caffe_object = {"CaffeSettings", "Caffe", caffe_fields};

constexpr std::array caffe2_fields = {
    script<&Caffe2Settings::python_script_file_path>().required(),
    interpreter<&Caffe2Settings::python_interpreter_path>(),
    arguments<&Caffe2Settings::command_line_args>(),
};
constexpr Object caffe2_object = {"Caffe2Settings", "Caffe2: one process on each node",
                                  caffe2_fields};

constexpr std::array chainer_fields = {
    script<&ChainerSettings::python_script_file_path>().required(),
    interpreter<&ChainerSettings::python_interpreter_path>(),
    arguments<&ChainerSettings::command_line_args>(),
    process_count<&ChainerSettings::process_count>(),
};
constexpr Object chainer_object = {"ChainerSettings", "ChainerMN: ranks of one Python script",
                                   chainer_fields};

// All else that a job has.

constexpr std::array cluster_fields = {
    text<&JobSpec::cluster_id>("id", "Name or resource id of the cluster", R"("nc6cluster")")
        .required()
        .checked(Check::word),
};
constexpr Object cluster_object = {"ClusterId", "Names a cluster", cluster_fields};

constexpr std::array registry_credentials_fields = {
    text<&RegistryCredentials::username>("username", "User of the registry", R"("$oauthtoken")")
        .required(),
    text<&RegistryCredentials::password>("password", "Password of that user", R"("...")")
        .in_group(Group::exactly_one, "password")
        .kept_secret(),
    object<&RegistryCredentials::password_secret_reference>(
        "passwordSecretReference", key_vault_secret_reference_object,
        "Where the password is kept, instead of the password itself")
        .in_group(Group::exactly_one, "password")
        .kept_secret(),
    from_env<&RegistryCredentials::from_env>(Group::exactly_one, "password"),
    from_file<&RegistryCredentials::from_file>(Group::exactly_one, "password"),
};
constexpr Object registry_credentials_object = {"RegistryCredentials", "How to open a registry",
                                                registry_credentials_fields};

constexpr std::array image_source_registry_fields = {
    text<&ContainerSettings::image>("image", "Image, with its registry unless that is the default",
                                    R"("tensorflow/tensorflow:1.8.0-gpu")")
        .required()
        .checked(Check::word),
    text<&ContainerSettings::server_url>("serverUrl", "URL of the registry", R"("nvcr.io")")
        .defaults_to("Docker Hub")
        .checked(Check::word),
    object<&ContainerSettings::credentials>("credentials", registry_credentials_object,
                                            "Credentials of the registry"),
};
constexpr Object image_source_registry_object = {
    "ImageSourceRegistry", "The image and where it comes from", image_source_registry_fields};

constexpr std::array container_settings_fields = {
    object_within<&ContainerSettings::image>("imageSourceRegistry", image_source_registry_object,
                                             "The image and where it comes from")
        .required(),
    text<&ContainerSettings::shm_size>("shmSize", "Size of `/dev/shm`: a number and b, k, m or g",
                                       R"("16gb")")
        .checked(Check::memory_size)
        .in_schemas(may, may),
};
constexpr Object container_settings_object = {"ContainerSettings",
                                              "The container that preparation and job run in",
                                              container_settings_fields};

constexpr std::array job_preparation_fields = {
    text<&JobSpec::job_preparation>("commandLine", "Run by a shell on every node of the job",
                                    R"("pip install keras")")
        .required(),
};
constexpr Object job_preparation_object = {
    "JobPreparation", "What happens on every node before the job starts", job_preparation_fields};

constexpr std::array input_directory_fields = {
    text<&InputDirectory::id>("id", "The path is known as `$AZ_BATCHAI_INPUT_<id>`", R"("DATA")")
        .required()
        .checked(Check::directory_id)
        .unique_as("input directory"),
    text<&InputDirectory::path>("path", "The directory",
                                R"("$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare/data")")
        .required()
        .checked(Check::path),
};
constexpr Object input_directory_object = {"InputDirectory", "A directory that the job reads",
                                           input_directory_fields};

constexpr std::array<std::string_view, 4> output_types = {"model", "logs", "summary", "custom"};
constexpr std::array output_directory_fields = {
    text<&OutputDirectory::id>("id", "The path is known as `$AZ_BATCHAI_OUTPUT_<id>`", R"("MODEL")")
        .required()
        .checked(Check::directory_id)
        .unique_as("output directory"),
    text<&OutputDirectory::path_prefix>("pathPrefix", "Directory below which it is made",
                                        R"("$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare")")
        .required()
        .checked(Check::path),
    text<&OutputDirectory::path_suffix>("pathSuffix", "Last part of its path", R"("Models")")
        .checked(Check::path),
    choice<&OutputDirectory::type>("type", output_types, "What is in it; for information only",
                                   R"("model")")
        .defaults_to(R"("custom")")
        .in_schemas(preview, march),
    boolean<&OutputDirectory::create_new>(
        "createNew", "`false`: nothing is made and `pathPrefix` is used as it is", "true")
        .defaults_to("true")
        .in_schemas(preview, march),
};
constexpr Object output_directory_object = {
    "OutputDirectory", "A directory that is made for the job's results", output_directory_fields};

constexpr std::array environment_variable_fields = {
    text<&EnvironmentVariable::name>("name", "Letters, digits and `_`; no digit in front",
                                     R"("NCCL_DEBUG")")
        .required()
        .checked(Check::variable_name)
        .unique_as("environment variable"),
    text<&EnvironmentVariable::value>("value", "Its value; `$NAME` is expanded", R"("INFO")")
        .with_presence(Presence::required_since_2018_03_01)
        .checked(Check::anything),
};
constexpr Object environment_variable_object = {
    "EnvironmentVariable", "A variable of preparation and job", environment_variable_fields};

constexpr std::array secret_variable_fields = {
    text<&SecretVariable::name>("name", "Letters, digits and `_`; no digit in front", R"("TOKEN")")
        .required()
        .checked(Check::variable_name)
        .unique_as("environment variable"),
    text<&SecretVariable::value>("value", "Its value", R"("...")")
        .checked(Check::anything)
        .in_group(Group::exactly_one, "value")
        .kept_secret(),
    object<&SecretVariable::value_secret_reference>(
        "valueSecretReference", key_vault_secret_reference_object,
        "Where the value is kept, instead of the value itself")
        .in_group(Group::exactly_one, "value")
        .kept_secret(),
    from_env<&SecretVariable::from_env>(Group::exactly_one, "value"),
    from_file<&SecretVariable::from_file>(Group::exactly_one, "value"),
};
constexpr Object secret_variable_object = {
    "SecretVariable", "A variable whose value is never shown", secret_variable_fields};

constexpr std::array constraints_fields = {
    duration<&JobSpec::max_wall_clock_time>(
        "maxWallClockTime", 1, 366LL * 24 * 60 * 60,
        "Longest run: `P7D`, `PT1H30M`, `7.00:00:00`, `7 days, 0:00:00` or `1:30:00`", R"("P1D")")
        .defaults_to("the limit of the partition"),
};
constexpr Object constraints_object = {"Constraints", "Limits of the job", constraints_fields};

constexpr std::array<std::string_view, 3> priorities = {"low", "normal", "high"};
// Batch AI reports these keys, so files that were made from its output contain them.
constexpr Field reported(std::string_view name, std::string_view doc, std::string_view example) {
    Field field;
    field.name = name;
    field.doc = doc;
    field.example = example;
    return field.ignored();
}

// Releases before 2018-05-01 had it beside "properties", and people wrote it in there as well.
constexpr Field location_field() {
    Field field;
    field.name = "location";
    field.doc = "Region of the job";
    field.example = R"("eastus")";
    return field.in_schemas(preview, march)
        .replaced_by("the workspace's location")
        .without_effect("a region belongs to a workspace");
}

constexpr Field tags_field() {
    Field field;
    field.name = "tags";
    field.kind = Kind::own;
    field.form = R"({"type": "object"})";
    field.form_name = "object";
    field.doc = "Tags of the job";
    field.example = R"({"team": "vision"})";
    return field.in_schemas(preview, march).without_effect("a job has no tags");
}

constexpr std::array properties_fields = {
    integer<&JobSpec::node_count>("nodeCount", 1, maximum_nodes,
                                  "Number of nodes; all start together", "4")
        .required(),
    integer<&JobSpec::spare_nodes>("spareNodes", 0, maximum_nodes,
                                   "Nodes that the job gets besides, one of which takes the place "
                                   "of a node that is lost or cannot be used. This key is an "
                                   "extension",
                                   "1")
        .defaults_to("0")
        .own_extension(),
    toolkit<HorovodSettings>(horovod_object).in_schemas(may, may),
    toolkit<CustomMpiSettings>(custom_mpi_object).in_schemas(may, may),
    toolkit<CustomToolkitSettings>(custom_toolkit_object),
    toolkit<PyTorchSettings>(pytorch_object).in_schemas(march, may),
    toolkit<TensorFlowSettings>(tensorflow_object),
    toolkit<CntkSettings>(cntk_object),
    toolkit<CaffeSettings>(caffe_object),
    toolkit<Caffe2Settings>(caffe2_object),
    toolkit<ChainerSettings>(chainer_object),
    text<&JobSpec::std_out_err_path_prefix>("stdOutErrPathPrefix",
                                            "Directory below which the logs are written",
                                            R"("$AZ_BATCHAI_JOB_MOUNT_ROOT/myshare")")
        .required()
        .checked(Check::path),
    object<&JobSpec::mount_volumes>("mountVolumes", mount_volumes_object,
                                    "Directories that are mounted for the job")
        .in_schemas(march, may),
    object<&JobSpec::container_settings>("containerSettings", container_settings_object,
                                         "The container that preparation and job run in")
        .defaults_to("the job runs directly on the node"),
    object_within<&JobSpec::job_preparation>("jobPreparation", job_preparation_object,
                                             "What happens on every node before the job starts"),
    list<&JobSpec::input_directories>("inputDirectories", input_directory_object,
                                      "Directories that the job reads"),
    list<&JobSpec::output_directories>("outputDirectories", output_directory_object,
                                       "Directories that are made for the job's results"),
    list<&JobSpec::environment_variables>("environmentVariables", environment_variable_object,
                                          "Variables of preparation and job"),
    list<&JobSpec::secrets>("secrets", secret_variable_object,
                            "Variables whose values are never shown")
        .in_schemas(march, may),
    object_within<&JobSpec::max_wall_clock_time>("constraints", constraints_object,
                                                 "Limits of the job"),
    choice<&JobSpec::scheduling_priority>("schedulingPriority", priorities,
                                          "Place among the jobs that wait for the cluster",
                                          R"("normal")")
        .defaults_to(R"("normal")")
        .in_schemas(may, may),
    object<&JobSpec::slurm>("slurm", slurm_object,
                            "Options of `sbatch`. This key is an extension: Batch AI's schema does "
                            "not have it")
        .own_extension(),
    object<&JobSpec::retry>("retry", retry_object,
                            "When the job is run again after a failure. This key is an extension")
        .defaults_to("Slurm runs the job again after a node failure or a pre-emption, if it may")
        .own_extension(),
    object<&JobSpec::checkpoint>("checkpoint", checkpoint_object,
                                 "The signal that tells the ranks to write a checkpoint before "
                                 "they are ended. This key is an extension")
        .own_extension(),
    object<&JobSpec::watch>("watch", watch_object,
                            "Notices that the job stands still. This key is an extension")
        .own_extension(),
    object<&JobSpec::software>("software", software_object,
                               "Modules and a Python environment of the nodes that preparation "
                               "and job find. This key is an extension")
        .own_extension(),
    object<&JobSpec::snapshot>("snapshot", snapshot_object,
                               "A copy of the program's directory, made when the job is "
                               "submitted, from which the job runs. This key is an extension")
        .own_extension(),
    object<&JobSpec::notification>("notification", notification_object,
                                   "Who is told that the job has ended. This key is an extension")
        .own_extension(),
    object<&JobSpec::sweep>("sweep", sweep_object,
                            "Runs the job once for each point of a set of parameters. This key is "
                            "an extension")
        .own_extension(),
    object_within<&JobSpec::cluster_id>("cluster", cluster_object, "The cluster")
        .defaults_to("the one named on the command line"),
    reported("toolType", "The toolkit's name as the service reports it", R"("horovod")"),
    integer<&JobSpec::priority>("priority", -1000, 1000, "Priority as a number", "0")
        .defaults_to("0")
        .in_schemas(preview, march)
        .replaced_by("schedulingPriority"),
    text<&JobSpec::experiment_name>("experimentName", "Experiment of the job; ignored",
                                    R"("cifar")")
        .in_schemas(preview, march)
        .replaced_by("--experiment on the command line"),
    location_field(),
};

static_assert(std::count_if(properties_fields.begin(), properties_fields.end(),
                            [](const Field& field) { return field.group_name == "toolkit"; }) ==
                  std::variant_size_v<Toolkit>,
              "each toolkit needs its row");

constexpr std::array job_file_fields = {
    object_within<&JobSpec::node_count>("properties", properties_object, "The job's settings")
        .required(),
    reported("id", "The job's resource id as the service reports it",
             R"("/subscriptions/S/resourceGroups/G/providers/Microsoft.BatchAI/jobs/J")"),
    reported("name", "The job's name as the service reports it", R"("train")"),
    reported("type", "The type of the resource as the service reports it",
             R"("Microsoft.BatchAI/jobs")"),
    location_field(),
    tags_field(),
};

}  // namespace

constexpr Object properties_object = {
    "JobProperties", "The settings of a job. Exactly one toolkit is given.", properties_fields};
constexpr Object job_file_object = {
    "JobFile", "A job file is an object with the key `properties`; it may have a `$schema`.",
    job_file_fields};

}  // namespace batchai::job
