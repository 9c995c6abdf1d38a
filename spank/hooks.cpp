// SPDX-License-Identifier: GPL-2.0-or-later
// What Slurm sees of batchai.so: its metadata and its hooks. Each hook catches all exceptions,
// because an exception that escapes would end root's slurmstepd.

#include "spank/hooks.hpp"

#include <cstdlib>
#include <exception>

#include <unistd.h>

#include "spank/options.hpp"
#include "spank/stepd.hpp"
#include "spank/submit_side.hpp"

#define BATCHAI_EXPORT __attribute__((visibility("default")))

extern "C" {
// Constants have internal linkage in C++ unless they are declared extern.
BATCHAI_EXPORT extern const char plugin_name[];
BATCHAI_EXPORT extern const char plugin_type[];
BATCHAI_EXPORT extern const unsigned int plugin_version;
BATCHAI_EXPORT extern const unsigned int spank_plugin_version;
const char plugin_name[] = "batchai";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;
}

namespace {

template <typename Work>
int guarded(const char* hook, int on_failure, Work&& work) noexcept {
    try {
        return work();
    } catch (const std::exception& error) {
        slurm_error("batchai: %s: %s", hook, error.what());
    } catch (...) {
        slurm_error("batchai: %s: unknown exception", hook);
    }
    return on_failure;
}

bool submitting() {
    const spank_context_t context = spank_context();
    return context == S_CTX_LOCAL || context == S_CTX_ALLOCATOR;
}

}  // namespace

namespace spank = batchai::spank;

extern "C" {

BATCHAI_EXPORT int slurm_spank_init(spank_t handle, int /*ac*/, char* /*av*/[]) {
    return guarded("init", 0, [&] {
        if (submitting() || spank_context() == S_CTX_REMOTE) spank::register_options(handle);
        // Before Slurm takes options from the environment.
        if (submitting()) spank::leave_job_around(spank_context() == S_CTX_ALLOCATOR);
        return 0;
    });
}

BATCHAI_EXPORT int slurm_spank_init_post_opt(spank_t handle, int ac, char* av[]) {
    if (spank_context() == S_CTX_REMOTE)
        return guarded("init_post_opt", 0, [&] {
            spank::remember_job(handle, spank::read_settings(ac, av));
            return 0;
        });
    if (!submitting()) return 0;
    const int status = guarded("submission", -1, [&] {
        const bool new_allocation =
            spank_context() == S_CTX_ALLOCATOR || getenv("SLURM_JOB_ID") == nullptr;
        const int handed =
            spank::hand_over_if_asked(handle, spank::read_settings(ac, av), new_allocation);
        spank::component_has_ended();
        return handed;
    });
    // Slurm would ignore the error code of an optional plugin and submit the job without its plan.
    if (status < 0) exit(1);
    return 0;
}

// An error of this hook would drain the node of a batch job, so errors are kept for task_init.
BATCHAI_EXPORT int slurm_spank_user_init(spank_t handle, int ac, char* av[]) {
    const int failed = guarded("user_init", 1, [&] {
        spank::start_sandbox(handle, spank::read_settings(ac, av));
        return 0;
    });
    if (failed != 0) {
        spank::sandbox().wanted = true;
        guarded("user_init", 0, [] {
            spank::sandbox().failure =
                "an internal error kept the sandbox from being made; "
                "slurmd's log on the node has more";
            return 0;
        });
    }
    return 0;
}

BATCHAI_EXPORT int slurm_spank_task_init(spank_t handle, int /*ac*/, char* /*av*/[]) {
    const int status = guarded("task_init", -1, [&] {
        spank::join_sandbox(handle);
        return 0;
    });
    // Slurm would ignore the error code of an optional plugin and run the task on the bare host.
    if (status != 0) _exit(1);
    return 0;
}

BATCHAI_EXPORT int slurm_spank_task_exit(spank_t /*handle*/, int /*ac*/, char* /*av*/[]) {
    return guarded("task_exit", 0, [] {
        spank::task_ended();
        return 0;
    });
}

BATCHAI_EXPORT int slurm_spank_exit(spank_t /*handle*/, int /*ac*/, char* /*av*/[]) {
    if (submitting()) return 0;
    return guarded("exit", 0, [] {
        spank::leave_step();
        return 0;
    });
}

BATCHAI_EXPORT int slurm_spank_job_epilog(spank_t handle, int ac, char* av[]) {
    return guarded("epilog", 0, [&] {
        const spank::Settings settings = spank::read_settings(ac, av);
        spank::clean_after_job(handle, settings);
        // Now, because the clean-up has waited for the helpers of the job. Those of others may have
        // ended in the meantime.
        spank::remove_left_groups(settings.runtime_directory);
        return 0;
    });
}

}  // extern "C"
