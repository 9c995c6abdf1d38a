// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/output/output.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "cli/output/query.hpp"
#include "cli/output/yaml.hpp"

namespace batchai::cli {

namespace {

// Counts characters, not bytes: continuation bytes of UTF-8 take no column.
std::size_t display_width(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

bool is_number(std::string_view text) {
    double number = 0;
    const auto* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, number);
    return result.ec == std::errc{} && result.ptr == end &&
           std::isalpha(static_cast<unsigned char>(text.back())) == 0;
}

// Whether a control character of the set C1 begins at `at`, in UTF-8.
bool is_c1_control(std::string_view text, std::size_t at) {
    if (text[at] != '\xC2' || at + 1 >= text.size()) return false;
    const auto next = static_cast<unsigned char>(text[at + 1]);
    return next >= 0x80 && next <= 0x9F;
}

std::string cell_text(const Value& value) {
    if (const auto* text = value.string()) return base::printable_line(*text);
    if (const auto* integer = value.integer()) return std::to_string(*integer);
    if (const auto* real = value.real()) return fmt::format("{:g}", *real);
    if (const auto* flag = value.boolean()) return *flag ? "True" : "False";
    return "";
}

struct Column {
    std::size_t width = 0;
    bool numeric = false;
};

Column measure(const Table& table, std::size_t index) {
    Column column{display_width(table.headers[index]) + 2, false};
    bool all_numbers = true;
    bool any_number = false;
    for (const auto& row : table.rows) {
        const auto& cell = row[index];
        column.width = std::max(column.width, display_width(cell));
        if (cell.empty()) continue;
        const bool number = is_number(cell);
        all_numbers = all_numbers && number;
        any_number = any_number || number;
    }
    column.numeric = any_number && all_numbers;
    return column;
}

void append_row(std::string& out, const std::vector<std::string>& cells,
                const std::vector<Column>& columns) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
        if (i > 0) line += "  ";
        const std::string padding(columns[i].width - display_width(cells[i]), ' ');
        line += columns[i].numeric ? padding + cells[i] : cells[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
}

std::string capitalised(std::string key) {
    if (!key.empty()) {
        key[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(key[0])));
    }
    return key;
}

bool shown(const Value::Member& member) {
    constexpr std::array<std::string_view, 3> skipped{"id", "type", "etag"};
    return member.second.is_scalar() &&
           std::find(skipped.begin(), skipped.end(), member.first) == skipped.end();
}

using NamedCells = std::vector<std::pair<std::string, std::string>>;

NamedCells named_cells(const Value& item, bool from_query) {
    NamedCells cells;
    if (const auto* object = item.object()) {
        std::vector<const Value::Member*> members;
        if (from_query) {
            for (const auto& member : *object)
                members.push_back(&member);
        } else {
            members = sorted_members(*object);
        }
        for (const auto* member : members) {
            if (shown(*member)) {
                cells.emplace_back(capitalised(member->first), cell_text(member->second));
            }
        }
    } else if (const auto* array = item.array()) {
        for (std::size_t i = 0; i < array->size(); ++i)
            cells.emplace_back(fmt::format("Column{}", i + 1), cell_text((*array)[i]));
    } else {
        cells.emplace_back("Result", cell_text(item));
    }
    return cells;
}

std::size_t column_of(Table& table, const std::string& header) {
    const auto found = std::find(table.headers.begin(), table.headers.end(), header);
    if (found != table.headers.end()) {
        return static_cast<std::size_t>(found - table.headers.begin());
    }
    table.headers.push_back(header);
    return table.headers.size() - 1;
}

}  // namespace

std::string format_table(const Table& table) {
    if (table.headers.empty()) return "";
    std::vector<Column> columns;
    std::vector<std::string> dashes;
    for (std::size_t i = 0; i < table.headers.size(); ++i) {
        columns.push_back(measure(table, i));
        dashes.emplace_back(columns.back().width, '-');
    }
    std::string out;
    append_row(out, table.headers, columns);
    append_row(out, dashes, columns);
    for (const auto& row : table.rows)
        append_row(out, row, columns);
    return out;
}

Table generic_table(const Value& value, bool from_query) {
    Table table;
    if (value.is_null()) return table;
    Value::Array single;
    if (!value.is_array()) single.push_back(value);
    const auto& items = value.is_array() ? *value.array() : single;
    std::vector<std::vector<std::pair<std::size_t, std::string>>> rows;
    for (const auto& item : items) {
        auto& row = rows.emplace_back();
        for (auto& [header, text] : named_cells(item, from_query))
            row.emplace_back(column_of(table, header), std::move(text));
    }
    for (auto& row : rows) {
        auto& cells = table.rows.emplace_back(table.headers.size());
        for (auto& [column, text] : row)
            cells[column] = std::move(text);
    }
    return table;
}

namespace {

// Escapes tabs and line ends, which would otherwise end the field or the item, and other control
// characters, which would act on a terminal.
std::string escaped(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '\t') {
            out += "\\t";
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\r') {
            out += "\\r";
        } else if (base::is_control(c)) {
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        } else if (is_c1_control(text, i)) {
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
        } else {
            out += c;
        }
    }
    return out;
}

std::string field(const Value& value, bool nested) {
    if (const auto* text = value.string()) return escaped(*text);
    if (const auto* integer = value.integer()) return std::to_string(*integer);
    if (const auto* real = value.real()) return number_text(*real);
    if (const auto* flag = value.boolean()) {
        if (nested) return *flag ? "True" : "False";
        return *flag ? "true" : "false";
    }
    if (const auto* array = value.array()) return std::to_string(array->size());
    return value.is_object() ? "" : "None";
}

std::string row(const Value& item, bool from_query) {
    std::vector<const Value*> values;
    if (const auto* object = item.object()) {
        if (from_query) {
            for (const auto& member : *object)
                values.push_back(&member.second);
        } else {
            for (const auto* member : sorted_members(*object))
                values.push_back(&member->second);
        }
    } else if (const auto* array = item.array()) {
        for (const auto& value : *array)
            values.push_back(&value);
    } else {
        return field(item, false) + "\n";
    }
    std::string out;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i > 0) out += '\t';
        out += field(*values[i], true);
    }
    return out + "\n";
}

}  // namespace

std::string format_tsv(const Value& value, bool from_query) {
    if (value.is_null()) return "";
    const auto* items = value.array();
    if (items == nullptr) return row(value, from_query);
    std::string out;
    for (const auto& item : *items)
        out += row(item, from_query);
    return out;
}

base::Result<OutputFormat> output_format(std::string_view name) {
    const auto lower = base::lower(name);
    if (lower == "json") return OutputFormat::json;
    if (lower == "jsonc") return OutputFormat::jsonc;
    if (lower == "table") return OutputFormat::table;
    if (lower == "tsv") return OutputFormat::tsv;
    if (lower == "none") return OutputFormat::none;
    // Colours of YAML are not shown.
    if (lower == "yaml" || lower == "yamlc") return OutputFormat::yaml;
    return base::fail(fmt::format("unknown format \"{}\"", name), "--output",
                      "use json, jsonc, table, tsv, yaml or none", base::ExitCode::usage);
}

base::Result<std::string> render_output(const Value& value, const Columns& columns,
                                        const OutputOptions& options) {
    const bool queried = options.query.has_value();
    const Value answer = queried ? TRY(query(value, *options.query)) : Value();
    const Value& result = queried ? answer : value;
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
        case OutputFormat::yaml:
            return format_yaml(result);
        case OutputFormat::none:
            break;
    }
    return "";
}

}  // namespace batchai::cli
