// SPDX-License-Identifier: GPL-2.0-or-later
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "job/schema/checks.hpp"
#include "job/schema/field_table.hpp"
#include "job/syntax/json.hpp"
#include "job/tools/documents.hpp"

namespace batchai::job {

namespace {

constexpr SchemaVersion newest = SchemaVersion::v2018_05_01;
constexpr std::string_view duration_pattern =
    R"(^(P([0-9]+W)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+S)?)?)"
    R"(|([0-9]+(\.| days?, ))?[0-9]+:[0-5][0-9]:[0-5][0-9])$)";

OrderedJson string_of(std::string_view text) {
    return OrderedJson(std::string(text));
}

OrderedJson reference_to(const Object& object) {
    OrderedJson out;
    out["$ref"] = "#/$defs/" + std::string(object.name);
    return out;
}

// The defaults in the table are JSON where the value is fixed, and words otherwise.
bool is_json(std::string_view text) {
    return !text.empty() && (text[0] == '"' || text == "true");
}

void describe_text(const Field& field, OrderedJson& out) {
    out["type"] = "string";
    if (field.kind == Kind::duration) {
        out["pattern"] = string_of(duration_pattern);
        return;
    }
    if (field.check != Check::anything) out["minLength"] = 1;
    const std::string_view pattern = pattern_of(field.check);
    if (!pattern.empty()) out["pattern"] = string_of(pattern);
}

void describe_type(const Field& field, OrderedJson& out) {
    switch (field.kind) {
        case Kind::text:
        case Kind::duration:
            describe_text(field, out);
            break;
        case Kind::integer:
            out["type"] = "integer";
            out["minimum"] = field.minimum;
            out["maximum"] = field.maximum;
            break;
        case Kind::boolean:
            out["type"] = "boolean";
            break;
        case Kind::choice: {
            OrderedJson choices(jsoncons::json_array_arg);
            for (const std::string_view choice : field.choices)
                choices.push_back(string_of(choice));
            out["enum"] = std::move(choices);
            break;
        }
        case Kind::object:
            out["$ref"] = reference_to(*field.object)["$ref"];
            break;
        case Kind::list:
            out["type"] = "array";
            out["items"] = reference_to(*field.object);
            break;
    }
}

OrderedJson describe_field(const Field& field) {
    OrderedJson out;
    std::string description(field.doc);
    if (!field.fallback.empty() && !is_json(field.fallback)) {
        description += ". Default: " + std::string(field.fallback);
    }
    out["description"] = description;
    describe_type(field, out);
    if (is_json(field.fallback)) out["default"] = OrderedJson::parse(field.fallback);
    if (!field.example.empty()) {
        out["examples"] = OrderedJson(jsoncons::json_array_arg);
        out["examples"].push_back(OrderedJson::parse(field.example));
    }
    if (field.read_only) out["readOnly"] = true;
    if (field.secret && field.kind == Kind::text) out["writeOnly"] = true;
    if (field.until < newest) out["deprecated"] = true;
    return out;
}

OrderedJson requires_keys(const std::vector<std::string_view>& keys) {
    OrderedJson out;
    out["required"] = OrderedJson(jsoncons::json_array_arg);
    for (const std::string_view key : keys)
        out["required"].push_back(string_of(key));
    return out;
}

// Returns one condition for each group of fields that exclude each other.
OrderedJson group_conditions(const Object& object) {
    OrderedJson conditions(jsoncons::json_array_arg);
    std::set<std::string_view> seen;
    for (const Field& field : object.fields) {
        if (field.group == Group::none || !seen.insert(field.group_name).second) continue;
        std::vector<std::string_view> names;
        OrderedJson alternatives(jsoncons::json_array_arg);
        for (const Field& other : object.fields) {
            if (other.group_name != field.group_name) continue;
            names.push_back(other.name);
            alternatives.push_back(requires_keys({other.name}));
        }
        OrderedJson condition;
        if (field.group == Group::exactly_one) {
            condition["oneOf"] = std::move(alternatives);
        } else {
            condition["not"] = requires_keys(names);
        }
        conditions.push_back(std::move(condition));
    }
    return conditions;
}

OrderedJson describe_object(const Object& object) {
    OrderedJson out;
    out["description"] = string_of(object.doc);
    out["type"] = "object";
    OrderedJson properties;
    OrderedJson needs;
    std::vector<std::string_view> required;
    for (const Field& field : object.fields) {
        properties[std::string(field.name)] = describe_field(field);
        if (field.required_in(newest)) required.push_back(field.name);
        if (field.needs.empty()) continue;
        needs[std::string(field.name)] = OrderedJson(jsoncons::json_array_arg);
        needs[std::string(field.name)].push_back(string_of(field.needs));
    }
    out["properties"] = std::move(properties);
    out["patternProperties"]["^\\$"] = true;
    out["additionalProperties"] = false;
    if (!required.empty()) out["required"] = requires_keys(required)["required"];
    if (!needs.empty()) out["dependentRequired"] = std::move(needs);
    OrderedJson conditions = group_conditions(object);
    if (!conditions.empty()) out["allOf"] = std::move(conditions);
    return out;
}

void define(const Object& object, OrderedJson& definitions) {
    const std::string name(object.name);
    if (definitions.contains(name)) return;
    definitions[name] = describe_object(object);
    for (const Field& field : object.fields) {
        if (field.object != nullptr) define(*field.object, definitions);
    }
}

}  // namespace

std::string schema_document() {
    OrderedJson definitions;
    for (const Field& field : job_file_object.fields)
        define(*field.object, definitions);
    OrderedJson out;
    out["$schema"] = "https://json-schema.org/draft/2020-12/schema";
    out["title"] = "Batch AI job file, schema 2018-05-01";
    out["$comment"] = "Generated by batchai_job_docs from the field table; do not edit.";
    const OrderedJson root = describe_object(job_file_object);
    for (const auto& entry : root.object_range())
        out[entry.key()] = entry.value();
    out["$defs"] = std::move(definitions);
    return pretty(out);
}

}  // namespace batchai::job
