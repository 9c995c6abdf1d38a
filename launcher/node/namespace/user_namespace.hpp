// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "node/namespace/identity.hpp"

namespace batchai::node {

// Who is mapped to what in the job's container on this node.
struct Identities {
    uid_t user = 0;
    gid_t group = 0;
    // Both or none: with them, programs inside can have any id; without, there is only one, and
    // calls that change ids or owners are answered with success and do nothing (seccomp).
    std::optional<SubordinateIds> users;
    std::optional<SubordinateIds> groups;
    // Why the second case, where the admin gave ids but they cannot be used; else empty.
    std::string remark;

    [[nodiscard]] bool full() const { return users.has_value(); }
};

// Of the user who runs this process, by /etc/subuid, /etc/subgid and whether newuidmap(1) is there.
[[nodiscard]] Identities find_identities();

// Without a container: moves this process, which must have one thread, to a user and a mount
// namespace of its own. The user keeps uid and gid, since PMIx compares them; mounts made outside
// still arrive inside, those made inside stay there.
[[nodiscard]] base::Result<void> enter_private_namespaces();

// For a container: moves this process, which must have one thread, to a user namespace in which it
// is root. Gives up the right to gain privileges by set-user-id programs, after newuidmap, which is
// one, has run.
[[nodiscard]] base::Result<void> enter_user_namespace(const Identities& identities);

// In the namespace made by enter_user_namespace: makes the one for ranks and returns a handle to
// it.
[[nodiscard]] base::Result<base::FileDescriptor> make_rank_namespace(const Identities& identities);

}  // namespace batchai::node
