// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/output/tsv.hpp"

#include <vector>

namespace batchai::cli {
namespace {

// A tab or newline in a value would look like the end of the field or of the item.
std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '\t':
                out += "\\t";
                break;
            case '\n':
                out += "\\n";
                break;
            case '\r':
                out += "\\r";
                break;
            default:
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

}  // namespace batchai::cli
