// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/file.hpp"

namespace batchai::node {

struct FuseRequest {
    std::string program;                 // found on PATH
    std::vector<std::string> arguments;  // before the mount point
    std::string target;                  // an existing directory
    std::string package;                 // that brings the program, for messages
    std::string what;                    // what is mounted, for messages
    bool read_only = true;
};

// A program that serves a file system in the foreground, as our child: it is killed when this
// process ends in any way. The mount is made by us (it needs no fusermount), so it is there before
// the program is.
class FuseServer {
  public:
    // Mounts, starts the program, and waits until the file system answers.
    [[nodiscard]] static base::Result<FuseServer> start(const FuseRequest& request);

  private:
    pid_t process_ = -1;
};

}  // namespace batchai::node
