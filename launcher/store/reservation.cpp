// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/reservation.hpp"

#include <fmt/format.h>

#include "base/file.hpp"
#include "store/directory.hpp"
#include "store/marker.hpp"
#include "store/records.hpp"

namespace batchai::store {

JobReservation::~JobReservation() {
    if (token_.empty()) return;
    // Only while it is still ours: another process may have judged it stale and taken the name.
    if (claim(files_.directory(), token_)) static_cast<void>(discard(home_, files_.directory()));
}

base::Result<void> JobReservation::commit(const Job& job) {
    if (token_.empty()) return base::fail("the job is committed already", key_.job);
    if (job.key != key_)
        return base::fail("the record is not of the reserved job", files_.directory().string());
    if (!std::filesystem::exists(files_.directory() / marker_name(token_)))
        return base::fail("the reservation of the job's name was lost", files_.directory().string(),
                          "another process took it for abandoned; create the job again");
    if (auto made = base::create_exclusively(files_.record(), to_json(job), 0600); !made)
        return made;
    std::error_code ignored;  // a marker beside a record means nothing
    std::filesystem::remove(files_.directory() / marker_name(token_), ignored);
    token_.clear();
    return {};
}

}  // namespace batchai::store
