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

// The keeper is a process of the user that makes the job's container on this node and keeps it as
// long as any step uses it. Steps start and end in any order, so the keeper belongs to none of
// them. Instead, the batchai-node of each step holds a connection to the keeper, and the keeper
// ends with the last connection, however that is closed. The keeper is the first process of a PID
// namespace, so its children (file system servers, the image's ldconfig) and everything that they
// start die with it.

namespace batchai::node {

struct KeeperRequest {
    const plan::Plan& plan;  // has a container
    std::string job_id;
    NodePlaces places;
    NodeFiles files;
    DeviceEdits devices;
    Identities identities;
    std::string place;  // name of the container's private directory below the node root
};

// Names of files in that directory.
inline constexpr const char* keeper_socket = "keeper";
inline constexpr const char* keeper_lock = "lock";

// The keeper sends each client one byte, together with three descriptors in this order.
inline constexpr char keeper_greeting = 'k';
enum KeeperHandle : unsigned { outer_user_namespace, mount_namespace, rank_user_namespace };
inline constexpr unsigned keeper_handles = 3;

// Starts the keeper and returns when the container is ready. The caller holds the lock.
[[nodiscard]] base::Result<void> start_keeper(const KeeperRequest& request);

// Binds the socket in the directory, without listening yet. Replaces a socket that a dead keeper
// left. Changes the working directory to `place`.
[[nodiscard]] base::Result<base::FileDescriptor> bind_keeper_socket(const base::Root& place);

// Hands out the container's namespaces and waits until all clients have gone.
class KeeperService {
  public:
    // `lock` is the open lock file, which is not locked yet.
    KeeperService(base::FileDescriptor listener, base::FileDescriptor rank_namespace,
                  base::FileDescriptor lock);
    [[nodiscard]] base::Result<void> listen();
    // Returns when the last client has gone, or when none has connected in time. It then holds the
    // lock, so that a process that waits for the lock finds no keeper afterwards. The last client's
    // connection stays open until this object is destroyed.
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
