// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/journal.hpp"

#include <cstdio>
#include <string>
#include <utility>

#include "base/file.hpp"

namespace batchai::run {

Journal::Journal(record::JobFiles files, record::Attempt attempt)
    : files_(std::move(files)), attempt_(std::move(attempt)) {}

void Journal::begin_phase(std::string_view name) {
    attempt_.phases.push_back(
        {.name = std::string(name), .start = base::now(), .end = {}, .exit_code = 0});
    save();
}

void Journal::end_phase(int exit_code) {
    attempt_.phases.back().end = base::now();
    attempt_.phases.back().exit_code = exit_code;
}

void Journal::restarted(record::Restart restart) {
    attempt_.restarts.push_back(std::move(restart));
    save();
}

void Journal::finish(int exit_code, record::EndedBy by, const record::Failure* failure) {
    if (failure != nullptr) attempt_.failure = *failure;
    attempt_.end = base::now();
    attempt_.exit_code = exit_code;
    attempt_.ended_by = by;
    save();
}

void Journal::save() const {
    auto saved = base::make_directories(files_.attempts()).and_then([&] {
        return base::write_atomically(files_.attempt(attempt_.number), to_json(attempt_));
    });
    if (!saved) std::fprintf(stderr, "batchai: warning: %s\n", saved.error().text().c_str());
}

}  // namespace batchai::run
