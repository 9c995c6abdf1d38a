// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

namespace batchai::spank {

// For a task that is root in a user namespace with a single id. Calls that change owners or ids
// then report success and do nothing, in this process and in those that it starts. Without that,
// package managers could not install anything, because no other id is mapped. Everything else works
// as before. Returns false, with errno, if the kernel refuses.
[[nodiscard]] bool answer_id_changes();

}  // namespace batchai::spank
