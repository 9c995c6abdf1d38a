// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

namespace batchai::spank {

// For a task that is root in a user namespace with a single id: makes this process and what it
// starts get the answer "done" from calls that change owners or ids, of which no other is mapped,
// so that package managers can install. Everything else is as before. False, with errno, when the
// kernel refuses.
[[nodiscard]] bool answer_id_changes();

}  // namespace batchai::spank
