// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include <jsoncons/json.hpp>

namespace batchai::job {

using Json = jsoncons::json;          // keys in alphabetical order
using OrderedJson = jsoncons::ojson;  // keys in the order of insertion

// Formats with two-space indent, each entry on its own line, and a newline at the end.
template <class AnyJson>
[[nodiscard]] std::string pretty(const AnyJson& json) {
    jsoncons::json_options options;
    options.indent_size(2)
        .spaces_around_comma(jsoncons::spaces_option::no_spaces)
        .spaces_around_colon(jsoncons::spaces_option::space_after)
        .object_object_line_splits(jsoncons::line_split_kind::multi_line)
        .array_object_line_splits(jsoncons::line_split_kind::multi_line)
        .object_array_line_splits(jsoncons::line_split_kind::multi_line)
        .array_array_line_splits(jsoncons::line_split_kind::multi_line);
    std::string out;
    json.dump_pretty(out, options);
    return out + "\n";
}

}  // namespace batchai::job
