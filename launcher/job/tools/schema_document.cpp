// SPDX-License-Identifier: GPL-2.0-or-later
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "job/schema/checks.hpp"
#include "job/schema/field_table.hpp"
#include "job/tools/documents.hpp"

namespace batchai::job {

namespace {

using Json = base::Value;

constexpr SchemaVersion newest = SchemaVersion::v2018_05_01;
constexpr std::string_view duration_pattern =
    R"(^(P([0-9]+W)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+S)?)?)"
    R"(|([0-9]+(\.| days?, ))?[0-9]+:[0-5][0-9]:[0-5][0-9])$)";

// The table's examples and defaults are constants, so a fault in one ends the program.
Json parsed(std::string_view text) {
    return base::parse_json(text, text).value();
}

Json list_of(const std::vector<std::string_view>& names) {
    return Json::Array(names.begin(), names.end());
}

Json requires_keys(const std::vector<std::string_view>& keys) {
    return Json::Object{{"required", list_of(keys)}};
}

std::string reference_to(const Object& object) {
    return "#/$defs/" + std::string(object.name);
}

// The defaults in the table are JSON where the value is fixed, and words otherwise.
bool is_json(std::string_view text) {
    return !text.empty() && (text[0] == '"' || text == "true");
}

void describe_text(const Field& field, Json& out) {
    out.set("type", "string");
    if (field.kind == Kind::duration) {
        out.set("pattern", duration_pattern);
        return;
    }
    if (field.check != Check::anything) out.set("minLength", 1);
    const std::string_view pattern = pattern_of(field.check);
    if (!pattern.empty()) out.set("pattern", pattern);
}

void describe_own(const Field& field, Json& out) {
    const Json form = parsed(field.form);
    for (const auto& [key, value] : *form.object())
        out.set(key, value);
}

void describe_type(const Field& field, Json& out) {
    switch (field.kind) {
        case Kind::text:
        case Kind::duration:
            describe_text(field, out);
            break;
        case Kind::integer:
            out.set("type", "integer");
            out.set("minimum", field.minimum);
            out.set("maximum", field.maximum);
            break;
        case Kind::boolean:
            out.set("type", "boolean");
            break;
        case Kind::choice:
            out.set("enum", list_of({field.choices.begin(), field.choices.end()}));
            break;
        case Kind::object:
            out.set("$ref", reference_to(*field.object));
            break;
        case Kind::list:
            out.set("type", "array");
            out.set("items", Json::Object{{"$ref", reference_to(*field.object)}});
            break;
        case Kind::words: {
            Json item;
            describe_text(field, item);
            out.set("type", "array");
            out.set("minItems", 1);
            out.set("items", std::move(item));
            break;
        }
        case Kind::own:
            describe_own(field, out);
            break;
    }
}

Json describe_field(const Field& field) {
    Json out;
    std::string description(field.doc);
    if (!field.fallback.empty() && !is_json(field.fallback)) {
        description += ". Default: " + std::string(field.fallback);
    }
    out.set("description", description);
    describe_type(field, out);
    if (is_json(field.fallback)) out.set("default", parsed(field.fallback));
    if (!field.example.empty()) out.set("examples", Json::Array{parsed(field.example)});
    if (field.read_only) out.set("readOnly", true);
    if (field.secret && field.kind == Kind::text) out.set("writeOnly", true);
    if (field.until < newest) out.set("deprecated", true);
    return out;
}

// Returns one condition for each group of fields that exclude each other.
Json::Array group_conditions(const Object& object) {
    Json::Array conditions;
    std::set<std::string_view> seen;
    for (const Field& field : object.fields) {
        if (field.group == Group::none || !seen.insert(field.group_name).second) continue;
        std::vector<std::string_view> names;
        Json::Array alternatives;
        for (const Field& other : object.fields) {
            if (other.group_name != field.group_name) continue;
            // No two of them may be there.
            for (const std::string_view name : names) {
                if (field.group == Group::at_most_one)
                    conditions.emplace_back(
                        Json::Object{{"not", requires_keys({name, other.name})}});
            }
            names.push_back(other.name);
            alternatives.push_back(requires_keys({other.name}));
        }
        if (field.group == Group::exactly_one)
            conditions.emplace_back(Json::Object{{"oneOf", std::move(alternatives)}});
    }
    return conditions;
}

Json describe_object(const Object& object) {
    Json out;
    out.set("description", object.doc);
    out.set("type", "object");
    Json properties;
    Json needs;
    std::vector<std::string_view> required;
    for (const Field& field : object.fields) {
        properties.set(field.name, describe_field(field));
        if (field.required_in(newest)) required.push_back(field.name);
        if (!field.needs.empty()) needs.set(field.name, list_of({field.needs}));
    }
    out.set("properties", std::move(properties));
    out.set("patternProperties", Json::Object{{"^\\$", true}});
    out.set("additionalProperties", false);
    if (!required.empty()) out.set("required", list_of(required));
    if (!needs.is_null()) out.set("dependentRequired", std::move(needs));
    if (auto conditions = group_conditions(object); !conditions.empty())
        out.set("allOf", std::move(conditions));
    return out;
}

void define(const Object& object, Json& definitions) {
    if (!definitions[object.name].is_null()) return;
    definitions.set(object.name, describe_object(object));
    for (const Field& field : object.fields) {
        if (field.object != nullptr) define(*field.object, definitions);
    }
}

}  // namespace

std::string schema_document() {
    Json definitions;
    for (const Field& field : job_file_object.fields) {
        if (field.object != nullptr) define(*field.object, definitions);
    }
    Json out;
    out.set("$schema", "https://json-schema.org/draft/2020-12/schema");
    out.set("title", "Batch AI job file, schema 2018-05-01");
    out.set("$comment", "Generated by batchai_job_docs from the field table; do not edit.");
    const Json root = describe_object(job_file_object);
    for (const auto& [key, value] : *root.object())
        out.set(key, value);
    out.set("$defs", std::move(definitions));
    return base::format_json(out);
}

}  // namespace batchai::job
