// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"

namespace batchai::run {

// The record of an attempt that could not begin, for `batchai job show`: beside the plan, whatever
// the plan itself says. Outside of an allocation, or where that directory is not ours, nothing.
void record_failed_start(const std::string& plan_path, const base::Error& error);

}  // namespace batchai::run
