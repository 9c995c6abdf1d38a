// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/sandbox.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/beneath.hpp"
#include "base/file.hpp"
#include "base/ids.hpp"
#include "node/bundle/bundle.hpp"
#include "node/keeper/leftovers.hpp"
#include "node/namespace/identity.hpp"
#include "node/namespace/user_namespace.hpp"
#include "node/nccl_interface.hpp"
#include "node/node_name.hpp"
#include "node/node_root.hpp"
#include "node/reply.hpp"
#include "node/rootfs/container.hpp"
#include "node/secrets.hpp"
#include "node/slurm_conf.hpp"
#include "node/volumes/volumes.hpp"
#include "plan/container.hpp"
#include "plan/paths.hpp"
#include "plan/plan_file.hpp"
#include "plan/relocate.hpp"
#include "record/job_files.hpp"
#include "record/node_notes.hpp"
#include "record/software.hpp"
#include "site/site.hpp"
#include "spank/protocol.h"

namespace batchai::node {

namespace {

constexpr std::chrono::seconds rendezvous_deadline{10};

base::Result<Volumes> make_mounts(const plan::Plan& plan, const std::string& job_id,
                                  const Trace& trace) {
    const auto node_root = TRY(base::open_private_directory(plan.directories.node_root));
    return Volumes::mount(plan, node_root, job_id, trace);
}

// The directories for the job's output. Those on a mount of the plan or in a container are made
// inside the sandbox: before the mount is checked, its source may be missing or its server may not
// answer. The others are made before the process enters its user namespace, because inside it, root
// and all other users look alike as owners of a directory.
struct OutputPaths {
    std::vector<std::string> on_node;
    std::vector<std::string> in_sandbox;
};

OutputPaths output_paths(const plan::Plan& plan) {
    const plan::Directories& directories = plan.directories;
    OutputPaths paths;
    const auto add = [&](const std::string& path, const std::string& path_host) {
        const bool in_container =
            plan.container && path_host.empty() && !plan::is_within(path, directories.node_root);
        if (path.empty() && path_host.empty()) return;
        if (plan.place_of(path).mount != nullptr || in_container)
            paths.in_sandbox.push_back(path);
        else
            paths.on_node.push_back(path_host.empty() ? path : path_host);
    };
    add(directories.shared_job_temp, directories.shared_job_temp);
    add(directories.stdouterr, directories.stdouterr_host);
    for (const plan::OutputDirectory& output : plan.outputs) {
        if (output.create) add(output.path, output.path_host);
    }
    return paths;
}

// Makes the directories because programs expect them. A failure is only written to the trace,
// because the job may never write to them.
void make_output_directories(const std::vector<std::string>& paths, const Trace& trace) {
    for (const std::string& path : paths) {
        if (auto made = base::make_guarded_directory(path); !made) trace.line(made.error().text());
    }
}

std::optional<Rendezvous> arrange_rendezvous(const SandboxRequest& request,
                                             const std::string& job_directory, const Trace& trace) {
    if (request.rendezvous_step.empty()) return std::nullopt;
    auto made = meet({record::JobFiles(job_directory).node_logs().string(), request.rendezvous_step,
                      request.node, request.nodes},
                     rendezvous_deadline);
    if (made) return std::move(*made);
    trace.line("MASTER_ADDR and MASTER_PORT are not set: " + made.error().text());
    return std::nullopt;
}

// Only steps whose tasks are ranks have a place to meet.
void arrange_nccl(const SandboxRequest& request, const Trace& trace, Sandbox& out) {
    if (request.rendezvous_step.empty() && request.master.empty()) return;
    const std::string master = out.rendezvous ? out.rendezvous->address : request.master;
    auto interface = nccl_interface_of_this_node(master, out.environment);
    if (!interface) return;
    if (interface->name.empty()) {
        out.say_nccl_interface = [trace, reason = std::move(interface->reason)] {
            trace.line("NCCL_SOCKET_IFNAME is not set: " + reason);
        };
        return;
    }
    // NCCL would take these for the end of the name.
    if (interface->name.find_first_of(",:") != std::string::npos) return;
    out.environment.push_back({BATCHAI_NCCL_INTERFACE_VARIABLE, interface->name});
    out.say_nccl_interface = [trace, interface = std::move(*interface)] {
        trace.line(fmt::format("NCCL_SOCKET_IFNAME is \"={}\": NCCL uses {}", interface.name,
                               interface.reason));
    };
}

std::string spool_of_slurmd(const std::string& slurm_conf) {
    return spool_directory(read_slurm_conf(slurm_conf).text, node_name(), host_name());
}

// Without a container, the step sees the node's own file system, except for the plan's mounts.
base::Result<void> enter_node(const plan::Plan& plan, const SandboxRequest& request,
                              const Trace& trace, Sandbox& out) {
    TRY(enter_private_namespaces());
    out.volumes = TRY(make_mounts(plan, request.job_id, trace));
    add_python_hook(false, out.environment);
    return {};
}

base::Result<void> enter_container(const plan::Plan& plan, const SandboxRequest& request,
                                   const Trace& trace, Sandbox& out) {
    const bool root = request.as_root || plan.container->ranks_as_root;
    const NodePlaces places{find_account().home, spool_of_slurmd(request.slurm_conf),
                            request.submit_directory};
    const auto device_files = TRY(read_cdi());
    auto joined = TRY(join_container({plan, request.job_id, places, device_files}, trace));
    const bool one_id = !find_identities().full();
    TRY(enter(joined.connection, root ? Identity::root : Identity::user));
    add_bundle_packages(*plan.container, out.environment);
    add_python_hook(true, out.environment);
    TaskEnvironment environment = container_environment(*plan.container, joined.devices.environment,
                                                        std::exchange(out.environment, {}));
    out.environment = std::move(environment.set);
    out.unset.insert(out.unset.end(), environment.unset.begin(), environment.unset.end());
    out.working_directory = plan.container->working_directory;
    out.one_id = root && one_id;
    out.container = std::move(joined.connection);
    return check_environment(out.environment);
}

std::optional<Sampler> start_sampler(const SandboxRequest& request, const plan::Plan& plan,
                                     const Trace& trace) {
    if (request.usage_step.empty()) return std::nullopt;
    const std::string* const wanted =
        plan::last_value(plan.environment, record::usage_interval_variable);
    const auto interval = usage_interval(wanted == nullptr ? "" : *wanted);
    if (!interval) {
        trace.line(interval.error().text());
        return std::nullopt;
    }
    if (interval->count() == 0) return std::nullopt;
    auto sampler = Sampler::start({.job_directory = plan.directories.job_directory,
                                   .step = request.usage_step,
                                   .slurm_step = request.slurm_step,
                                   .job_id = request.job_id,
                                   .interval = *interval},
                                  trace);
    if (sampler) return std::move(*sampler);
    trace.line("what the step uses is not noted: " + sampler.error().text());
    return std::nullopt;
}

// What the job's "software" sets comes before the job's own variables, which replace it.
base::Result<void> add_software(const plan::Plan& plan, const std::string& job_id, Sandbox& out) {
    if (!plan.software) return {};
    auto changes = record::read_node_software(record::JobFiles(plan.directories.job_directory),
                                              node_name(), job_id);
    if (!changes) {
        // With other software than the job's, the ranks would compute something else.
        changes.error().what = "the software of the job is not set up: " + changes.error().what;
        return tl::unexpected<base::Error>(std::move(changes).error());
    }
    // `batchai run` has not come to that, or nobody has called it.
    if (!*changes) return {};
    for (const std::string& change : **changes) {
        const std::size_t equals = change.find('=');
        if (equals == std::string::npos)
            out.unset.push_back(change);
        else
            out.environment.push_back({change.substr(0, equals), change.substr(equals + 1)});
    }
    return {};
}

std::optional<record::StartNote> open_start_note(const SandboxRequest& request,
                                                 const record::JobFiles& files,
                                                 const Trace& trace) {
    if (request.starts.empty()) return std::nullopt;
    auto note = record::StartNote::open(files, request.starts, request.node, request.tasks);
    if (note) return std::move(*note);
    trace.line("which tasks start is not noted: " + note.error().text());
    return std::nullopt;
}

// Writes a failure note for the job's record, unless there is one already, such as that of a volume
// that could not be mounted.
void note_failed_container(const std::string& job_directory, const base::Error& error) {
    const record::JobFiles files(job_directory);
    if (!record::has_failure_note(files, node_name()))
        record::write_failure_note(
            files, {.code = "FailedStartingContainer", .text = error.text(), .node = node_name()});
}

// slurmctld believes what a job says of its image, which its user can forge, and does not see the
// steps that use another image. Here the name comes from the plan, and the policy from the node's
// own site.lua. If that cannot be read, nobody knows what it allows.
base::Result<void> check_image(const plan::Plan& plan) {
    const site::Site site = TRY(site::load_default());
    if (site.policy.images.empty()) return {};
    const std::string_view image = plan::declared_image(plan);
    const auto& patterns = site.policy.images;
    if (std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
            return !image.empty() && site::matches(image, pattern);
        }))
        return {};
    return base::fail(fmt::format("this site does not allow the image {}", image), {},
                      fmt::format("it allows {}", fmt::join(patterns, ", ")));
}

base::Result<void> enter(const plan::Plan& plan, const SandboxRequest& request, const Trace& trace,
                         Sandbox& out) {
    if (!plan.container) return enter_node(plan, request, trace, out);
    TRY(check_image(plan));
    return enter_container(plan, request, trace, out);
}

}  // namespace

base::Result<Sandbox> make_sandbox(const SandboxRequest& request) {
    const base::Time begin = base::now();
    // For whatever reads slurm.conf, and for Slurm's commands, if Slurm has to be asked.
    if (!request.slurm_conf.empty()) setenv("SLURM_CONF", request.slurm_conf.c_str(), 1);
    plan::Plan submitted = TRY(plan::read_plan(request.plan_path, request.plan_digest,
                                               plan::array_task_number(request.array_task)));
    const record::JobFiles files(submitted.directories.job_directory);
    const Trace trace(submitted.directories.job_directory);
    Sandbox out;
    out.note.emplace(files, node_name(), begin);
    out.starts = open_start_note(request, files, trace);
    const plan::Plan settled = TRY(settle_node_root(std::move(submitted), trace));
    const plan::Plan* const plan = &settled;
    wait_for_earlier_steps(*plan, request.job_id, trace);
    const auto node_root = TRY(base::open_private_directory(plan->directories.node_root));
    remove_leftovers(node_root, request.job_id, trace);
    auto& environment = out.environment;
    TRY(add_software(*plan, request.job_id, out));
    environment.insert(environment.end(), plan->environment.begin(), plan->environment.end());
    auto secrets = TRY(read_secrets(plan->directories.plan_directory, plan->secret_names));
    environment.insert(environment.end(), secrets.begin(), secrets.end());
    out.rendezvous = arrange_rendezvous(request, plan->directories.job_directory, trace);
    if (out.rendezvous)
        environment.push_back(
            {BATCHAI_MASTER_VARIABLE,
             fmt::format("{} {}", out.rendezvous->address, out.rendezvous->port)});
    arrange_nccl(request, trace, out);
    TRY(check_environment(environment));

    // It stays outside the namespaces, from where it sees all processes and the node's /proc.
    out.sampler = start_sampler(request, *plan, trace);

    const OutputPaths outputs = output_paths(*plan);
    TRY(make_job_directory(node_root, plan->directories.job_temp, request.job_id));
    make_output_directories(outputs.on_node, trace);
    const auto made = enter(*plan, request, trace, out);
    if (!made) {
        trace.line("the sandbox cannot be made: " + made.error().what);
        if (plan->container) note_failed_container(plan->directories.job_directory, made.error());
        return tl::unexpected<base::Error>(made.error());
    }
    make_output_directories(outputs.in_sandbox, trace);
    out.note->ready();
    trace.line(fmt::format("the sandbox of Slurm job {} is ready", request.job_id));
    return out;
}

}  // namespace batchai::node
