// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/bundle/inject_image.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "node/bundle/inject_search.hpp"
#include "node/rootfs/in_root.hpp"

namespace batchai::node {

ImageLibraries::ImageLibraries(const Root& root, const std::string& library_path,
                               const ElfObject& user)
    : root_(root),
      search_path_(user.rpath + ':' + library_path),
      machine_(user.machine),
      cache_(read_loader_cache(read_in_root(root, "/etc/ld.so.cache", 16UL << 20U).value_or(""))) {}

const ElfObject* ImageLibraries::find(const std::string& name) {
    auto known = known_.find(name);
    if (known == known_.end()) known = known_.emplace(name, look_for(name)).first;
    return known->second ? &*known->second : nullptr;
}

std::optional<ElfObject> ImageLibraries::look_for(const std::string& name) const {
    std::optional<ElfObject> of_other_machine;
    for (const std::string& path : places_of_library(name, search_path_, cache_)) {
        const base::FileDescriptor file = open_in_root(root_, path, O_RDONLY | O_NONBLOCK);
        struct stat status {};
        if (!file.valid() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
        auto object = read_elf(file.get());
        if (!object) continue;
        if (object->machine == machine_) return object;
        of_other_machine = std::move(object);
    }
    // Of the C library that says more than that there is none.
    return is_of_c_library(name) ? of_other_machine : std::nullopt;
}

}  // namespace batchai::node
