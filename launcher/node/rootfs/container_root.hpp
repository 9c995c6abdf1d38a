// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "node/devices/cdi.hpp"
#include "node/namespace/identity.hpp"
#include "node/reply.hpp"
#include "node/rootfs/mounts.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

struct FuseRequest {
    std::string program;                 // found on PATH
    std::vector<std::string> arguments;  // before the mount point
    std::string target;                  // an existing directory
    std::string package;                 // package of the program, for messages
    std::string what;                    // what is mounted, for messages
    bool read_only = true;
    int file = -1;  // /dev/fd/4 in the program, if it is valid
};

// A program that serves a file system in the foreground, as a child of this process. The kernel
// kills it when this process ends, for whatever reason. This process mounts the file system before
// it starts the program, so that the program needs no fusermount.
class FuseServer {
  public:
    // Mounts, starts the program, and waits until the file system answers.
    [[nodiscard]] static base::Result<FuseServer> start(const FuseRequest& request);

  private:
    explicit FuseServer(base::Child process) : process_(std::move(process)) {}

    base::Child process_;
};

// The image with a writable layer over it. It exists as long as the process that made it.
struct ImageLayers {
    base::Root root;  // the merged view of both
    std::vector<FuseServer> servers;
};

// Mounts the layers in `place`, in this process's own user and mount namespaces. `place` keeps the
// writable layer for the job's next step. Changes the working directory to `place`.
// `image` is what open_image() returned.
[[nodiscard]] base::Result<ImageLayers> mount_image_layers(const plan::Container& container,
                                                           const base::FileDescriptor& image,
                                                           const base::Root& place,
                                                           const Trace& trace);

// Data from the node's /etc for the container's /etc. It is read before the process changes its
// root and user.
struct NodeFiles {
    Account account;
    std::string hosts;
    std::string name_servers;  // resolv.conf
};

[[nodiscard]] NodeFiles read_node_files();

struct RootRequest {
    const plan::Plan& plan;  // has a container
    const NodePlaces& places;
    const NodeFiles& files;
    const DeviceEdits& devices;
    const std::string& job_id;
    bool one_id = true;                 // the user namespace maps only one id
    const base::FileDescriptor& image;  // as open_image() returns it
};

// Opens the file of an imported image and checks that only trusted users can have made and named
// it, because the image is identified only by that name. The same open file is mounted later. The
// process must still be in the node's user namespace, where owners are known. The result is not
// valid for an image that is not imported, and if the file is missing: mounting it fails with a
// better message.
[[nodiscard]] base::Result<base::FileDescriptor> open_image(const plan::Container& container);

// Makes the container's root file system in `place` and changes this process's root to it. The
// process must have user and mount namespaces of its own, in which the job's volumes are mounted.
[[nodiscard]] base::Result<std::vector<FuseServer>> change_to_container_root(
    const RootRequest& request, const base::Root& place, const Trace& trace);

}  // namespace batchai::node
