// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/keeper/leftovers.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "node/keeper/joining.hpp"
#include "node/keeper/registry.hpp"
#include "node/namespace/user_namespace.hpp"
#include "slurm/client.hpp"
#include "slurm/status.hpp"

namespace batchai::node {

namespace {

constexpr const char* end_note = "ended";
constexpr const char* name_start = "container-";
constexpr int farewell_milliseconds = 5000;
constexpr std::chrono::seconds queue_deadline{5};

// Best effort: only a later clean-up needs the note.
void note_end(const base::Root& place) {
    const base::FileDescriptor file =
        base::open_beneath(place.directory.get(), end_note, O_WRONLY | O_CREAT, 0600);
}

bool has_ended(const base::Root& place) {
    return faccessat(place.directory.get(), end_note, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// The name of a container's directory below the node root, and the id of its Slurm job.
struct PlaceName {
    std::string name;
    std::string job_id;
};

std::vector<PlaceName> places_of_containers(const base::Root& node_root) {
    std::vector<PlaceName> places;
    for (const std::string& name : base::names_in(node_root.directory.get())) {
        if (!name.starts_with(name_start)) continue;
        const std::string rest = name.substr(std::strlen(name_start));
        if (std::string job = rest.substr(0, rest.find('-')); slurm::is_job_id(job))
            places.push_back({name, std::move(job)});
    }
    return places;
}

base::Root open_leftover(const base::Root& node_root, const PlaceName& place) {
    return {base::open_beneath(node_root.directory.get(), place.name, O_PATH | O_DIRECTORY),
            fmt::format("{}/{}", node_root.path, place.name)};
}

// Returns whether an earlier clean-up has begun to remove a container of the job. release() gives
// it such a name.
bool has_half_removed_container(const base::Root& node_root, const std::string& job_id) {
    const std::string start = fmt::format(".{}.{}", job_id, name_start);
    for (const std::string& name : base::names_in(node_root.directory.get())) {
        if (name.starts_with(start)) return true;
    }
    return false;
}

// Kills the keeper. The open connection shows that the process id still belongs to the keeper and
// has not been reused.
base::Result<void> end_keeper(const base::Root& place) {
    const auto connection = TRY(connect_to_keeper(place));
    if (!connection) return {};
    const base::FileDescriptor process(
        static_cast<int>(syscall(SYS_pidfd_open, connection->keeper, 0)));
    pollfd hung_up{connection->socket.get(), POLLIN, 0};
    if (!process.valid() || poll(&hung_up, 1, 0) > 0) return {};
    syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
    pollfd ended{process.get(), POLLIN, 0};
    if (poll(&ended, 1, farewell_milliseconds) > 0) return {};
    return base::fail("the container's keeper cannot be killed; a file system may hang",
                      place.path);
}

// Uses a child process, because a process cannot leave a user namespace again. Ends the claims of a
// job only if it was interrupted: one that was requeued may be running again while the clean-up
// after its earlier run is still unfinished.
void remove_apart(const base::Root& node_root, const std::string& job_id, bool interrupted,
                  const Trace& trace) {
    auto child = base::Child::fork([&] {
        if (interrupted && !note_end_of_job(node_root, job_id)) return 1;
        const auto removed = prepare_to_remove_container(node_root, job_id, {}).and_then([&] {
            return release(node_root, job_id, {});
        });
        return removed ? 0 : 1;
    });
    if (child && child->wait() == 0)
        trace.line(fmt::format("removed what job {} had left on this node", job_id));
}

// Of the doubtful jobs, those that Slurm says have ended.
std::set<std::string> ended_for_slurm(const base::Root& node_root, const std::string& own_job_id,
                                      std::set<std::string> doubtful, const Trace& trace) {
    if (doubtful.empty()) return {};
    const auto queued = slurm::Client(queue_deadline).queued_jobs_of_caller();
    if (!queued) {
        trace.line("what other jobs may have left stays, because Slurm does not answer: " +
                   queued.error().text());
        return {};
    }
    // An answer without the job that asks is about another Slurm.
    if (!queued->contains(own_job_id)) return {};
    for (const std::string& job_id : *queued) {
        if (doubtful.erase(job_id) != 0) note_running(node_root, job_id);
    }
    return doubtful;
}

}  // namespace

void forget_end(const base::Root& place) {
    unlinkat(place.directory.get(), end_note, 0);
}

base::Result<bool> note_end_of_job(const base::Root& node_root, const std::string& job_id) {
    if (!TRY(end_claims(node_root, job_id))) return false;
    for (const PlaceName& name : places_of_containers(node_root)) {
        if (name.job_id != job_id) continue;
        const base::Root place = open_leftover(node_root, name);
        if (place.directory.valid()) note_end(place);
    }
    return true;
}

base::Result<void> prepare_to_remove_container(const base::Root& node_root,
                                               const std::string& job_id,
                                               std::chrono::seconds patience) {
    // All locks are held until all keepers have ended.
    std::vector<base::FileDescriptor> locks;
    for (const PlaceName& name : places_of_containers(node_root)) {
        if (name.job_id != job_id) continue;
        const base::Root place = open_leftover(node_root, name);
        if (!place.directory.valid()) continue;
        // A keeper that is ending holds the lock until remote storage has what the job wrote.
        auto lock = TRY(lock_place(place, patience));
        // A new run of the job may have taken the directory in the meantime.
        if (!has_ended(place)) continue;
        locks.push_back(std::move(lock));
        TRY(end_keeper(place));
    }
    if (locks.empty() && !has_half_removed_container(node_root, job_id)) return {};
    return enter_user_namespace(find_identities());
}

void remove_leftovers(const base::Root& node_root, const std::string& own_job_id,
                      const Trace& trace) {
    const auto jobs = jobs_left(node_root);
    if (!jobs) {
        trace.line("what other jobs have left is not removed: " + jobs.error().text());
        return;
    }
    const auto remove_all = [&](const std::set<std::string>& job_ids, bool interrupted) {
        for (const std::string& job_id : job_ids) {
            if (job_id != own_job_id) remove_apart(node_root, job_id, interrupted, trace);
        }
    };
    remove_all(jobs->interrupted, true);
    remove_all(jobs->ended, false);
    std::set<std::string> doubtful = jobs->doubtful;
    doubtful.erase(own_job_id);
    remove_all(ended_for_slurm(node_root, own_job_id, std::move(doubtful), trace), true);
}

}  // namespace batchai::node
