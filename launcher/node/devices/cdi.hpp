// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "node/rootfs/mounts.hpp"
#include "plan/plan.hpp"

// Container Device Interface: files in which a vendor says what a container needs of the node for
// its devices (https://github.com/cncf-tags/container-device-interface, SPEC.md, versions 0.3 to
// 1.1).
namespace batchai::node {

// A program of the vendor that is to change the container's root file system before anything runs
// in it.
struct CdiHook {
    std::string path;                      // of the program, on the node
    std::vector<std::string> arguments;    // from argv[0] on
    std::vector<std::string> environment;  // "NAME=value": all of it
    int timeout_seconds = 0;               // 0: the file says none
    std::string file;                      // that asks for it, for messages

    bool operator==(const CdiHook&) const = default;
};

// What of the node a container gets for its devices.
struct DeviceEdits {
    std::vector<Bind> nodes;   // device files
    std::vector<Bind> mounts;  // libraries, programs, sockets
    std::vector<plan::Variable> environment;
    std::vector<CdiHook> hooks;
    std::vector<gid_t> groups;  // whose members may open the devices

    bool operator==(const DeviceEdits&) const = default;
    // What is there already is not added again.
    void add(const DeviceEdits& more);
};

struct CdiDevice {
    std::string name;
    DeviceEdits edits;
};

// One file.
struct CdiSpec {
    std::string kind;   // "nvidia.com/gpu"
    DeviceEdits edits;  // for any of the devices
    std::vector<CdiDevice> devices;
    std::vector<std::string> remarks;  // on what it asks for and no container gets

    // What comes after the slash of the kind: "gpu".
    [[nodiscard]] std::string_view device_class() const;
};

enum class CdiFormat { json, yaml };

// `file` is for messages of what comes later; the fault itself is without it.
[[nodiscard]] base::Result<CdiSpec> parse_cdi(std::string_view text, CdiFormat format,
                                              const std::string& file);

struct CdiFiles {
    std::vector<CdiSpec> specs;
    std::vector<std::string> remarks;
};

// All files of the directories, in the order of their names. Of two with the same name, or of the
// same kind, in different directories, that of the later directory counts. A directory that is
// missing has none.
[[nodiscard]] base::Result<CdiFiles> read_cdi(const std::vector<std::string>& directories = {
                                                  "/etc/cdi", "/var/run/cdi"});

}  // namespace batchai::node
