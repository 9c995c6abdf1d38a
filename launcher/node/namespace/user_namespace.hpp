// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "node/namespace/identity.hpp"

namespace batchai::node {

// The ids that are mapped in the job's container on this node.
struct Identities {
    uid_t user = 0;
    gid_t group = 0;
    // Either both are set or neither. If they are set, programs inside can have any id. Otherwise
    // there is only one id, and a seccomp filter answers calls that change ids or owners with
    // success without carrying them out.
    std::optional<SubordinateIds> users;
    std::optional<SubordinateIds> groups;
    // Why there is only one id although the admin has assigned more; otherwise empty.
    std::string remark;

    [[nodiscard]] bool full() const { return users.has_value(); }
};

// Returns the ids of the user who runs this process, according to /etc/subuid and /etc/subgid.
// Subordinate ids are used only if newuidmap(1) is installed.
[[nodiscard]] Identities find_identities();

// For a job without a container: moves this process, which must be single-threaded, into user and
// mount namespaces of its own. The user keeps uid and gid, because PMIx compares them. Mounts that
// are made outside become visible inside, but not the reverse.
[[nodiscard]] base::Result<void> enter_private_namespaces();

// For a job with a container: moves this process, which must be single-threaded, into a user
// namespace in which it is root. Then sets no_new_privs, so that set-user-id programs can no longer
// raise its privileges. newuidmap, which is such a program, has run by then.
[[nodiscard]] base::Result<void> enter_user_namespace(const Identities& identities);

// Makes the user namespace for ranks inside the one that enter_user_namespace has made, and returns
// a handle to it.
[[nodiscard]] base::Result<base::FileDescriptor> make_rank_namespace(const Identities& identities);

}  // namespace batchai::node
