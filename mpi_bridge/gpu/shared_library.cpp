// SPDX-License-Identifier: Apache-2.0
#include "gpu/shared_library.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

namespace mpi_bridge {
namespace {

namespace fs = std::filesystem;

const char* variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr || *value == '\0' ? nullptr : value;
}

std::string path_of(void* handle, std::string_view otherwise) {
    link_map* map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && *map->l_name != '\0') {
        return map->l_name;
    }
    return std::string(otherwise);
}

// PREFIX/lib/python3.*/site-packages, in a fixed order.
std::vector<fs::path> site_packages(const fs::path& prefix) {
    std::vector<fs::path> found;
    std::error_code fault;
    // A range-for would throw where a file server fails in the middle.
    fs::directory_iterator entry(prefix / "lib", fault);
    for (; !fault && entry != fs::directory_iterator(); entry.increment(fault)) {
        if (entry->path().filename().string().starts_with("python3")) {
            found.push_back(entry->path() / "site-packages");
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

}  // namespace

std::vector<std::string> library_paths(const LibraryRequest& request) {
    std::vector<fs::path> folders;
    for (const char* prefix : {variable("VIRTUAL_ENV"), variable("CONDA_PREFIX")}) {
        if (prefix == nullptr) continue;
        for (const auto& packages : site_packages(prefix)) {
            for (const char* folder : request.package_folders)
                folders.push_back(packages / folder);
        }
        folders.push_back(fs::path(prefix) / "lib");
    }
    const char* toolkit = variable("CUDA_HOME");
    folders.push_back(fs::path(toolkit == nullptr ? "/usr/local/cuda" : toolkit) / "lib64");

    std::vector<std::string> paths;
    for (const auto& folder : folders) {
        for (const char* name : request.file_names) {
            std::error_code fault;
            if (fs::exists(folder / name, fault)) paths.push_back((folder / name).string());
        }
    }
    return paths;
}

Outcome<SharedLibrary> SharedLibrary::open(const LibraryRequest& request) {
    const char* wanted =
        request.override_variable == nullptr ? nullptr : variable(request.override_variable);
    if (wanted != nullptr) {
        if (void* handle = dlopen(wanted, RTLD_NOW | RTLD_LOCAL); handle != nullptr) {
            return SharedLibrary(handle, path_of(handle, wanted));
        }
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("{} could not be loaded from {}, which {} names: {}", request.name,
                                wanted, request.override_variable, dlerror()));
    }
    if (auto loaded = find_loaded(request)) return *std::move(loaded);
    std::vector<std::string> candidates(request.file_names.begin(), request.file_names.end());
    for (auto& path : library_paths(request))
        candidates.push_back(std::move(path));
    std::vector<std::string> faults;
    for (const auto& candidate : candidates) {
        void* handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle != nullptr) return SharedLibrary(handle, path_of(handle, candidate));
        faults.emplace_back(dlerror());
    }
    return fail(MPIB_ERROR_INTERNAL,
                fmt::format("{} was not found; tried {} ({}); {}, or name the "
                            "file in {}",
                            request.name, fmt::join(candidates, ", "), fmt::join(faults, "; "),
                            request.advice, request.override_variable));
}

std::optional<SharedLibrary> SharedLibrary::find_loaded(const LibraryRequest& request) {
    const char* wanted =
        request.override_variable == nullptr ? nullptr : variable(request.override_variable);
    const auto loaded = [](const char* name) -> std::optional<SharedLibrary> {
        void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (handle == nullptr) return std::nullopt;
        return SharedLibrary(handle, path_of(handle, name));
    };
    if (wanted != nullptr) return loaded(wanted);
    for (const char* name : request.file_names) {
        if (auto found = loaded(name)) return found;
    }
    return std::nullopt;
}

Outcome<void*> SharedLibrary::find(const char* symbol) const {
    void* address = dlsym(handle_, symbol);
    if (address != nullptr) return address;
    return fail(MPIB_ERROR_INTERNAL,
                fmt::format("{} has no {}; it is too old or another library", path_, symbol));
}

}  // namespace mpi_bridge
