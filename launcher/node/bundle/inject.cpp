// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/bundle/inject.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include "node/bundle/inject_choice.hpp"
#include "node/bundle/inject_image.hpp"
#include "node/bundle/inject_node.hpp"
#include "node/rootfs/fresh_mount.hpp"
#include "node/rootfs/host_tree.hpp"
#include "node/rootfs/in_root.hpp"

namespace batchai::node {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t directory_bytes = 1L << 20U;  // only names are in it
constexpr const char* private_directory = "/opt/batchai/lib/mpi_bridge";

std::string last_value(const std::vector<plan::Variable>& variables, std::string_view name) {
    const auto found =
        std::find_if(variables.rbegin(), variables.rend(),
                     [&](const plan::Variable& variable) { return variable.name == name; });
    return found == variables.rend() ? "" : found->value;
}

// That a task sees, of the job's variables and the image's.
std::string value_inside(const plan::Container& container, const std::vector<plan::Variable>& job,
                         std::string_view name) {
    const std::string of_job = last_value(job, name);
    return of_job.empty() ? last_value(container.environment, name) : of_job;
}

Bind shown(const std::string& source, const std::string& target) {
    return {source, target, true, false};
}

// libpmix, moved, finds what it loads below a directory that stands for its installation's:
// mpi_bridge tells it so.
void add_pmix(const NodeInstallation& node, std::vector<Bind>& binds) {
    const std::string root = std::string(private_directory) + "/pmix_install/";
    if (!node.pmix_components.empty())
        binds.push_back(shown(
            node.pmix_components,
            root + fs::path(node.pmix_components).lexically_relative(node.pmix_prefix).string()));
    const std::string texts = node.pmix_prefix + "/share/pmix";
    std::error_code error;
    if (fs::is_directory(texts, error)) binds.push_back(shown(texts, root + "share/pmix"));
}

std::vector<Bind> binds_of(const NodeInstallation& node, const InjectionChoice& choice) {
    std::vector<Bind> binds;
    binds.push_back(shown(node.library, "/opt/batchai/lib/libmpi_bridge.so.0"));
    binds.push_back(shown(node.wire_up, injected_wire_up));
    for (const std::string& name : choice.libraries)
        binds.push_back(shown(node.objects.libraries.at(name).path,
                              fmt::format("{}/{}", private_directory, name)));
    if (!node.ucx_modules.empty())
        binds.push_back(shown(node.ucx_modules, std::string(private_directory) + "/ucx"));
    if (!choice.pmix_of_image) add_pmix(node, binds);
    // The last one: that it is there tells that all are.
    binds.push_back(shown(node.python, injected_python));
    return binds;
}

base::Result<void> make_read_only(const Root& root) {
    const base::FileDescriptor top = open_in_root(root, injected_root, O_PATH | O_DIRECTORY);
    mount_attr attributes{};
    attributes.attr_set = MOUNT_ATTR_RDONLY;
    if (top.valid() &&
        mount_setattr(top.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) == 0)
        return {};
    return base::fail(fmt::format("cannot be made read-only: {}", std::strerror(errno)),
                      injected_root);
}

base::Result<void> show(const std::vector<Bind>& binds, const Root& root) {
    // Copies first: nothing is there if one of them cannot be had.
    std::vector<HostTree> trees;
    for (const Bind& bind : binds) {
        auto tree = copy_host_tree(bind);
        if (!tree) return tl::unexpected<base::Error>(tree.error());
        trees.push_back(std::move(*tree));
    }
    auto made = mount_tmpfs({injected_root, "755", directory_bytes}, root);
    for (const HostTree& tree : trees) {
        if (made) made = attach(tree, root);
    }
    return made.and_then([&] { return make_read_only(root); });
}

// What is shown; an error says why nothing is.
base::Result<InjectionChoice> try_to_inject(const plan::Plan& plan, const Root& root) {
    if (!plan.container->inject)
        return base::fail("inject_mpi_bridge of the site's site.lua is off");
    if (last_value(plan.environment, inject_variable) == "0")
        return base::fail(fmt::format("the job has {}=0", inject_variable));
    const auto node = find_node_installation();
    if (!node) return tl::unexpected<base::Error>(node.error());
    ImageLibraries libraries(root,
                             value_inside(*plan.container, plan.environment, "LD_LIBRARY_PATH"),
                             node->objects.essential.front().elf);
    InjectionChoice choice = choose_injection(
        node->objects, [&](const std::string& name) { return libraries.find(name); });
    if (!choice.refusal.empty()) return base::fail(std::move(choice.refusal));
    return show(binds_of(*node, choice), root).map([&] { return std::move(choice); });
}

}  // namespace

void inject(const plan::Plan& plan, const Root& image_root, const Trace& trace) {
    const auto begin = std::chrono::steady_clock::now();
    const auto injected = try_to_inject(plan, image_root);
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    if (injected) {
        trace.line(
            fmt::format("libmpi_bridge is in {}, with {} libraries of the node and {} "
                        "PMIx library, in {} ms",
                        injected_root, injected->libraries.size(),
                        injected->pmix_of_image ? "the image's own" : "the node's", spent.count()));
        return;
    }
    const base::Error& why = injected.error();
    const std::string text = why.where.empty() ? why.what : why.where + ": " + why.what;
    trace.line("libmpi_bridge is not brought into the container: " + text);
    if (auto noted = write_in_root(image_root, not_injected_note, text + '\n'); !noted)
        trace.line(noted.error().text());
}

void add_injected_packages(const plan::Container& container,
                           std::vector<plan::Variable>& environment) {
    if (access(injected_python, F_OK) != 0) return;
    const std::string before = value_inside(container, environment, "PYTHONPATH");
    environment.push_back({"PYTHONPATH", before.empty() ? std::string(injected_python)
                                                        : before + ':' + injected_python});
}

}  // namespace batchai::node
