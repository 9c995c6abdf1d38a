// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/output/output.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/output/query.hpp"
#include "cli/output/table.hpp"

namespace batchai::cli {

base::Result<OutputFormat> output_format(std::string_view name) {
    const auto lower = base::lower(name);
    if (lower == "json") return OutputFormat::json;
    if (lower == "jsonc") return OutputFormat::jsonc;
    if (lower == "table") return OutputFormat::table;
    if (lower == "tsv") return OutputFormat::tsv;
    if (lower == "none") return OutputFormat::none;
    if (lower == "yaml" || lower == "yamlc") {
        return base::fail(fmt::format("the format {} is not supported yet", lower), "--output",
                          "use json, jsonc, table, tsv or none", base::ExitCode::usage);
    }
    return base::fail(fmt::format("unknown format \"{}\"", name), "--output",
                      "use json, jsonc, table, tsv or none", base::ExitCode::usage);
}

base::Result<std::string> render_output(const Value& value, const Columns& columns,
                                        const OutputOptions& options) {
    const bool queried = options.query.has_value();
    Value result = value;
    if (queried) {
        auto answer = TRY(query(value, *options.query));
        result = std::move(answer);
    }
    switch (options.format) {
        case OutputFormat::json:
            return format_json(result, base::KeyOrder::sorted);
        case OutputFormat::jsonc:
            return format_json(result, base::KeyOrder::sorted,
                               options.terminal ? Colour::on : Colour::off);
        case OutputFormat::table:
            return format_table(!queried && columns ? columns(result)
                                                    : generic_table(result, queried));
        case OutputFormat::tsv:
            return format_tsv(result, queried);
        case OutputFormat::none:
            break;
    }
    return "";
}

}  // namespace batchai::cli
