// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/spank/fake_slurm.hpp"

#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace fake {

Slurm& slurm() {
    static Slurm value;
    return value;
}

}  // namespace fake

using fake::slurm;

namespace {

// A number without the enumeration's type in some versions of the header.
constexpr auto success = static_cast<spank_err_t>(ESPANK_SUCCESS);

char** job_environment() {
    slurm().entries.clear();
    slurm().pointers.clear();
    for (const auto& [name, value] : slurm().environment)
        slurm().entries.push_back(name + '=' + value);
    for (std::string& entry : slurm().entries)
        slurm().pointers.push_back(entry.data());
    slurm().pointers.push_back(nullptr);
    return slurm().pointers.data();
}

}  // namespace

extern "C" {

spank_context_t spank_context(void) {
    return slurm().context;
}

spank_err_t spank_option_register(spank_t, spank_option* option) {
    slurm().registered[option->name] = *option;
    return success;
}

spank_err_t spank_option_getopt(spank_t, spank_option* option, char** argument) {
    const auto found = slurm().given.find(option->name);
    if (found == slurm().given.end()) return ESPANK_ERROR;
    if (option->has_arg != 0) *argument = found->second.data();
    return success;
}

#ifdef __clang__
// Slurm declares the function so.
#pragma clang diagnostic ignored "-Wvarargs"
#endif
spank_err_t spank_get_item(spank_t, spank_item_t item, ...) {
    if (slurm().context != S_CTX_REMOTE && slurm().context != S_CTX_JOB_SCRIPT)
        return ESPANK_NOT_REMOTE;
    va_list list;
    va_start(list, item);
    spank_err_t result = success;
    if (item == S_JOB_UID) {
        *va_arg(list, uid_t*) = slurm().uid;
    } else if (item == S_JOB_GID) {
        *va_arg(list, gid_t*) = slurm().gid;
    } else if (item == S_JOB_ID) {
        *va_arg(list, uint32_t*) = slurm().job_id;
    } else if (slurm().context == S_CTX_JOB_SCRIPT) {
        result = ESPANK_BAD_ARG;  // prolog and epilog know no more than these
    } else if (item == S_JOB_STEPID) {
        *va_arg(list, uint32_t*) = slurm().step_id;
    } else if (item == S_JOB_LOCAL_TASK_COUNT) {
        *va_arg(list, uint32_t*) = slurm().local_tasks;
    } else if (item == S_JOB_TOTAL_TASK_COUNT) {
        *va_arg(list, uint32_t*) = slurm().tasks;
    } else if (item == S_JOB_NODEID) {
        *va_arg(list, uint32_t*) = slurm().node;
    } else if (item == S_JOB_NNODES) {
        *va_arg(list, uint32_t*) = slurm().nodes;
    } else if (item == S_TASK_ID) {
        *va_arg(list, int*) = slurm().local_task;
    } else if (item == S_TASK_EXIT_STATUS) {
        *va_arg(list, int*) = slurm().exit_status;
    } else if (item == S_TASK_GLOBAL_ID) {
        *va_arg(list, uint32_t*) = slurm().task;
    } else if (item == S_SLURM_RESTART_COUNT) {
        *va_arg(list, uint32_t*) = slurm().restarts;
    } else if (item == S_JOB_ARRAY_ID) {
        *va_arg(list, uint32_t*) = slurm().array;
    } else if (item == S_JOB_ARRAY_TASK_ID) {
        *va_arg(list, uint32_t*) = slurm().array_task;
    } else if (item == S_JOB_ENV) {
        *va_arg(list, char***) = job_environment();
    } else if (item == S_JOB_SUPPLEMENTARY_GIDS) {
        *va_arg(list, gid_t**) = slurm().groups.data();
        *va_arg(list, int*) = static_cast<int>(slurm().groups.size());
    } else {
        result = ESPANK_NOT_AVAIL;  // exists, but the plugin is not known to ask for it
    }
    va_end(list);
    return result;
}

spank_err_t spank_getenv(spank_t, const char* name, char* buffer, int length) {
    if (slurm().context != S_CTX_REMOTE) return ESPANK_NOT_REMOTE;
    const auto found = slurm().environment.find(name);
    if (found == slurm().environment.end()) return ESPANK_ENV_NOEXIST;
    const auto room = static_cast<std::size_t>(length);
    // As Slurm does: cut off, and say so.
    std::snprintf(buffer, room, "%s", found->second.c_str());
    return found->second.size() >= room ? ESPANK_NOSPACE : success;
}

spank_err_t spank_setenv(spank_t, const char* name, const char* value, int overwrite) {
    if (slurm().context != S_CTX_REMOTE) return ESPANK_NOT_REMOTE;
    if (overwrite == 0 && slurm().environment.contains(name)) return ESPANK_ENV_EXISTS;
    slurm().environment[name] = value;
    return success;
}

spank_err_t spank_unsetenv(spank_t, const char* name) {
    if (slurm().context != S_CTX_REMOTE) return ESPANK_NOT_REMOTE;
    ++slurm().removals;
    slurm().environment.erase(name);
    return success;
}

spank_err_t spank_job_control_setenv(spank_t, const char* name, const char* value, int overwrite) {
    if (slurm().context == S_CTX_REMOTE) return ESPANK_NOT_LOCAL;
    if (overwrite == 0 && slurm().control.contains(name)) return ESPANK_ENV_EXISTS;
    slurm().control[name] = value;
    return success;
}

spank_err_t spank_job_control_unsetenv(spank_t, const char* name) {
    if (slurm().context == S_CTX_REMOTE) return ESPANK_NOT_LOCAL;
    return slurm().control.erase(name) == 0 ? ESPANK_ENV_NOEXIST : success;
}

void slurm_error(const char* format, ...) {
    std::array<char, 4096> line{};
    va_list list;
    va_start(list, format);
    std::vsnprintf(line.data(), line.size(), format, list);
    va_end(list);
    slurm().log.emplace_back(line.data());
    std::fprintf(stderr, "error: %s\n", line.data());
}

}  // extern "C"
