// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/pending_reason.hpp"

#include <array>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::slurm {

namespace {

struct Entry {
    std::string_view reason;
    std::string_view sentence;
    std::string_view advice;
};

constexpr std::array<Entry, 43> entries{{
    {"Resources", "the nodes that the job asks for are busy",
     "fewer nodes, or a shorter time limit, may start sooner"},
    {"Priority", "jobs of higher priority are ahead in the queue",
     "a shorter time limit lets Slurm fit the job in earlier"},
    {"Dependency", "another job, which this one depends on, has not ended", ""},
    {"DependencyNeverSatisfied", "a job that this one depends on ended in another way than needed",
     "delete this job and create it again without the dependency"},
    {"BeginTime",
     "the job's earliest start time has not come; a requeued job has to wait for the site's delay",
     ""},
    {"Cleaning", "the job was requeued and its last run is still being cleaned up", ""},
    {"JobHeldUser",
     "the job is held by the user, its cluster has become too small for it, or the "
     "command that submitted it was killed before it let it go",
     "release it with \"scontrol release JOB\", or enlarge the cluster with \"batchai cluster "
     "resize\""},
    {"JobHeldAdmin", "the job is held by an administrator", "ask the administrator why"},
    {"JobHoldMaxRequeue", "the job was requeued too often and is held now",
     "look for the cause of the failures, then \"scontrol release JOB\""},
    {"PartitionNodeLimit",
     "the job asks for more nodes than the partition allows, or needed nodes are down or drained",
     "lower nodeCount to MaxNodes of \"scontrol show partition\", or choose another vmSize"},
    {"PartitionConfig",
     "the job asks for more nodes than the partition has, or for what none of its nodes has: it "
     "does not start as things are",
     "lower nodeCount to the nodes that \"sinfo\" counts, or choose another vmSize"},
    {"PartitionTimeLimit", "the job's time limit is above the partition's",
     "lower constraints.maxWallClockTime to MaxTime of \"scontrol show partition\""},
    {"PartitionDown", "the partition is down", "ask the administrator, or choose another vmSize"},
    {"PartitionInactive", "the partition starts no jobs now",
     "ask the administrator, or choose another vmSize"},
    {"NodeDown", "a node that the job needs is down", "see \"sinfo -R\" for the cause"},
    {"BadConstraints", "no node has what the job asks for",
     "compare cpus, gres and features with \"sinfo -o '%N %c %G %f'\""},
    {"Licenses", "a licence that the job asks for is in use", "see \"scontrol show licenses\""},
    {"Reservation", "the job's reservation has not begun or is full",
     "see \"scontrol show reservation\""},
    {"ReservationDeleted", "the job's reservation was deleted and the job is held",
     "create the job again without the reservation"},
    {"InvalidAccount", "the job's account is not valid",
     "see your accounts with \"sacctmgr show assoc user=$USER\""},
    {"InvalidQOS", "the job's QOS is not valid",
     "see the QOS you may use with \"sacctmgr show assoc user=$USER\""},
    {"QOSJobLimit", "the QOS has reached its limit of jobs", "it starts when one of them ends"},
    {"QOSResourceLimit", "the QOS has reached its resource limit", "it starts when other jobs end"},
    {"QOSTimeLimit", "the QOS has used up its time", "choose another QOS"},
    {"QOSNotAllowed", "the partition does not allow the job's QOS",
     "see AllowQos of \"scontrol show partition\""},
    {"QOSUsageThreshold", "the account used more than its QOS allows", "choose another QOS"},
    {"AssociationJobLimit", "the account has reached its limit of jobs",
     "it starts when one of them ends"},
    {"AssociationResourceLimit", "the account has reached its resource limit",
     "it starts when other jobs end"},
    {"AssociationTimeLimit", "the account has used up its time", "ask the administrator"},
    {"AccountNotAllowed", "the partition does not allow the job's account",
     "see AllowAccounts of \"scontrol show partition\""},
    {"Prolog", "the nodes are being set up by the site's prolog", ""},
    {"FrontEndDown", "no front end is up to start the job", "ask the administrator"},
    {"JobArrayTaskLimit", "as many tasks of the array run as may at once", ""},
    {"launch failed requeued held",
     "the job could not be started on its node; it was requeued and is held",
     "ask the administrator to look at the node, then \"scontrol release JOB\""},
    {"job requeued in held state", "the job was requeued and is held",
     "release it with \"scontrol release JOB\""},
    {"SystemFailure", "Slurm, a file system or the network failed", "ask the administrator"},
    {"Constraints", "no node that the job may use now has what it asks for",
     "compare cpus, gres and features with \"sinfo -o '%N %c %G %f'\""},
    {"ReservationInvalid", "the job's reservation is not valid",
     "see \"scontrol show reservation\""},
    {"MaxPoweredUpNodes", "as many nodes are powered up as the site allows at once",
     "it starts when other nodes are powered down"},
    {"MpiPortsBusy", "the ports that Slurm reserves for MPI are in use",
     "it starts when other jobs end"},
    {"NvidiaImexChannels", "the channels for GPU memory across nodes are in use",
     "it starts when other jobs end"},
    {"RaisedSignal", "the last run of the job ended by a signal", ""},
    {"JobLaunchFailure", "the job could not be started on its node",
     "see the node's state with \"sinfo -R\""},
}};

// Returns what a limit is about: "QOSMaxNodePerUserLimit" is about nodes.
std::string_view counted(std::string_view lowered) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 11> words{{
        {"minutes", "minutes of use"},
        {"runmins", "minutes of use"},
        {"gres", "generic resources (GPUs)"},
        {"node", "nodes"},
        {"cpu", "processors"},
        {"mem", "memory"},
        {"wall", "run time"},
        {"jobs", "jobs"},
        {"submit", "waiting jobs"},
        {"bill", "billing units"},
        {"energy", "energy"},
    }};
    for (const auto& [word, meaning] : words)
        if (lowered.find(word) != std::string_view::npos) return meaning;
    return "some resource";
}

ReasonInWords limit_in_words(std::string_view reason) {
    const std::string lowered = base::lower(reason);
    // Those without a prefix, such as MaxCpuRunMinsPerUser, are limits of the QOS (slurm.h,
    // WAIT_QOS_MAX_CPU_RUN_MINS_PER_USER).
    const bool qos = !lowered.starts_with("assoc");
    const std::string_view owner = qos ? "QOS" : "account";
    const std::string_view limits =
        qos ? "\"sacctmgr show qos\"" : "\"sacctmgr show assoc user=$USER\"";
    const std::string_view what = counted(lowered);
    if (lowered.find("grp") != std::string::npos)
        return {fmt::format("all jobs of the {} together use as much of {} as they may ({})", owner,
                            what, reason),
                fmt::format("it starts when others end; see the limits with {}", limits)};
    if (lowered.starts_with("qosmin"))
        return {fmt::format("the job asks for less of {} than the {} demands ({})", what, owner,
                            reason),
                fmt::format("ask for more; see the limits with {}", limits)};
    return {
        fmt::format("the job exceeds the {}'s limit on {} ({})", owner, what, reason),
        fmt::format("ask for less, or wait for your other jobs; see the limits with {}", limits)};
}

// A reason such as "ReqNodeNotAvail, UnavailableNodes:n[1-2]" names the nodes.
ReasonInWords unavailable_in_words(std::string_view reason) {
    constexpr std::string_view mark = "UnavailableNodes:";
    const std::size_t found = reason.find(mark);
    std::string_view nodes =
        found == std::string_view::npos ? "" : base::trim(reason.substr(found + mark.size()));
    if (reason.find("Reserved for maintenance") != std::string_view::npos)
        return {"nodes that the job needs are reserved for maintenance",
                "a time limit that ends before the maintenance begins lets it start"};
    if (nodes.empty())
        return {"nodes that the job needs are down, drained, reserved or busy",
                "see \"sinfo -R\" for the cause"};
    return {fmt::format("nodes that the job needs are not available: {}", nodes),
            "see \"sinfo -R\" for the cause, or ask for other nodes"};
}

}  // namespace

ReasonInWords pending_reason_in_words(std::string_view reason) {
    reason = base::trim(reason);
    if (reason.starts_with('(') && reason.ends_with(')'))
        reason = reason.substr(1, reason.size() - 2);
    if (reason.empty() || reason == "None" || reason == "WaitingForScheduling")
        return {"the scheduler has not looked at the job yet", ""};
    const auto matches = [&](std::string_view known) {
        // Some commands print "_" instead of the blanks in a reason.
        std::string blanks(reason);
        for (char& c : blanks)
            if (c == '_') c = ' ';
        return reason == known || blanks == known;
    };
    for (const Entry& entry : entries)
        if (matches(entry.reason)) return {std::string(entry.sentence), std::string(entry.advice)};
    if (reason.starts_with("ReqNodeNotAvail")) return unavailable_in_words(reason);
    if (matches("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
                "partitions"))
        return unavailable_in_words(reason);
    // The last is a form such as MaxMemPerAccount, or MaxCpuRunMinsPerUser since 24.05.
    const bool limit = reason.starts_with("QOSMax") || reason.starts_with("QOSGrp") ||
                       reason.starts_with("QOSMin") || reason.starts_with("AssocGrp") ||
                       reason.starts_with("AssocMax") ||
                       (reason.starts_with("Max") &&
                        (reason.ends_with("PerAccount") || reason.ends_with("PerUser")));
    if (limit) return limit_in_words(reason);
    return {std::string(reason), ""};
}

}  // namespace batchai::slurm
