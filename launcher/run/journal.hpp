// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>

#include "record/attempt.hpp"
#include "record/job_files.hpp"

namespace batchai::run {

// Keeps the attempt's record on disk as the attempt goes on. A record that cannot be written is a
// warning: a full disk must not fail the job.
class Journal {
  public:
    Journal(record::JobFiles files, record::Attempt attempt);

    [[nodiscard]] const record::Attempt& attempt() const { return attempt_; }

    void begin_phase(std::string_view name);
    // Comes to disk with what follows at once, the next phase's begin or the attempt's end: a write
    // that waits for the disk before the ranks start is time that every job waits.
    void end_phase(int exit_code);
    void restarted(record::Restart restart);
    // The attempt's end; `failure` is null unless it failed.
    void finish(int exit_code, record::EndedBy by, const record::Failure* failure);

  private:
    void save() const;

    record::JobFiles files_;
    record::Attempt attempt_;
};

}  // namespace batchai::run
