// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/options.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "spank/protocol.h"

namespace batchai::spank {

namespace {

enum OptionId : int { job_json = 1, ignore_container = 2, job_image = 3 };

Options& given() {
    // Never destroyed, because hooks may run while the process ends.
    static Options* const value = new Options;
    return *value;
}

extern "C" int option_given(int id, const char* argument, int /*remote*/) noexcept {
    try {
        if (id == ignore_container) {
            given().ignore_container = true;
            return 0;
        }
        // Slurm would complain of an option that cli_filter.lua has set. Within a job, srun applies
        // the job's own option to each component of a step.
        if (getenv("SLURM_JOB_ID") == nullptr && is_srun_of_components()) {
            slurm_error("batchai: %s", BATCHAI_NO_HET_JOBS);
            return -1;
        }
        if (argument == nullptr || *argument == '\0') {
            slurm_error("batchai: %s", id == job_image ? "--job-image needs the name of an image"
                                                       : "--job-json needs the name of a job file");
            return -1;
        }
        // A value from an "#SBATCH" line can be longer than an argument of a program may be. It is
        // not refused here, because Slurm would then show it in full.
        if (const std::size_t length = strlen(argument); length >= BATCHAI_PATH_LIMIT) {
            given().fault = std::string("the value of ") +
                            (id == job_image ? "--job-image" : "--job-json") + " is " +
                            std::to_string(length) + " bytes long; at most " +
                            std::to_string(BATCHAI_PATH_LIMIT - 1) + " are taken";
            return 0;
        }
        if (id == job_image) {
            given().job_image = argument;
            return 0;
        }
        given().job_json = argument;
        ++given().job_json_count;
        return 0;
    } catch (...) {
        return -1;
    }
}

// Slurm's struct has no const members, but Slurm only copies the strings.
char* text(const char* literal) {
    return const_cast<char*>(literal);
}

std::array<spank_option, 3> option_table() {
    return {{{text("job-json"), text("FILE"),
              text("run the job with the mounts, environment and sizes of this Batch AI job file"),
              1, job_json, option_given},
             {text("ignore-container"), nullptr,
              text("with --job-json: run on the host although the file asks for a container"), 0,
              ignore_container, option_given},
             {text("job-image"), text("IMAGE"),
              text("with --job-json: run in this container image instead of the file's"), 1,
              job_image, option_given}}};
}

bool read_timeout(std::string_view value, int& seconds) {
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size()) return false;
    if (number < 1 || number > 3600) return false;
    seconds = number;
    return true;
}

bool apply(std::string_view argument, Settings& settings) {
    const std::size_t sign = argument.find('=');
    if (sign == std::string_view::npos) return false;
    const std::string_view key = argument.substr(0, sign);
    const std::string_view value = argument.substr(sign + 1);
    if (key == "timeout") return read_timeout(value, settings.timeout_seconds);
    if (!value.starts_with('/')) return false;
    if (key == "launcher")
        settings.launcher = value;
    else if (key == "node_program")
        settings.node_program = value;
    else if (key == "node_directory")
        settings.node_directory = value;
    else if (key == "runtime_directory")
        settings.runtime_directory = value;
    else
        return false;
    return true;
}

}  // namespace

void register_options(spank_t handle) {
    for (spank_option& option : option_table()) {
        if (spank_option_register(handle, &option) != ESPANK_SUCCESS)
            slurm_error("batchai: cannot register the option --%s", option.name);
    }
}

const Options& options() {
    return given();
}

void component_has_ended() {
    given().job_json_count = 0;
}

bool is_srun_of_components() {
    if (spank_context() != S_CTX_LOCAL) return false;
    std::ifstream words("/proc/self/cmdline");
    std::string word;
    while (std::getline(words, word, '\0')) {
        if (word == ":") return true;
    }
    return false;
}

bool job_json_was_given(spank_t handle) {
    for (spank_option& option : option_table()) {
        char* argument = nullptr;
        if (option.val != ignore_container &&
            spank_option_getopt(handle, &option, &argument) == ESPANK_SUCCESS)
            return true;
    }
    return false;
}

Settings read_settings(int argument_count, char* arguments[]) {
    Settings settings{.launcher = BATCHAI_LAUNCHER,
                      .node_program = BATCHAI_NODE_PROGRAM,
                      .node_directory = {},
                      .runtime_directory = "/run/batchai"};
    for (int i = 0; i < argument_count; ++i) {
        if (!apply(arguments[i], settings))
            slurm_error(
                "batchai: plugstack.conf: argument \"%s\" is ignored; the known arguments are "
                "%s",
                arguments[i], BATCHAI_PLUGSTACK_ARGUMENTS);
    }
    return settings;
}

}  // namespace batchai::spank
