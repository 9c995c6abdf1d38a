// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/devices/devices.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "node/rootfs/fresh_mount.hpp"
#include "node/rootfs/in_root.hpp"

namespace batchai::node {

namespace {

constexpr std::int64_t directory_bytes = 1 << 20;
constexpr std::array<const char*, 7> required{"null",    "zero", "full", "random",
                                              "urandom", "tty",  "ptmx"};
constexpr std::array<const char*, 6> optional{"pts",        "mqueue", "hugepages",
                                              "infiniband", "knem",   "xpmem"};
constexpr std::array<std::pair<const char*, const char*>, 5> links{{{"/proc/self/fd", "fd"},
                                                                    {"/proc/self/fd/0", "stdin"},
                                                                    {"/proc/self/fd/1", "stdout"},
                                                                    {"/proc/self/fd/2", "stderr"},
                                                                    {"/proc/kcore", "core"}}};

}  // namespace

std::vector<Bind> common_devices() {
    std::vector<Bind> binds;
    const auto add = [&](const char* name, bool is_optional) {
        const std::string path = std::string("/dev/") + name;
        binds.push_back({path, path, false, is_optional});
    };
    for (const char* name : required)
        add(name, false);
    for (const char* name : optional)
        add(name, true);
    return binds;
}

base::Result<void> make_device_directory(const Root& root) {
    if (auto made = mount_tmpfs({"/dev", "755", directory_bytes}, root); !made) return made;
    const auto directory = make_directory_in_root(root, "/dev");
    if (!directory) return tl::unexpected<base::Error>(directory.error());
    for (const auto& [to, name] : links) {
        if (symlinkat(to, directory->get(), name) != 0)
            return base::fail(fmt::format("cannot be made: {}", std::strerror(errno)),
                              fmt::format("/dev/{} in the container", name));
    }
    return {};
}

}  // namespace batchai::node
