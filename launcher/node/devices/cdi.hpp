// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "node/rootfs/mounts.hpp"
#include "plan/plan.hpp"

// Container Device Interface (CDI): files in which a vendor says what a container needs from the
// node to use the vendor's devices (https://github.com/cncf-tags/container-device-interface,
// SPEC.md, versions 0.3 to 1.1).
namespace batchai::node {

// A program of the vendor that changes the container's root file system before anything runs in it.
struct CdiHook {
    std::string path;                      // of the program, on the node
    std::vector<std::string> arguments;    // including argv[0]
    std::vector<std::string> environment;  // "NAME=value"; the whole environment
    int timeout_seconds = 0;               // 0: the file gives none
    std::string file;                      // the CDI file that asks for it, for messages

    bool operator==(const CdiHook&) const = default;
};

// The parts of the node that a container gets for its devices.
struct DeviceEdits {
    std::vector<Bind> nodes;   // device files
    std::vector<Bind> mounts;  // libraries, programs, sockets
    std::vector<plan::Variable> environment;
    std::vector<CdiHook> hooks;
    std::vector<gid_t> groups;  // members of these groups may open the devices

    bool operator==(const DeviceEdits&) const = default;
    // Adds what is not there yet. Variables are always appended.
    void add(const DeviceEdits& more);
};

struct CdiDevice {
    std::string name;
    DeviceEdits edits;
};

// The contents of one CDI file.
struct CdiSpec {
    std::string kind;   // "nvidia.com/gpu"
    DeviceEdits edits;  // common to all devices
    std::vector<CdiDevice> devices;
    std::vector<std::string> remarks;  // on requests in the file that are ignored

    // Returns the part of the kind after the slash: "gpu".
    [[nodiscard]] std::string_view device_class() const;
};

enum class CdiFormat { json, yaml };

// `file` is kept for messages when the edits are carried out. This function's own errors do not
// name it.
[[nodiscard]] base::Result<CdiSpec> parse_cdi(std::string_view text, CdiFormat format,
                                              const std::string& file);

struct CdiFiles {
    std::vector<CdiSpec> specs;
    std::vector<std::string> remarks;
};

// Reads all files of the directories, in the order of the files' names. If two files in different
// directories have the same name or are of the same kind, the one in the later directory counts. A
// missing directory counts as empty.
[[nodiscard]] base::Result<CdiFiles> read_cdi(const std::vector<std::string>& directories = {
                                                  "/etc/cdi", "/var/run/cdi"});

}  // namespace batchai::node
