// SPDX-License-Identifier: GPL-2.0-or-later
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "spank/child.hpp"
#include "spank/hooks.hpp"
#include "spank/job_group.hpp"
#include "spank/job_note.hpp"
#include "spank/protocol.h"

namespace batchai::spank {

void clean_after_job(spank_t handle, const Settings& settings) {
    User user;
    uint32_t job_id = 0;
    const bool known = spank_get_item(handle, S_JOB_ID, &job_id) == ESPANK_SUCCESS;
    // Before the note of the job goes: without it, an old group of the job may be emptied.
    if (known) note_end_of_groups(settings.runtime_directory, job_id);
    if (known && !take_note_of_job(settings.runtime_directory, job_id)) return;
    if (!known || spank_get_item(handle, S_JOB_UID, &user.uid) != ESPANK_SUCCESS ||
        spank_get_item(handle, S_JOB_GID, &user.gid) != ESPANK_SUCCESS) {
        slurm_error("batchai: epilog: Slurm does not say whose job ended");
        return;
    }
    user.groups = &user.gid;
    user.group_count = 1;
    Program program;
    program.arguments = {settings.node_program, "clean", "--job-id", std::to_string(job_id)};
    if (!settings.node_directory.empty())
        program.arguments.insert(program.arguments.end(),
                                 {"--node-directory", settings.node_directory});
    program.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"};
    std::string command = "env";  // for the message
    // slurmd has set these.
    for (const char* const name : {"SLURMD_NODENAME", "SLURM_CONF"}) {
        const char* const value = getenv(name);
        if (value == nullptr) continue;
        program.environment.push_back(std::string(name) + "=" + value);
        command += ' ' + program.environment.back();
    }
    for (const std::string& word : program.arguments)
        command += ' ' + word;
    Child child;
    if (!start_as_user(program, user, child)) {
        slurm_error("batchai: epilog of job %u: cannot start %s: %s", job_id,
                    settings.node_program.c_str(), strerror(errno));
        return;
    }
    const int code = end_child(child, farewell_seconds);
    if (code == BATCHAI_CLEAN_KEPT_DATA)
        slurm_error(
            "batchai: epilog of job %u: data of user %u could neither be stored nor saved in the "
            "job's directory; it is kept on this node as \"unsaved-%u-*\" in that user's directory",
            job_id, user.uid, job_id);
    else if (code != 0)
        slurm_error(
            "batchai: epilog of job %u: the clean-up failed; run \"%s\" as user %u to see why",
            job_id, command.c_str(), user.uid);
}

}  // namespace batchai::spank
