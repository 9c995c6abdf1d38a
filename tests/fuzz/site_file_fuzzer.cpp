// SPDX-License-Identifier: GPL-2.0-or-later
// Any program in Lua may be in site.lua, also one that never ends, takes all memory, or returns a
// table with other things in it than expected. It must come to an end with a site or an error.
#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "base/file.hpp"
#include "site/site.hpp"
#include "tests/fuzz/promise.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using batchai::fuzz::promise;
    const batchai::base::FileDescriptor file(memfd_create("site.lua", MFD_CLOEXEC));
    promise(write(file.get(), data, size) == static_cast<ssize_t>(size));
    const std::string path = "/proc/self/fd/" + std::to_string(file.get());
    const auto site = batchai::site::load(path);
    if (!site) {
        promise(!site.error().what.empty());
        return 0;
    }
    promise(!site->node_directory.empty() && site->node_directory.front() == '/');
    promise(site->mount_timeout >= 0 && site->flush_timeout >= 0 && site->image_cache_limit >= 0);
    for (const auto& bind : site->container_binds) {
        promise(bind.source.front() == '/' && bind.target.front() == '/');
    }
    return 0;
}
