// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/submit_side.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spank/protocol.h"
#include "spank/this_job.hpp"

namespace batchai::spank {

namespace {

constexpr std::size_t output_limit = BATCHAI_HAND_OVER_LIMIT;
constexpr const char* option_variable = BATCHAI_OPTION_VARIABLE_PREFIX "job_json";
constexpr const char* option_variable_of_script =
    "SLURM_SPANK_" BATCHAI_OPTION_VARIABLE_PREFIX "job_json";
// Slurm sets some of these only in array jobs and after a requeue, so those of the job around would
// stay.
constexpr std::array<const char*, 8> slurm_variables_of_a_job{
    "SLURM_ARRAY_JOB_ID",   "SLURM_ARRAY_TASK_ID",  "SLURM_ARRAY_TASK_COUNT",
    "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_STEP",
    "SLURM_RESTART_COUNT",  "SLURM_HET_SIZE"};

// sbatch and salloc set these for the steps of the job, from its own options, and take none of them
// for options. Those of a job around it would stay beside them, and some exclude each other.
constexpr std::array<const char*, 14> slurm_options_of_steps{
    "SLURM_MEM_PER_CPU",    "SLURM_MEM_PER_GPU",   "SLURM_MEM_PER_NODE",    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",  "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET", "SLURM_CPUS_PER_GPU",
    "SLURM_NTASKS_PER_GPU", "SLURM_GRES",          "SLURM_STEP_GRES",       "SLURM_RESV_PORTS",
    "SLURM_TASK_PROLOG",    "SLURM_TASK_EPILOG"};

// What leave_job_around() has put aside, until it is known whether the job has a job file.
std::vector<std::pair<const char*, std::string>>& options_of_steps_around() {
    // Never destroyed, because hooks may run while the process ends.
    static auto* const value = new std::vector<std::pair<const char*, std::string>>;
    return *value;
}

std::string variable(const char* name) {
    const char* const value = getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}

Inherited inherited_from_environment() {
    Inherited out{variable(BATCHAI_PLAN_VARIABLE), variable(BATCHAI_JOB_JSON_VARIABLE),
                  variable(option_variable), variable(BATCHAI_JOB_IMAGE_VARIABLE),
                  variable(BATCHAI_IGNORE_CONTAINER_VARIABLE) == "1"};
    if (out.option.empty()) out.option = variable(option_variable_of_script);
    return out;
}

// Returns the file's absolute name. If there is no such file, returns the name as it was given; the
// program that reads the file then reports the error.
std::string resolved(const std::string& path) {
    char* const absolute = realpath(path.c_str(), nullptr);
    if (absolute == nullptr) return path;
    std::string out(absolute);
    free(absolute);
    return out;
}

std::string read_to_end(int descriptor) {
    std::string out;
    std::array<char, 4096> chunk{};
    while (true) {
        const ssize_t count = read(descriptor, chunk.data(), chunk.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return out;
        // Reads on to the end, so that the program does not hang, but stops storing once the
        // limit is passed.
        if (out.size() <= output_limit) out.append(chunk.data(), static_cast<std::size_t>(count));
    }
}

// While this exists, the kernel keeps the status of children also for a process that was started
// with SIGCHLD ignored.
class KeepStatus {
  public:
    KeepStatus() {
        struct sigaction standard {};
        standard.sa_handler = SIG_DFL;
        ignored_ = sigaction(SIGCHLD, nullptr, &before_) == 0 && before_.sa_handler == SIG_IGN &&
                   sigaction(SIGCHLD, &standard, nullptr) == 0;
    }
    ~KeepStatus() {
        if (ignored_) sigaction(SIGCHLD, &before_, nullptr);
    }
    KeepStatus(const KeepStatus&) = delete;
    KeepStatus& operator=(const KeepStatus&) = delete;

  private:
    struct sigaction before_ {};
    bool ignored_ = false;
};

// Runs the program with our environment and standard error. `output` gets its standard output,
// `status` the status of waitpid(2). Returns false, with errno, if the program cannot be started or
// its status is not known.
bool run(std::vector<std::string>& arguments, std::string& output, int& status) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (std::string& argument : arguments)
        pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const KeepStatus keep_status;
    pid_t child = -1;
    int code = posix_spawn(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (code == 0) {
        output = read_to_end(ends[0]);
        while (waitpid(child, &status, 0) < 0) {
            if (errno == EINTR) continue;
            code = errno;
            break;
        }
    }
    close(ends[0]);
    errno = code;
    return code == 0;
}

// Returns the value of the line "NAME=value\n" at the start of `text`, and removes the line.
std::string take_line(std::string_view& text, std::string_view name) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos || !text.starts_with(name)) return {};
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.size() <= name.size() || line[name.size()] != '=') return {};
    return std::string(line.substr(name.size() + 1));
}

bool is_variable_name(std::string_view name) {
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    constexpr std::string_view digits = "0123456789";
    return !name.empty() && digits.find(name.front()) == std::string_view::npos &&
           std::all_of(name.begin(), name.end(), [&](char c) {
               return letters.find(c) != std::string_view::npos ||
                      digits.find(c) != std::string_view::npos;
           });
}

// Removes the variable, and overwrites the memory that /proc shows of it.
void remove_secret(const char* name) {
    if (char* const value = getenv(name)) explicit_bzero(value, strlen(value));
    unsetenv(name);
}

bool is_usable(const Marker& marker) {
    const auto is_control = [](char letter) { return static_cast<unsigned char>(letter) < 0x20; };
    const auto is_line = [&](const std::string& text) {
        return std::none_of(text.begin(), text.end(), is_control);
    };
    return marker.plan.starts_with('/') && marker.plan.size() < BATCHAI_PATH_LIMIT &&
           is_line(marker.plan) && is_line(marker.declaration) &&
           marker.declaration.size() < BATCHAI_DECLARATION_LIMIT &&
           marker.digest.size() == BATCHAI_DIGEST_LENGTH &&
           marker.digest.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Sets the variable, or removes it if the value is empty.
bool set_or_take(const char* name, const std::string& value) {
    return (value.empty() ? unsetenv(name) : setenv(name, value.c_str(), 1)) == 0;
}

bool set_marker(spank_t handle, const Marker& marker, const std::string& file) {
    return spank_job_control_setenv(handle, BATCHAI_DECLARATION_VARIABLE,
                                    marker.declaration.c_str(), 1) == ESPANK_SUCCESS &&
           set_or_take(BATCHAI_PLAN_VARIABLE, marker.plan) &&
           set_or_take(BATCHAI_DIGEST_VARIABLE, marker.digest) &&
           set_or_take(BATCHAI_JOB_JSON_VARIABLE, file) &&
           set_or_take(BATCHAI_JOB_IMAGE_VARIABLE, options().job_image) &&
           set_or_take(BATCHAI_IGNORE_CONTAINER_VARIABLE, options().ignore_container ? "1" : "");
}

// Removes variables that hold secrets, and notes their names for the steps of the job.
void remove_secrets(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) {
        remove_secret(name.c_str());
        list += (list.empty() ? "" : ",") + name;
    }
    set_or_take(BATCHAI_SECRET_VARIABLES_VARIABLE, list);
}

// Removes the variables that held secrets when the job was submitted. Somebody may have exported
// them again.
void remove_noted_secrets() {
    const std::string list = variable(BATCHAI_SECRET_VARIABLES_VARIABLE);
    for (std::size_t begin = 0; begin < list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        const std::string name = list.substr(begin, end - begin);
        if (is_variable_name(name)) remove_secret(name.c_str());
        begin = end + 1;
    }
}

// Removes the variables that the job file takes secrets from, although no plan is made.
void remove_secrets_of_file(const Settings& settings, const std::string& file) {
    std::vector<std::string> arguments{settings.launcher, "hand-over", "--secret-variables",
                                       "--job-json", file};
    std::string output;
    int status = 0;
    const bool ran = run(arguments, output, status) && WIFEXITED(status) &&
                     WEXITSTATUS(status) == 0 && output.size() <= output_limit;
    std::vector<std::string> names;
    for (std::string_view rest = output; ran && !rest.empty();) {
        names.push_back(take_line(rest, BATCHAI_SECRET_LINE));
        if (!is_variable_name(names.back())) break;
    }
    if (ran && (names.empty() || is_variable_name(names.back()))) {
        remove_secrets(names);
        return;
    }
    // The switch must work even if nothing else does.
    slurm_error(
        "batchai: warning: %s cannot be read, so that variables that it names in "
        "\"fromEnv\" stay in the environment",
        options().job_json.c_str());
}

void remove_inherited_options() {
    for (const std::string& name : inherited_options(environ))
        unsetenv(name.c_str());
}

void remove_slurm_variables_of_a_job() {
    for (const char* name : slurm_variables_of_a_job)
        unsetenv(name);
}

// Removes what a job has in the environment for itself.
void remove_variables_of_a_job() {
    const std::vector<std::string> names = variables_of_a_job(environ);
    for (const std::string& name : names)
        unsetenv(name.c_str());
    if (!names.empty()) remove_slurm_variables_of_a_job();
}

// Slurm keeps what it has read from the environment for slurmctld and the epilog as well.
void remove_inherited_control(spank_t handle) {
    if (!options().job_json.empty()) return;
    for (const char* name :
         {BATCHAI_DECLARATION_VARIABLE, BATCHAI_OPTION_VARIABLE_PREFIX "job_json",
          BATCHAI_OPTION_VARIABLE_PREFIX "job_image",
          BATCHAI_OPTION_VARIABLE_PREFIX "ignore_container"})
        spank_job_control_unsetenv(handle, name);
}

// Slurm calls the hook once for each component of a heterogeneous job, and applies an option to the
// components that follow it.
bool is_heterogeneous(bool new_allocation) {
    static int calls = 0;
    return new_allocation && ++calls > 1 && !options().job_json.empty();
}

int hand_over(spank_t handle, const Settings& settings, const std::string& file) {
    std::vector<std::string> arguments{settings.launcher, "hand-over", "--job-json", file};
    if (options().ignore_container) arguments.emplace_back("--ignore-container");
    if (!options().job_image.empty()) arguments.push_back("--job-image=" + options().job_image);
    std::string output;
    int status = 0;
    if (!run(arguments, output, status)) {
        slurm_error("batchai: cannot start %s: %s; is batchai installed on this host?",
                    settings.launcher.c_str(), strerror(errno));
        return -1;
    }
    // The program has already said what is wrong.
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        slurm_error("batchai: --job-json=%s was not accepted; nothing is submitted",
                    options().job_json.c_str());
        return -1;
    }
    if (output.size() > output_limit) {
        slurm_error("batchai: the answer of %s has more than %zu bytes", settings.launcher.c_str(),
                    output_limit);
        return -1;
    }
    const std::optional<Marker> marker = read_marker(output);
    if (!marker || !set_marker(handle, *marker, file)) {
        slurm_error(
            "batchai: %s and batchai.so have different versions; install both from "
            "one version",
            settings.launcher.c_str());
        return -1;
    }
    remove_secrets(marker->secret_variables);
    return 0;
}

}  // namespace

bool needs_hand_over(const Options& options, const Inherited& inherited,
                     const std::string& resolved_job_json) {
    if (options.job_json.empty()) return false;
    if (inherited.plan.empty()) return true;
    if (!options.job_image.empty() && options.job_image != inherited.job_image) return true;
    if (options.ignore_container && !inherited.ignore_container) return true;
    if (resolved_job_json == inherited.job_json) return false;
    // A relative name from the environment may mean nothing in this directory. If the option was
    // given a second time, it came from the command line.
    const bool only_inherited = options.job_json_count < 2 && options.job_json == inherited.option;
    return !only_inherited;
}

std::optional<Marker> read_marker(std::string_view output) {
    Marker marker;
    marker.plan = take_line(output, BATCHAI_PLAN_VARIABLE);
    marker.digest = take_line(output, BATCHAI_DIGEST_VARIABLE);
    marker.declaration = take_line(output, BATCHAI_DECLARATION_VARIABLE);
    while (!output.empty()) {
        marker.secret_variables.push_back(take_line(output, BATCHAI_SECRET_LINE));
        if (!is_variable_name(marker.secret_variables.back())) return std::nullopt;
    }
    if (!output.empty() || !is_usable(marker)) return std::nullopt;
    return marker;
}

std::optional<Marker> marker_of_filter(std::string_view text, long process) {
    const std::string prefix = std::to_string(process) + " ";
    if (!text.starts_with(prefix)) return std::nullopt;
    text.remove_prefix(prefix.size());
    const std::size_t blank = text.find(' ');
    const std::size_t line = text.find('\n');
    if (blank == std::string_view::npos || line == std::string_view::npos || blank > line)
        return std::nullopt;
    Marker marker{std::string(text.substr(blank + 1, line - blank - 1)),
                  std::string(text.substr(0, blank)), std::string(text.substr(line + 1))};
    if (!is_usable(marker)) return std::nullopt;
    return marker;
}

void leave_job_around(bool allocates) {
    const std::string job = variable("SLURM_JOB_ID");
    const auto told = read_this_job(variable(BATCHAI_SLURM_JOB_VARIABLE));
    if (allocates || job.empty() || (told && told->id != job)) remove_inherited_options();
    for (const char* name : slurm_options_of_steps) {
        const char* const value = allocates ? getenv(name) : nullptr;
        if (value == nullptr) continue;
        options_of_steps_around().emplace_back(name, value);
        unsetenv(name);
    }
    if (allocates || (!job.empty() && told && told->id != job)) {
        remove_variables_of_a_job();
        return;
    }
    if (told || variable(BATCHAI_PLAN_VARIABLE).empty()) return;
    // salloc leaves a plan without its job, because it does not know that one yet.
    const ThisJob of_salloc{.id = job, .array_task = {}};
    if (read_this_job(text_of(of_salloc)))
        setenv(BATCHAI_SLURM_JOB_VARIABLE, text_of(of_salloc).c_str(), 1);
    else if (!variable(BATCHAI_JOB_JSON_VARIABLE).empty())
        remove_variables_of_a_job();
}

int hand_over_if_asked(spank_t handle, const Settings& settings, bool new_allocation) {
    // The variable is for this process only, and no program that it starts may see it.
    const std::string of_filter = variable(BATCHAI_HANDED_OVER_VARIABLE);
    unsetenv(BATCHAI_HANDED_OVER_VARIABLE);
    if (!options().fault.empty()) {
        slurm_error("batchai: %s", options().fault.c_str());
        return -1;
    }
    const bool heterogeneous = is_heterogeneous(new_allocation);
    // Other jobs keep their environment.
    if (options().job_json.empty()) {
        for (const auto& [name, value] : options_of_steps_around())
            setenv(name, value.c_str(), 0);
    }
    if (new_allocation) remove_inherited_control(handle);
    if (variable(BATCHAI_DISABLE_VARIABLE) == "1") {
        if (options().job_json.empty()) return 0;
        remove_secret(BATCHAI_STORAGE_KEY_VARIABLE);
        remove_secrets_of_file(settings, resolved(options().job_json));
        // Slurm sends the option with the job all the same. This declaration tells slurmctld
        // that the job has no plan.
        return spank_job_control_setenv(handle, BATCHAI_DECLARATION_VARIABLE, "disabled", 1) ==
                       ESPANK_SUCCESS
                   ? 0
                   : -1;
    }
    if (heterogeneous) {
        slurm_error("batchai: %s", BATCHAI_NO_HET_JOBS);
        return -1;
    }
    if (new_allocation && !options().job_json.empty()) {
        // The filter has set this one for the new job.
        const std::string secrets = variable(BATCHAI_SECRET_VARIABLES_VARIABLE);
        remove_variables_of_a_job();
        remove_slurm_variables_of_a_job();
        if (marker_of_filter(of_filter, getpid()))
            set_or_take(BATCHAI_SECRET_VARIABLES_VARIABLE, secrets);
    }
    const Inherited inherited = inherited_from_environment();
    if (options().job_json.empty()) {
        const bool image = !options().job_image.empty();
        if ((!options().ignore_container && !image) || !inherited.plan.empty()) return 0;
        slurm_error("batchai: %s works only together with --job-json=FILE",
                    image ? "--job-image" : "--ignore-container");
        return -1;
    }
    const std::string file = resolved(options().job_json);
    const auto marker = marker_of_filter(of_filter, getpid());
    const bool has_new_plan =
        marker || new_allocation || needs_hand_over(options(), inherited, file);
    // A step of several components has one environment, and so one plan.
    if (has_new_plan && is_srun_of_components()) {
        slurm_error("batchai: %s", BATCHAI_NO_HET_JOBS);
        return -1;
    }
    int status = 0;
    if (marker)
        status = set_marker(handle, *marker, file) ? 0 : -1;
    else if (has_new_plan)
        status = hand_over(handle, settings, file);
    else
        remove_noted_secrets();
    // The key is in the plan's secrets now. It must not stay in the environment, which goes to
    // Slurm next.
    remove_secret(BATCHAI_STORAGE_KEY_VARIABLE);
    return status;
}

}  // namespace batchai::spank
