// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/bundle/inject_node.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "node/bundle/inject_search.hpp"

namespace batchai::node {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds loader_deadline{10};
constexpr std::string_view own_directory = "$ORIGIN/mpi_bridge";

base::Result<NodeObject> read_object(const std::string& path) {
    const base::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid())
        return base::fail(fmt::format("cannot be read on the node: {}", std::strerror(errno)),
                          path);
    auto object = read_elf(file.get());
    if (!object) return base::fail("is no shared object that can be read", path);
    return NodeObject{path, std::move(*object)};
}

// What the loader takes for the library, and for others that are loaded beside it.
base::Result<std::map<std::string, std::string>> ask_loader(
    const std::string& loader, const std::string& library, const std::vector<std::string>& beside) {
    base::RunOptions options;
    options.deadline = loader_deadline;
    // Not an option of it, which it has only since glibc 2.30.
    options.environment = {fmt::format("LD_PRELOAD={}", fmt::join(beside, ":"))};
    const auto ended = base::run({loader, "--list", library}, options);
    if (!ended) return tl::unexpected<base::Error>(ended.error());
    if (ended->exit_code == 0) return read_loaded_objects(ended->standard_output);
    return base::fail("its libraries cannot be found on the node: " + ended->standard_error,
                      library);
}

// Each file once, whatever links there are to it.
std::vector<NodeObject> objects_in(const std::string& directory) {
    std::set<std::string> files;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
        const fs::path real = fs::canonical(entry.path(), error);
        if (!error && real.filename().string().find(".so") != std::string::npos)
            files.insert(real.string());
    }
    std::vector<NodeObject> objects;
    for (const std::string& file : files) {
        if (auto object = read_object(file)) objects.push_back(std::move(*object));
    }
    return objects;
}

std::string directory_beside(const std::string& library, const char* name) {
    std::error_code error;
    const fs::path directory = fs::canonical(library, error).parent_path() / name;
    return !error && fs::is_directory(directory, error) ? directory.string() : "";
}

// Its texts are in share/pmix: …/lib/libpmix.so, …/lib64/…, …/lib/x86_64-linux-gnu/….
std::string prefix_of_pmix(const std::string& library) {
    std::error_code error;
    const fs::path directory = fs::canonical(library, error).parent_path();
    const fs::path above = directory.parent_path();
    for (const fs::path& prefix : {above, above.parent_path()}) {
        if (fs::is_directory(prefix / "share/pmix", error)) return prefix.string();
    }
    return above.string();
}

void find_parts(const std::map<std::string, std::string>& libraries, NodeInstallation& out) {
    if (const auto ucs = libraries.find("libucs.so.0"); ucs != libraries.end())
        out.ucx_modules = directory_beside(ucs->second, "ucx");
    if (const auto pmix = libraries.find(pmix_name); pmix != libraries.end()) {
        out.pmix_components = directory_beside(pmix->second, "pmix");
        out.pmix_prefix = prefix_of_pmix(pmix->second);
    }
    if (!out.ucx_modules.empty()) out.objects.ucx_modules = objects_in(out.ucx_modules);
    if (!out.pmix_components.empty()) out.objects.pmix_components = objects_in(out.pmix_components);
}

std::vector<std::string> paths_of(const NodeObjects& objects) {
    std::vector<std::string> paths;
    for (const auto* group : {&objects.ucx_modules, &objects.pmix_components}) {
        for (const NodeObject& object : *group)
            paths.push_back(object.path);
    }
    return paths;
}

base::Result<void> read_libraries(const std::map<std::string, std::string>& paths,
                                  NodeObjects& out) {
    for (const auto& [name, path] : paths) {
        if (is_of_c_library(name)) continue;
        auto object = read_object(path);
        if (!object) return tl::unexpected<base::Error>(object.error());
        out.libraries.emplace(name, std::move(*object));
    }
    return {};
}

base::Result<void> find_objects(NodeInstallation& out) {
    for (const std::string& path : {out.library, out.wire_up}) {
        auto object = read_object(path);
        if (!object) return tl::unexpected<base::Error>(object.error());
        out.objects.essential.push_back(std::move(*object));
    }
    const ElfObject& library = out.objects.essential.front().elf;
    if (library.rpath.find(own_directory) == std::string::npos)
        return base::fail(fmt::format("has lost its RPATH {}", own_directory), out.library);
    const std::string loader = out.objects.essential.back().elf.interpreter;
    const auto own = ask_loader(loader, out.library, {});
    if (!own) return tl::unexpected<base::Error>(own.error());
    find_parts(*own, out);
    const auto all = ask_loader(loader, out.library, paths_of(out.objects));
    if (!all) return tl::unexpected<base::Error>(all.error());
    return read_libraries(*all, out.objects);
}

}  // namespace

base::Result<NodeInstallation> find_node_installation() {
    std::error_code error;
    // PREFIX/libexec/batchai/batchai-node
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error) return base::fail(error.message(), "/proc/self/exe");
    const std::string prefix = self.parent_path().parent_path().parent_path().string();
    NodeInstallation out;
    out.library = fmt::format("{}/{}/libmpi_bridge.so.0", prefix, BATCHAI_LIBDIR_NAME);
    out.wire_up = (self.parent_path() / "mpi_bridge_wireup").string();
    out.python = prefix + "/lib/batchai/python";
    if (!fs::is_directory(out.python, error))
        return base::fail("is not installed on the node", out.python);
    if (auto found = find_objects(out); !found) return tl::unexpected<base::Error>(found.error());
    return out;
}

}  // namespace batchai::node
