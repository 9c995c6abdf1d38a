// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/json.hpp"

// The result of a command is a JSON value.
namespace batchai::cli {

using base::Colour;
using base::format_json;
using base::number_text;
using base::parse_json;
using base::sorted_members;
using base::Value;

}  // namespace batchai::cli
