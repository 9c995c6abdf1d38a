// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "admin/checks.hpp"
#include "admin/cluster_facts.hpp"
#include "admin/findings_view.hpp"
#include "admin/host_facts.hpp"
#include "admin/installation.hpp"
#include "admin/nodes.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "cli/output/output.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "slurm/client.hpp"
#include "slurm/hostlist.hpp"

namespace batchai::cli {
namespace {

struct AdminCheckOptions {
    bool this_host = false;
    bool cluster = false;  // all nodes, too
    std::string nodes;     // a host list of Slurm's; empty: none
    std::vector<std::string> only;
    std::string explain;
    bool json = false;
};

base::Error no_such_check(const std::string& id) {
    const auto ids = admin::all_ids();
    const auto meant = base::nearest(id, ids);
    return {.what = fmt::format("there is no check \"{}\"", id),
            .where = "batchai admin check",
            .hint = meant ? fmt::format("did you mean \"{}\"?", *meant)
                          : fmt::format("the checks are {}", fmt::join(ids, ", ")),
            .exit_code = base::ExitCode::usage};
}

// A group such as "plugin" selects all checks "plugin.…".
bool is_check_or_group(const std::string& id) {
    for (const std::string_view known : admin::all_ids()) {
        if (known == id || known.starts_with(id + ".")) return true;
    }
    return false;
}

Answer explain(const std::string& id) {
    const std::string text = admin::explanation(id);
    if (text.empty()) return tl::unexpected(no_such_check(id));
    fmt::print("{}", text);
    return Outcome{};
}

std::string digest_of(const admin::HostFacts& host) {
    if (host.site_file) return host.site_file->digest;
    return host.site ? "" : std::string(admin::not_known);
}

admin::HostFindings report_of(const admin::HostFacts& host) {
    return {.version = BATCHAI_VERSION,
            .host = host.host,
            .slurm = host.slurm_version.value_or(std::string(admin::not_known)),
            .time = host.time,
            .site_digest = digest_of(host),
            .checks = {}};
}

base::Result<std::vector<admin::Finding>> findings_on_nodes(const AdminCheckOptions& options,
                                                            const slurm::Client& client,
                                                            const admin::ClusterFacts& cluster,
                                                            const admin::HostFindings& report) {
    const std::vector<std::string> wanted = TRY(slurm::expand_hostlist(options.nodes));
    const auto nodes = TRY(cluster.nodes);
    const site::Site site = cluster.site.value_or(site::Site());
    const auto choice = TRY(admin::choose_nodes(nodes, wanted, site.default_partition));
    return admin::check_nodes(client, site, choice, report, say);
}

Answer admin_check(const AdminCheckOptions& options) {
    if (!options.explain.empty()) return explain(options.explain);
    for (const std::string& id : options.only) {
        if (!is_check_or_group(id)) return tl::unexpected(no_such_check(id));
    }
    const bool on_nodes = options.cluster || !options.nodes.empty();
    // Root's home directory is usually local, so the nodes' reports would not arrive, and root's
    // rights would say nothing about those of users.
    if (on_nodes && geteuid() == 0 && !base::variable("BATCHAI_HOME"))
        return base::fail("root cannot have nodes checked: jobs run as users",
                          "batchai admin check", "run it as an ordinary user",
                          base::ExitCode::usage);
    if (options.this_host && on_nodes)
        return base::fail("--this-host excludes --cluster and --nodes", "batchai admin check", {},
                          base::ExitCode::usage);
    const admin::HostFacts host = admin::look_at_host();
    admin::HostFindings report = report_of(host);
    if (!options.this_host) {
        const slurm::Client client = slurm::Client::interactive();
        const admin::ClusterFacts cluster = admin::look_at_cluster(client);
        admin::judge_all(admin::cluster_checks(), cluster, report.host, report.checks);
        if (on_nodes) {
            auto found = TRY(findings_on_nodes(options, client, cluster, report));
            report.checks.insert(report.checks.end(), found.begin(), found.end());
        }
    }
    admin::judge_all(admin::host_checks(), host, report.host, report.checks);
    report.checks = admin::selected(std::move(report.checks), options.only);
    if (report.checks.empty())
        return base::fail(fmt::format("nothing is checked: {} not made with these options",
                                      fmt::join(options.only, ", ")),
                          "batchai admin check", "add --cluster, or leave out --this-host",
                          base::ExitCode::usage);
    fmt::print("{}", options.json ? base::format_json(base::to_value(report))
                                  : admin::report_text(report));
    return Outcome{.exit_code = admin::exit_code(admin::worst(report.checks))};
}

struct ShowConfigOptions {
    bool origin = false;
};

// Returns a value as a cell of a table; a list as its items.
std::string cell_of(const Value& value) {
    if (const std::string* text = value.string()) return *text;
    if (const bool* flag = value.boolean()) return *flag ? "True" : "False";
    if (const std::int64_t* number = value.integer()) return std::to_string(*number);
    std::vector<std::string> items;
    if (const Value::Array* list = value.array()) {
        for (const Value& item : *list)
            items.push_back(cell_of(item));
    }
    return fmt::format("{}", fmt::join(items, ", "));
}

Table settings_table(const Value& settings) {
    Table table{{"Key", "Value"}, {}};
    for (const Value& setting : *settings.array()) {
        const bool has_origin = !setting["origin"].is_null();
        if (has_origin && table.headers.size() == 2) table.headers.emplace_back("Origin");
        table.rows.push_back({cell_of(setting["key"]), cell_of(setting["value"])});
        if (has_origin) table.rows.back().push_back(cell_of(setting["origin"]));
    }
    return table;
}

Answer show_config(const ShowConfigOptions& options) {
    Value::Array out;
    for (admin::InstalledSetting& setting : TRY(admin::installed_settings())) {
        Value::Object object{{"key", std::move(setting.key)}, {"value", std::move(setting.value)}};
        if (options.origin) object.emplace_back("origin", std::move(setting.origin));
        out.emplace_back(std::move(object));
    }
    return Outcome{Value(std::move(out)), settings_table};
}

}  // namespace

const Verbs admin_verbs("", 60, [](CommandTree& tree, Parser app) {
    const Parser group = add_group(app, "admin", "Check an installation, and look into jobs");
    auto [leaf, options] =
        add_verb(tree, group, "check", "Look for what is wrong with the installation",
                 "batchai admin check --cluster", admin_check, Printing::by_itself);
    leaf.add_flag("--cluster", options->cluster,
                  "Also check all nodes that can start a task now, in a short job");
    leaf.add_option("--nodes", options->nodes, "Also check these nodes, in a short job")
        .type_name("HOSTLIST");
    leaf.add_flag("--this-host", options->this_host, "Make only the checks of this host");
    leaf.add_option("--only", options->only,
                    "Report only this check, or all whose names begin so, such as \"plugin\"; may "
                    "be repeated")
        .type_name("CHECK");
    leaf.add_option("--explain", options->explain, "Say what a check is about, and check nothing")
        .type_name("CHECK");
    leaf.add_flag("--json", options->json, "Print the report as JSON");
    auto [show, show_options] =
        add_verb(tree, group, "show-config", "Show what the installation on this host uses",
                 "batchai admin show-config --origin --output table", show_config);
    show.add_flag("--origin", show_options->origin,
                  "Say where each value comes from: a file, a variable, or the default");
});

}  // namespace batchai::cli
