// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "node/devices/cdi.hpp"
#include "node/namespace/user_namespace.hpp"
#include "node/rootfs/container_root.hpp"
#include "node/rootfs/mounts.hpp"
#include "plan/plan.hpp"

// The keeper: a process of the user that makes the job's container on this node and keeps it as
// long as any step is in it. Steps come and go in any order, so it belongs to none of them: each
// step's batchai-node holds a connection to it, and it ends with the last one, however that ends.
// It is the first process of a PID namespace: its children (file system servers, the image's
// ldconfig), and all that they start, die with it.

namespace batchai::node {

struct KeeperRequest {
    const plan::Plan& plan;  // has a container
    std::string job_id;
    NodePlaces places;
    NodeFiles files;
    DeviceEdits devices;
    Identities identities;
    std::string place;  // name of the job's private directory below the node root
};

// Names in that directory.
inline constexpr const char* keeper_socket = "keeper";
inline constexpr const char* keeper_lock = "lock";

// What the keeper sends to whoever connects: one byte, with three descriptors in this order.
inline constexpr char keeper_greeting = 'k';
enum KeeperHandle : unsigned { outer_user_namespace, mount_namespace, rank_user_namespace };
inline constexpr unsigned keeper_handles = 3;

// Returns when the container is ready. The caller holds the lock.
[[nodiscard]] base::Result<void> start_keeper(const KeeperRequest& request);

// The socket at its name in the directory, not yet listening. One that a dead keeper left is
// replaced. Leaves the working directory there.
[[nodiscard]] base::Result<base::FileDescriptor> bind_keeper_socket(const base::Root& place);

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
