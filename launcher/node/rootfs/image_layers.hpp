// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "node/beneath.hpp"
#include "node/trace.hpp"
#include "plan/plan.hpp"

namespace batchai::node {

struct FuseRequest {
    std::string program;                 // found on PATH
    std::vector<std::string> arguments;  // before the mount point
    std::string target;                  // an existing directory
    std::string package;                 // to which the program belongs, for messages
    std::string what;                    // what is mounted, for messages
    bool read_only = true;
};

// A program that serves a file system in the foreground, as our child: the kernel kills it when
// this process ends in any way. We mount the file system before the program starts, so that it
// needs no fusermount.
class FuseServer {
  public:
    // Mounts, starts the program, and waits until the file system answers.
    [[nodiscard]] static base::Result<FuseServer> start(const FuseRequest& request);

  private:
    pid_t process_ = -1;
};

// The image with a writable layer over it. It lives as long as the process that made it.
struct ImageLayers {
    Root root;  // where both are seen as one
    std::vector<FuseServer> servers;
};

// Makes them in `place`, which keeps the writable layer for the job's next step, in this process'
// own user and mount namespaces. Leaves the working directory in `place`.
[[nodiscard]] base::Result<ImageLayers> mount_image_layers(const plan::Container& container,
                                                           const Root& place, const Trace& trace);

}  // namespace batchai::node
