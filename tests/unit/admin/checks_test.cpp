// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/checks.hpp"

#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "admin/findings_view.hpp"

namespace batchai::admin {
namespace {

using ::testing::HasSubstr;

slurm::NodeStatus node(std::string name, slurm::NodeBaseState state) {
    return {.name = std::move(name), .state = state, .state_text = "idle", .partitions = {"main"}};
}

// A cluster without a fault.
ClusterFacts sound_cluster() {
    site::Site site;
    site.default_partition = "main";
    return {
        .version = "22.05.8",
        .controller = {},
        .credentials = {},
        .configuration =
            slurm::Configuration{{"AccountingStorageType", "accounting_storage/slurmdbd"},
                                 {"AuthInfo", "cred_expire=30"},
                                 {"AuthType", "auth/munge"},
                                 {"CliFilterPlugins", "lua"},
                                 {"JobContainerType", "job_container/none"},
                                 {"JobRequeue", "1"},
                                 {"MessageTimeout", "10 sec"},
                                 {"ProctrackType", "proctrack/cgroup"},
                                 {"SLURM_VERSION", "22.05.8"},
                                 {"SlurmdParameters", "(null)"},
                                 {"TaskProlog", "(null)"},
                                 {"UnkillableStepTimeout", "60 sec"}},
        .srun_help = "      --job-json=FILE   run the job",
        .mpi_types = std::vector<std::string>{"none", "pmi2", "pmix"},
        .nodes = std::vector{node("n1", slurm::NodeBaseState::idle)},
        .daemons = std::map<std::string, base::Endpoint>{{"n1", {.address = "h1", .port = 6818}},
                                                         {"n2", {.address = "h2", .port = 6818}}},
        .partitions = std::set<std::string>{"main"},
        .site = site,
        .cli_filter = "function batchai_pre_submit(options)",
        .node_faults = {}};
}

// A host without a fault.
HostFacts sound_host() {
    HostFacts facts;
    facts.host = "n1";
    facts.kernel = "6.1.0";
    facts.user = 1000;
    facts.slurm_version = "22.05.8";
    facts.plugstack = Plugstack{.lines = {{.place = "/etc/slurm/plugstack.conf:3",
                                           .plugin = "/opt/lib/slurm/batchai.so",
                                           .arguments = {"timeout=40"}}},
                                .faults = {},
                                .files = {"/etc/slurm/plugstack.conf"}};
    facts.plugstack_path = "/etc/slurm/plugstack.conf";
    facts.plugins = {
        {.path = "/opt/lib/slurm/batchai.so", .changeable = std::nullopt, .built_for = 0x160500U}};
    facts.site_file = SiteFile{.path = "/etc/batchai/site.lua", .changeable = {}, .digest = "ab"};
    facts.site = site::Site();
    facts.pmix_plugin =
        PmixPlugin{.path = "/usr/lib/slurm/mpi_pmix.so", .library = "libpmix.so", .loadable = true};
    facts.programs.insert(needed_programs.begin(), needed_programs.end());
    facts.has_subordinate_ids = true;
    facts.node_directory = {.path = "/tmp",
                            .fault = {},
                            .mode = 01777,
                            .free_bytes = 100LL << 30U,
                            .free_files = 1'000'000,
                            .can_write = true};
    facts.home = facts.node_directory;
    facts.address = "10.0.0.1";
    facts.cgroup_version = 2;
    facts.lockable_bytes = 65536;
    return facts;
}

template <typename Facts>
Judgement judge(std::span<const Check<Facts>> checks, std::string_view id, const Facts& facts) {
    for (const Check<Facts>& check : checks) {
        if (check.id == id) return check.judge(facts);
    }
    ADD_FAILURE() << "there is no check " << id;
    return {};
}

template <typename Facts>
struct Fault {
    const char* id;
    Severity severity;
    std::string said;  // a part of what the check finds
    std::function<void(Facts&)> plant;
};

TEST(Checks, HaveIdsOfTheirOwn) {
    const auto ids = all_ids();
    EXPECT_EQ(std::set<std::string_view>(ids.begin(), ids.end()).size(), ids.size());
    for (const std::string_view id : ids)
        EXPECT_THAT(explanation(id), HasSubstr(std::string(id)));
}

TEST(Checks, FindNothingWrongWithASoundCluster) {
    for (const auto& check : cluster_checks()) {
        const Judgement judgement = check.judge(sound_cluster());
        EXPECT_EQ(judgement.severity, Severity::ok) << check.id << ": " << judgement.found;
        EXPECT_NE(judgement.found, "") << check.id;
    }
}

TEST(Checks, FindNothingWrongWithASoundHost) {
    for (const auto& check : host_checks()) {
        const Judgement judgement = check.judge(sound_host());
        EXPECT_LE(judgement.severity, Severity::info) << check.id << ": " << judgement.found;
        EXPECT_NE(judgement.found, "") << check.id;
    }
}

template <typename T>
base::Result<T> broken() {
    return base::fail("no answer", "somewhere");
}

// What cannot be looked at is never taken for sound.
TEST(Checks, NeverPassWithoutFacts) {
    const ClusterFacts nothing{.version = broken<std::string>(),
                               .controller = broken<void>(),
                               .credentials = broken<void>(),
                               .configuration = broken<slurm::Configuration>(),
                               .srun_help = broken<std::string>(),
                               .mpi_types = broken<std::vector<std::string>>(),
                               .nodes = broken<std::vector<slurm::NodeStatus>>(),
                               .daemons = broken<std::map<std::string, base::Endpoint>>(),
                               .partitions = broken<std::set<std::string>>(),
                               .site = broken<site::Site>(),
                               .cli_filter = broken<std::string>(),
                               .node_faults = broken<NodeFaults>()};
    for (const auto& check : cluster_checks())
        EXPECT_GE(check.judge(nothing).severity, Severity::unknown) << check.id;
}

TEST(Checks, OfAHostAboutWhichNothingIsKnownPassOnlyWhereThereIsNothingToLookAt) {
    HostFacts nothing;
    nothing.host = "n1";
    nothing.address = "n1";
    nothing.user = 1000;
    nothing.slurm_version = broken<std::string>();
    nothing.plugstack = broken<Plugstack>();
    nothing.newer_than_slurmd = broken<std::string>();
    nothing.node_program = broken<void>();
    nothing.pmix_plugin = broken<PmixPlugin>();
    nothing.site = broken<site::Site>();
    nothing.namespaces = broken<void>();
    nothing.overlay = broken<void>();
    nothing.fuse = broken<void>();
    nothing.node_directory.fault = "no answer";
    nothing.home.fault = "no answer";
    const std::set<std::string_view> may_pass{"ids.subordinate", "net.memlock", "gpu.cdi",
                                              "host.kernel"};
    for (const auto& check : host_checks()) {
        if (may_pass.contains(check.id)) continue;
        EXPECT_GE(check.judge(nothing).severity, Severity::unknown) << check.id;
    }
}

void notes_failed_nodes(ClusterFacts& facts) {
    facts.site->note_failed_nodes = true;
    (*facts.configuration)["AccountingStoreFlags"] = "job_script,job_comment";
}

void share_a_host(ClusterFacts& facts) {
    facts.daemons = std::map<std::string, base::Endpoint>{{"n1", {.address = "h1", .port = 7001}},
                                                          {"n2", {.address = "h1", .port = 7002}}};
}

const std::vector<Fault<ClusterFacts>> cluster_faults{
    {"slurm.version", Severity::error, "older", [](auto& facts) { facts.version = "21.08.1"; }},
    {"slurm.version", Severity::info, "22.05, 24.11 and 26.05",
     [](auto& facts) { facts.version = "25.05.0rc1"; }},
    {"slurm.version", Severity::ok, "26.05.5", [](auto& facts) { facts.version = "26.05.5"; }},
    {"slurm.controller", Severity::error, "no answer",
     [](auto& facts) { facts.controller = broken<void>(); }},
    {"slurm.credentials", Severity::error, "no answer",
     [](auto& facts) { facts.credentials = broken<void>(); }},
    {"slurm.nodes", Severity::warning, "n1 (idle: bad disk)",
     [](auto& facts) {
         facts.nodes->front().flags.insert(slurm::NodeFlag::drain);
         facts.nodes->front().reason = "bad disk";
     }},
    {"slurm.nodes", Severity::error, "no nodes", [](auto& facts) { facts.nodes->clear(); }},
    {"slurm.slurmds", Severity::unknown, "no answer",
     [](auto& facts) { facts.daemons = broken<std::map<std::string, base::Endpoint>>(); }},
    {"slurm.slurmds", Severity::error, "n1, n2 are on one host, and SlurmdSpoolDir",
     [](auto& facts) { share_a_host(facts); }},
    {"slurm.slurmds", Severity::error, "n1, n2 are on one host, and TmpFS",
     [](auto& facts) {
         share_a_host(facts);
         (*facts.configuration)["SlurmdSpoolDir"] = "/var/spool/slurmd.%n";
     }},
    {"slurm.slurmds", Severity::ok, "have directories of their own",
     [](auto& facts) {
         share_a_host(facts);
         (*facts.configuration)["SlurmdSpoolDir"] = "/var/spool/slurmd.%n";
         (*facts.configuration)["TmpFS"] = "/tmp/slurm-%n";
     }},
    {"slurm.slurmds", Severity::ok, "have directories of their own",
     [](auto& facts) {
         share_a_host(facts);
         (*facts.configuration)["SlurmdSpoolDir"] = "/var/spool/slurmd.%n";
         facts.site->mpi = "pmi2";
     }},
    {"nodes.faults", Severity::unknown, "no answer",
     [](auto& facts) { facts.site = broken<site::Site>(); }},
    {"nodes.faults", Severity::warning, "does not keep comments",
     [](auto& facts) {
         facts.site->note_failed_nodes = true;
         (*facts.configuration)["AccountingStoreFlags"] = "job_comments,job_script";
     }},
    {"nodes.faults", Severity::warning, "does not keep comments",
     [](auto& facts) {
         notes_failed_nodes(facts);
         facts.configuration->at("AccountingStorageType") = "accounting_storage/none";
     }},
    {"nodes.faults", Severity::unknown, "no answer",
     [](auto& facts) {
         notes_failed_nodes(facts);
         facts.node_faults = broken<NodeFaults>();
     }},
    {"nodes.faults", Severity::ok, "none has found a node bad in the last 7 days",
     [](auto& facts) {
         notes_failed_nodes(facts);
         facts.node_faults = NodeFaults{.days = 7};
     }},
    {"nodes.faults", Severity::info, "in the last 1 day; sacct is too slow",
     [](auto& facts) {
         notes_failed_nodes(facts);
         facts.node_faults = NodeFaults{.days = 1, .is_complete = false};
     }},
    {"plugin.loads", Severity::error, "--job-json", [](auto& facts) { facts.srun_help = "usage"; }},
    {"filter.active", Severity::warning, "CliFilterPlugins",
     [](auto& facts) { facts.configuration->at("CliFilterPlugins") = "(null)"; }},
    {"filter.active", Severity::error, "refuses every job",
     [](auto& facts) {
         facts.cli_filter =
             base::fail("no such file", "cli_filter.lua", {}, base::ExitCode::not_found);
     }},
    {"filter.active", Severity::unknown, "no answer",
     [](auto& facts) { facts.cli_filter = broken<std::string>(); }},
    {"filter.active", Severity::warning, "does not load ours",
     [](auto& facts) { facts.cli_filter = "function slurm_cli_pre_submit()"; }},
    {"policy.enforced", Severity::warning, "JobSubmitPlugins",
     [](auto& facts) { facts.site->policy.images = {"docker.io/*"}; }},
    {"mpi.types", Severity::error, "no --mpi=pmix, only none, pmi2",
     [](auto& facts) { facts.mpi_types->pop_back(); }},
    {"site.partitions", Severity::error, "vm_sizes.NC6.partition names \"gpu\"",
     [](auto& facts) { facts.site->vm_sizes["NC6"].partition = "gpu"; }},
    {"proc.tracking", Severity::warning, "linuxproc",
     [](auto& facts) { facts.configuration->at("ProctrackType") = "proctrack/linuxproc"; }},
    {"slurm.contain-spank", Severity::error, "contain_spank",
     [](auto& facts) { facts.configuration->at("SlurmdParameters") = "a,contain_spank"; }},
    {"slurm.private-tmp", Severity::warning, "job_container/tmpfs",
     [](auto& facts) { facts.configuration->at("JobContainerType") = "job_container/tmpfs"; }},
    {"slurm.taskprolog", Severity::info, "/etc/prolog",
     [](auto& facts) { facts.configuration->at("TaskProlog") = "/etc/prolog"; }},
    {"slurm.taskprolog", Severity::error, "cannot run it there",
     [](auto& facts) {
         facts.configuration->at("TaskProlog") = "/etc/prolog";
         facts.version = "24.11.5";
     }},
    {"slurm.requeue", Severity::warning, "JobRequeue",
     [](auto& facts) { facts.configuration->at("JobRequeue") = "0"; }},
    {"slurm.requeue", Severity::ok, "after 30 s", [](auto&) {}},
    {"slurm.requeue", Severity::info, "after 120 s at the earliest; cred_expire=60 in AuthInfo of",
     [](auto& facts) { facts.configuration->at("AuthInfo") = "(null)"; }},
    {"slurm.requeue", Severity::info, "; requeue_delay=5 in SchedulerParameters of slurm.conf",
     [](auto& facts) {
         facts.configuration->at("AuthInfo") = "cred_expire=600";
         facts.configuration->at("SLURM_VERSION") = "25.11.2";
     }},
    {"slurm.unkillable", Severity::warning, "30 s",
     [](auto& facts) { facts.configuration->at("UnkillableStepTimeout") = "30 sec"; }},
    {"slurm.unkillable", Severity::warning, "60 s",
     [](auto& facts) { facts.configuration->at("MessageTimeout") = "20 sec"; }},
    {"power.programs", Severity::warning, "ResumeProgram is not set",
     [](auto& facts) { (*facts.configuration)["SuspendProgram"] = "/suspend"; }},
    {"power.programs", Severity::warning, "ResumeTimeout is 20 s",
     [](auto& facts) {
         (*facts.configuration)["SuspendProgram"] = "/suspend";
         (*facts.configuration)["ResumeProgram"] = "/resume";
         (*facts.configuration)["ResumeTimeout"] = "20 sec";
     }},
    {"power.programs", Severity::ok, "powers nodes down and up",
     [](auto& facts) {
         (*facts.configuration)["SuspendProgram"] = "/suspend";
         (*facts.configuration)["ResumeProgram"] = "/resume";
         (*facts.configuration)["SuspendTime"] = "60 sec";
     }},
    {"power.programs", Severity::warning, "SuspendTime is 60 s",
     [](auto& facts) {
         facts.configuration->at("AuthInfo") = "(null)";
         (*facts.configuration)["SuspendProgram"] = "/suspend";
         (*facts.configuration)["ResumeProgram"] = "/resume";
         (*facts.configuration)["SuspendTime"] = "60 sec";
     }},
    {"slurm.accounting", Severity::info, "no accounts",
     [](auto& facts) {
         facts.configuration->at("AccountingStorageType") = "accounting_storage/none";
     }},
};

const std::vector<Fault<HostFacts>> host_faults{
    {"plugin.line", Severity::error, "no line",
     [](auto& facts) { facts.plugstack->lines.clear(); }},
    {"plugin.line", Severity::error, "no answer",
     [](auto& facts) { facts.plugstack = broken<Plugstack>(); }},
    {"plugin.line", Severity::error, "2 times",
     [](auto& facts) { facts.plugstack->lines.push_back(facts.plugstack->lines.front()); }},
    {"plugin.line", Severity::warning, "required",
     [](auto& facts) { facts.plugstack->lines.front().required = true; }},
    {"plugin.arguments", Severity::warning, "time_out=3",
     [](auto& facts) { facts.plugstack->lines.front().arguments = {"time_out=3"}; }},
    {"plugin.arguments", Severity::warning, "neither",
     [](auto& facts) { facts.plugstack->faults = {"f:1: \"x\" is neither"}; }},
    {"plugin.file", Severity::error, "belongs to user 7",
     [](auto& facts) { facts.plugins.front().changeable = "/opt belongs to user 7"; }},
    {"plugin.file", Severity::warning, "can be written to by others",
     [](auto& facts) {
         facts.changeable_configuration = {
             "/etc/slurm/plugstack.conf: can be written to by others"};
     }},
    {"plugin.abi", Severity::error, "built for Slurm 24.11.0",
     [](auto& facts) { facts.plugins.front().built_for = 0x180B00U; }},
    {"plugin.abi", Severity::error, "no answer",
     [](auto& facts) { facts.plugins.front().built_for = broken<std::uint32_t>(); }},
    {"plugin.abi", Severity::unknown, "by its path", [](auto& facts) { facts.plugins.clear(); }},
    {"plugin.epilog", Severity::warning, "newer than",
     [](auto& facts) { facts.newer_than_slurmd = "/opt/lib/slurm/batchai.so"; }},
    {"plugin.epilog", Severity::info, "scontrol reconfigure",
     [](auto& facts) {
         facts.newer_than_slurmd = "/opt/lib/slurm/batchai.so";
         facts.slurm_version = "24.11.5";
     }},
    {"plugin.epilog", Severity::info, "fetched plugstack.conf again",
     [](auto& facts) { facts.fetched_again = true; }},
    {"plugin.epilog", Severity::ok, "slurmd has started since then",
     [](auto& facts) {
         facts.fetched_again = true;
         facts.slurm_version = "24.11.5";
     }},
    {"pkg.node-program", Severity::error, "no answer",
     [](auto& facts) { facts.node_program = broken<void>(); }},
    {"mpi.library", Severity::error, "loads libpmix.so, which this host does not have",
     [](auto& facts) { facts.pmix_plugin->loadable = false; }},
    {"mpi.library", Severity::unknown, "no answer",
     [](auto& facts) { facts.pmix_plugin = broken<PmixPlugin>(); }},
    {"site.file", Severity::error, "no answer",
     [](auto& facts) { facts.site = broken<site::Site>(); }},
    {"site.file", Severity::error, "mode 0666",
     [](auto& facts) { facts.site_file->changeable = "written by others (mode 0666)"; }},
    {"site.directories", Severity::unknown, "named_mounts.x",
     [](auto& facts) { facts.unanswered_directories = {"named_mounts.x: /data: late"}; }},
    {"ns.user", Severity::unknown, "as root", [](auto& facts) { facts.user = 0; }},
    {"ns.overlay", Severity::unknown, "as root", [](auto& facts) { facts.user = 0; }},
    {"fuse.device", Severity::unknown, "as root", [](auto& facts) { facts.user = 0; }},
    {"dir.node", Severity::unknown, "as root", [](auto& facts) { facts.user = 0; }},
    {"plugin.line", Severity::unknown, "no answer",
     [](auto& facts) {
         facts.plugstack = broken<Plugstack>();
         facts.plugstack_path.clear();
     }},
    {"plugin.epilog", Severity::unknown, "no answer",
     [](auto& facts) { facts.newer_than_slurmd = broken<std::string>(); }},
    {"site.directories", Severity::error, "named_mounts.x",
     [](auto& facts) { facts.missing_directories = {"named_mounts.x: /data"}; }},
    {"ns.user", Severity::error, "max_user_namespaces=0",
     [](auto& facts) {
         facts.namespaces = broken<void>();
         facts.limits_of_namespaces = {{"max_user_namespaces", "0"}};
     }},
    {"ns.overlay", Severity::warning, "fuse-overlayfs",
     [](auto& facts) { facts.overlay = broken<void>(); }},
    {"ns.overlay", Severity::error, "no answer",
     [](auto& facts) {
         facts.overlay = broken<void>();
         facts.programs.erase("fuse-overlayfs");
     }},
    {"fuse.device", Severity::error, "no answer", [](auto& facts) { facts.fuse = broken<void>(); }},
    {"tools.image", Severity::warning, "umoci", [](auto& facts) { facts.programs.erase("umoci"); }},
    {"tools.container", Severity::warning, "squashfuse_ll",
     [](auto& facts) { facts.programs.erase("squashfuse_ll"); }},
    {"tools.volumes", Severity::warning, "rclone",
     [](auto& facts) {
         facts.site->other_accounts_in_azure = true;
         facts.programs.erase("rclone");
     }},
    {"ids.subordinate", Severity::info, "one user id",
     [](auto& facts) { facts.has_subordinate_ids = false; }},
    {"ids.subordinate", Severity::warning, "newuidmap",
     [](auto& facts) { facts.programs.erase("newuidmap"); }},
    {"dir.node", Severity::error, "symbolic link",
     [](auto& facts) { facts.node_directory.is_link = true; }},
    {"dir.node", Severity::error, "belongs to user 7",
     [](auto& facts) { facts.node_directory.owner = 7; }},
    {"dir.node", Severity::error, "remove what belongs to others",
     [](auto& facts) { facts.node_directory.mode = 0777; }},
    {"dir.node", Severity::error, "cannot be used",
     [](auto& facts) { facts.node_directory.fault = "No such file or directory"; }},
    {"dir.node", Severity::error, "cannot be written",
     [](auto& facts) { facts.node_directory.can_write = false; }},
    {"dir.node-space", Severity::warning, "in memory",
     [](auto& facts) { facts.node_directory.in_memory = true; }},
    {"dir.node-space", Severity::warning, "1.0 GiB",
     [](auto& facts) { facts.node_directory.free_bytes = 1LL << 30U; }},
    {"dir.node-space", Severity::warning, "7 files",
     [](auto& facts) { facts.node_directory.free_files = 7; }},
    {"dir.home", Severity::error, "no home", [](auto& facts) { facts.home.fault = "no home"; }},
    {"dir.home", Severity::error, "cannot be written",
     [](auto& facts) { facts.home.can_write = false; }},
    {"dir.home", Severity::warning, "0.5 GiB",
     [](auto& facts) { facts.home.free_bytes = 1LL << 29U; }},
    {"net.address", Severity::warning, "loopback", [](auto& facts) { facts.address = "n1"; }},
    {"net.memlock", Severity::warning, "64 KiB", [](auto& facts) { facts.has_infiniband = true; }},
    {"gpu.cdi", Severity::warning, "CDI", [](auto& facts) { facts.has_nvidia = true; }},
};

template <typename Facts>
void expect_found(std::span<const Check<Facts>> checks, const std::vector<Fault<Facts>>& faults,
                  Facts (*sound)()) {
    std::set<std::string_view> tried;
    for (const Fault<Facts>& fault : faults) {
        SCOPED_TRACE(std::string(fault.id) + ": " + fault.said);
        Facts facts = sound();
        fault.plant(facts);
        const Judgement judgement = judge(checks, fault.id, facts);
        EXPECT_EQ(judgement.severity, fault.severity);
        EXPECT_THAT(judgement.found, HasSubstr(fault.said));
        // What has to be mended has a remedy.
        EXPECT_TRUE(fault.severity <= Severity::unknown || !judgement.remedy.empty());
        tried.insert(fault.id);
    }
    // "host.kernel" only informs.
    for (const Check<Facts>& check : checks)
        EXPECT_TRUE(tried.contains(check.id) || check.id == "host.kernel") << check.id;
}

TEST(Checks, FindEachFaultOfACluster) {
    expect_found(cluster_checks(), cluster_faults, sound_cluster);
}

TEST(Checks, FindEachFaultOfAHost) {
    expect_found(host_checks(), host_faults, sound_host);
}

}  // namespace
}  // namespace batchai::admin
