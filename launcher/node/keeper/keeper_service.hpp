// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "node/beneath.hpp"

namespace batchai::node {

// The socket at its name in the directory, not yet listening. One that a dead keeper left is
// replaced. Leaves the working directory there.
[[nodiscard]] base::Result<base::FileDescriptor> bind_keeper_socket(const Root& place);

// Hands out the container's namespaces, and waits for the end of those who asked.
class KeeperService {
  public:
    // `lock` is the lock file, not locked.
    KeeperService(base::FileDescriptor listener, base::FileDescriptor rank_namespace,
                  base::FileDescriptor lock);
    [[nodiscard]] base::Result<void> listen();
    // Returns when the last client has gone, or none came in time, with the lock held: who waits
    // for it then finds no keeper. The last client's connection stays open until this object ends.
    void serve();

  private:
    void admit();
    void drop_ended();
    [[nodiscard]] bool may_end();

    base::FileDescriptor listener_;
    base::FileDescriptor rank_namespace_;
    base::FileDescriptor lock_;
    base::FileDescriptor user_namespace_;
    base::FileDescriptor mount_namespace_;
    std::vector<base::FileDescriptor> clients_;
    base::FileDescriptor last_client_;
    bool had_client_ = false;
};

}  // namespace batchai::node
