// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

// The toolkits of a job.json, of which a job has one (model.hpp).
namespace batchai::job {

// In all toolkits, settings_key is the key in "properties", process_count is the number of
// processes over all nodes and defaults to the node count. If the toolkit has
// shows_default_process_count, `job show` has that default as if the file had given it, as Batch AI
// does. python_interpreter_path defaults to the site's interpreter. command_line_args is one string
// that a shell will split.
struct HorovodSettings {
    static constexpr std::string_view settings_key = "horovodSettings";
    static constexpr std::string_view tool_type = "horovod";
    static constexpr bool shows_default_process_count = true;
    std::string python_script_file_path;
    std::optional<std::string> python_interpreter_path;
    std::optional<std::string> command_line_args;
    std::optional<int> process_count;
    bool operator==(const HorovodSettings&) const = default;
};

struct CustomMpiSettings {
    static constexpr std::string_view settings_key = "customMpiSettings";
    static constexpr std::string_view tool_type = "mpi";
    std::string command_line;  // what each rank runs
    std::optional<int> process_count;
    bool operator==(const CustomMpiSettings&) const = default;
};

struct CustomToolkitSettings {
    static constexpr std::string_view settings_key = "customToolkitSettings";
    static constexpr std::string_view tool_type = "custom";
    std::optional<std::string> command_line;  // run once, on the first node
    bool operator==(const CustomToolkitSettings&) const = default;
};

enum class CommunicationBackend : std::uint8_t { tcp, gloo, mpi, nccl };

// As job.json has them, in the order of CommunicationBackend. "NCCL" is not in Batch AI's schema.
// torch has the same names in lower case.
inline constexpr std::array<std::string_view, 4> communication_backends = {"TCP", "Gloo", "MPI",
                                                                           "NCCL"};

struct PyTorchSettings {
    static constexpr std::string_view settings_key = "pyTorchSettings";
    static constexpr std::string_view tool_type = "pytorch";
    std::string python_script_file_path;
    std::optional<std::string> python_interpreter_path;
    std::optional<std::string> command_line_args;
    std::optional<int> process_count;
    std::optional<CommunicationBackend> communication_backend;
    bool operator==(const PyTorchSettings&) const = default;
};

struct TensorFlowSettings {
    static constexpr std::string_view settings_key = "tensorFlowSettings";
    static constexpr std::string_view tool_type = "tensorflow";
    std::string python_script_file_path;
    std::optional<std::string> python_interpreter_path;
    std::optional<std::string> master_command_line_args;
    std::optional<std::string> worker_command_line_args;
    std::optional<std::string> parameter_server_command_line_args;
    std::optional<int> worker_count;            // default: the node count
    std::optional<int> parameter_server_count;  // default 1 when distributed
    bool operator==(const TensorFlowSettings&) const = default;
};

enum class CntkLanguage : std::uint8_t { brain_script, python };

// config_file_path is for BrainScript, python_script_file_path for Python.
struct CntkSettings {
    static constexpr std::string_view settings_key = "cntkSettings";
    static constexpr std::string_view tool_type = "cntk";
    std::optional<CntkLanguage> language_type;
    std::optional<std::string> config_file_path;
    std::optional<std::string> python_script_file_path;
    std::optional<std::string> python_interpreter_path;
    std::optional<std::string> command_line_args;
    std::optional<int> process_count;
    bool operator==(const CntkSettings&) const = default;
};

// Exactly one of config_file_path and python_script_file_path is present.
struct CaffeSettings {
    static constexpr std::string_view settings_key = "caffeSettings";
    static constexpr std::string_view tool_type = "caffe";
    std::optional<std::string> config_file_path;
    std::optional<std::string> python_script_file_path;
    std::optional<std::string> python_interpreter_path;
    std::optional<std::string> command_line_args;
    std::optional<int> process_count;
    bool operator==(const CaffeSettings&) const = default;
};

struct Caffe2Settings {
    static constexpr std::string_view settings_key = "caffe2Settings";
    static constexpr std::string_view tool_type = "caffe2";
    std::string python_script_file_path;
    std::optional<std::string> python_interpreter_path;
    std::optional<std::string> command_line_args;
    bool operator==(const Caffe2Settings&) const = default;
};

struct ChainerSettings {
    static constexpr std::string_view settings_key = "chainerSettings";
    static constexpr std::string_view tool_type = "chainer";
    static constexpr bool shows_default_process_count = true;
    std::string python_script_file_path;
    std::optional<std::string> python_interpreter_path;
    std::optional<std::string> command_line_args;
    std::optional<int> process_count;
    bool operator==(const ChainerSettings&) const = default;
};

using Toolkit =
    std::variant<HorovodSettings, CustomMpiSettings, CustomToolkitSettings, PyTorchSettings,
                 TensorFlowSettings, CntkSettings, CaffeSettings, Caffe2Settings, ChainerSettings>;

// Batch AI's toolType: "horovod", "mpi", "custom", "pytorch", …
[[nodiscard]] constexpr std::string_view tool_type(const Toolkit& toolkit) {
    return std::visit([](const auto& settings) { return settings.tool_type; }, toolkit);
}

// Returns whether the settings of the toolkit with this toolType have the key "processCount".
[[nodiscard]] constexpr bool has_process_count(std::string_view type) {
    return []<typename... Settings>(std::type_identity<std::variant<Settings...>>,
                                    std::string_view wanted) {
        return ((Settings::tool_type == wanted &&
                 requires(Settings settings) { settings.process_count; }) ||
                ...);
    }(std::type_identity<Toolkit>(), type);
}

}  // namespace batchai::job
