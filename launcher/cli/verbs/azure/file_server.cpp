// SPDX-License-Identifier: GPL-2.0-or-later
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "status/resource_view.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

struct FileServerOptions {
    std::string name;
    user::ParentOptions parents;
    std::string vm_size;
    int disk_count = 0;
    int disk_size = 0;
    std::string caching_type = "none";
    std::string storage_sku;
    std::optional<std::string> user_name;
    bool yes = false;
    bool no_wait = false;
};

store::FileServerKey own_file_server(const FileServerOptions& options) {
    const auto parent = user::workspace_key(options.parents);
    return {parent.group, parent.workspace, options.name};
}

Value text_or_null(const std::string& text) {
    return text.empty() ? Value() : Value(text);
}

Value to_value(const store::FileServer& server, const site::Site& site) {
    const auto time = base::to_iso8601(server.creation_time);
    const auto of_site = site.file_servers.find(server.key.file_server);
    const Value directory =
        of_site == site.file_servers.end() ? Value() : Value(of_site->second.directory);
    const Value disks =
        server.disk_count == 0
            ? Value()
            : Value(Value::Object{{"cachingType", text_or_null(server.caching_type)},
                                  {"diskCount", server.disk_count},
                                  {"diskSizeInGb", server.disk_size},
                                  {"storageAccountType", text_or_null(server.storage_sku)}});
    return Value::Object{
        {"creationTime", time},
        {"dataDisks", disks},
        {"id", status::file_server_id(site.subscription, server.key)},
        {"mountSettings", Value::Object{{"fileServerInternalIp", nullptr},
                                        {"fileServerPublicIp", nullptr},
                                        {"mountPoint", directory}}},
        {"name", server.key.file_server},
        {"provisioningState", directory.is_null() ? "failed" : "succeeded"},
        {"provisioningStateTransitionTime", time},
        {"resourceGroup", server.key.group},
        {"sshConfiguration",
         Value::Object{{"publicIpsToAllow", nullptr},
                       {"userAccountSettings",
                        Value::Object{{"adminUserName", text_or_null(server.admin_user_name)},
                                      {"adminUserPassword", nullptr},
                                      {"adminUserSshPublicKey", nullptr}}}}},
        {"subnet", nullptr},
        {"type", "Microsoft.BatchAI/workspaces/fileServers"},
        {"vmSize", text_or_null(base::upper(server.vm_size))}};
}

// A file server is a directory that the admin has described, so a record can only be of one of
// them.
base::Result<void> check_site_has(const site::Site& site, const std::string& name) {
    if (site.file_servers.contains(name)) return {};
    std::vector<std::string_view> names;
    for (const auto& [known, server] : site.file_servers)
        names.emplace_back(known);
    return base::fail(
        fmt::format("this site has no file server \"{}\", and batchai starts none", name), "--name",
        names.empty() ? "the admin adds them to file_servers in site.lua"
                      : fmt::format("this site has the file servers {}", fmt::join(names, ", ")));
}

Answer file_server_create(const FileServerOptions& options) {
    const auto here = TRY(open_context());
    TRY(store::check_name(store::kind<store::FileServer>, options.name));
    TRY(check_site_has(here.site, options.name));
    TRY(user::ensure_workspace(here.store, here.site, options.parents));
    store::FileServer server;
    server.key = own_file_server(options);
    server.vm_size = options.vm_size;
    server.disk_count = options.disk_count;
    server.disk_size = options.disk_size;
    server.caching_type = options.caching_type;
    server.storage_sku = options.storage_sku;
    server.admin_user_name = options.user_name.value_or("");
    server.creation_time = base::now();
    TRY(here.store.create(server));
    return Outcome{to_value(server, here.site), status::file_server_columns};
}

Answer file_server_show(const FileServerOptions& options) {
    const auto here = TRY(open_context());
    const auto server = TRY(here.store.get<store::FileServer>(own_file_server(options)));
    return Outcome{to_value(server, here.site), status::file_server_columns};
}

Answer file_server_list(const FileServerOptions& options) {
    const auto here = TRY(open_context());
    const auto servers = here.store.list<store::FileServer>(user::workspace_key(options.parents));
    if (!servers && !user::nothing_yet(servers.error(), options.parents))
        return tl::unexpected(servers.error());
    Value::Array values;
    if (servers) {
        for (const auto& server : *servers)
            values.push_back(to_value(server, here.site));
    }
    return Outcome{Value(std::move(values)), status::file_server_columns};
}

Answer file_server_delete(const FileServerOptions& options) {
    const auto here = TRY(open_context());
    TRY(here.store.get<store::FileServer>(own_file_server(options)));
    const auto agreed = TRY(confirm(options.yes));
    if (!agreed) return base::fail("operation cancelled");
    TRY(here.store.remove<store::FileServer>(own_file_server(options)));
    return Outcome{};
}

void add_file_server_name(Parser leaf, FileServerOptions& options) {
    leaf.add_option("--name,-n", options.name, "Name of the file server, as in site.lua")
        .type_name("NAME")
        .required()
        .group(resource_arguments);
    add_workspace_option(leaf, options.parents);
}

void add_file_server_create(CommandTree& tree, Parser group, const std::string& parents) {
    auto [leaf, options] =
        add_verb(tree, group, "create",
                 "Make a record of a file server that the site has, which jobs then name by its id",
                 "batchai file-server create --name nfs" + parents, file_server_create);
    add_file_server_name(leaf, *options);
    const std::string note = " (kept in the record, without effect)";
    leaf.add_option("--vm-size,-s", options->vm_size, "Size" + note).type_name("SIZE");
    leaf.add_option("--disk-count", options->disk_count, "Number of disks" + note)
        .type_name("NUMBER")
        .non_negative();
    leaf.add_option("--disk-size", options->disk_size, "Size of each in GB" + note)
        .type_name("NUMBER")
        .non_negative();
    leaf.add_option("--caching-type", options->caching_type, "Caching of the disks" + note)
        .type_name("TYPE");
    leaf.add_option("--storage-sku", options->storage_sku, "Kind of the disks" + note)
        .type_name("SKU");
    add_optional(leaf, "--user-name,-u", options->user_name, "Name of the admin user" + note)
        .type_name("NAME");
    leaf.add_flag("--no-wait", options->no_wait, "Accepted: there is nothing to wait for");
}

}  // namespace

const Verbs file_server_verbs("", 120, [](CommandTree& tree, Parser app) {
    const Parser group = add_group(app, "file-server", "Records of the site's file servers");
    const std::string parents = " --workspace dev --resource-group team";
    add_file_server_create(tree, group, parents);
    {
        auto [leaf, options] =
            add_verb(tree, group, "show", "Show a file server",
                     "batchai file-server show --name nfs" + parents, file_server_show);
        add_file_server_name(leaf, *options);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "list", "List the file servers of a workspace",
                     "batchai file-server list" + parents + " --output table", file_server_list);
        add_workspace_option(leaf, options->parents);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "delete", "Delete the record of a file server; its files stay",
                     "batchai file-server delete --yes --name nfs" + parents, file_server_delete);
        add_file_server_name(leaf, *options);
        leaf.add_flag("--yes,-y", options->yes, "Do not ask for confirmation");
        leaf.add_flag("--no-wait", options->no_wait, "Accepted: there is nothing to wait for");
    }
});

}  // namespace batchai::cli
