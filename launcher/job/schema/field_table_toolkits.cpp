// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>

#include "job/schema/field_binding.hpp"
#include "job/schema/field_table.hpp"

namespace batchai::job {

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

constexpr std::array pytorch_fields = {
    script<&PyTorchSettings::python_script_file_path>().required(),
    interpreter<&PyTorchSettings::python_interpreter_path>(),
    arguments<&PyTorchSettings::command_line_args>(),
    process_count<&PyTorchSettings::process_count>(),
    choice<&PyTorchSettings::communication_backend>(
        "communicationBackend", communication_backends,
        "How the processes talk; not needed for one process", R"("Gloo")"),
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
        "parameterServerCount", 0, maximum_nodes,
        "Number of parameter servers, at most one on a node", "1")
        .defaults_to("`1` if there are several processes"),
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
