// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "run/again/elastic.hpp"
#include "run/context.hpp"

namespace batchai::run {

// Runs the phases of one attempt at the job, in order. The record has each phase before it starts,
// and its end when the next one starts, so that a reader always sees how far the job has come.
// Returns the job's exit code.
[[nodiscard]] int run_attempt(Context& context, Journal& journal);

}  // namespace batchai::run
