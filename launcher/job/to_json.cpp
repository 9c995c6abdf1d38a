// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/to_json.hpp"

#include <string>
#include <utility>
#include <variant>

#include "job/schema/checks.hpp"
#include "job/schema/field_table.hpp"

namespace batchai::job {

namespace {

base::Value echo_object(const Object& object, const void* owner);

base::Value echo_scalar(const Field& field, const void* owner) {
    const std::optional<Value> value = field.access.load(owner);
    if (!value) return {};
    if (field.kind == Kind::text) return std::get<std::string>(*value);
    if (field.kind == Kind::boolean) return std::get<bool>(*value);
    const std::int64_t number = std::get<std::int64_t>(*value);
    if (field.kind == Kind::choice) {
        return field.choices[static_cast<std::size_t>(number)];
    }
    if (field.kind == Kind::duration) return format_duration(std::chrono::seconds(number));
    return number;
}

base::Value echo(const Field& field, const void* owner) {
    if (field.secret) return {};
    if (field.kind == Kind::own) return field.access.echo(owner);
    const bool several =
        field.kind == Kind::object || field.kind == Kind::list || field.kind == Kind::words;
    if (!several) return echo_scalar(field, owner);
    const std::size_t count = field.access.count(owner);
    if (count == 0) return {};
    if (field.kind == Kind::object) {
        return echo_object(*field.object, field.access.at(owner, 0));
    }
    base::Value::Array array;
    for (std::size_t i = 0; i < count; ++i) {
        const void* const element = field.access.at(owner, i);
        array.push_back(field.kind == Kind::words
                            ? base::Value(*static_cast<const std::string*>(element))
                            : echo_object(*field.object, element));
    }
    return array;
}

base::Value echo_object(const Object& object, const void* owner) {
    base::Value::Object out;
    for (const Field& field : object.fields) {
        if (!field.in(SchemaVersion::v2018_05_01) || field.read_only) continue;
        base::Value value = echo(field, owner);
        if (field.extension && value.is_null()) continue;
        out.emplace_back(field.name, std::move(value));
    }
    return out;
}

void fill_process_count(JobSpec& spec) {
    std::visit(
        [&]<typename Settings>(Settings& settings) {
            if constexpr (requires { Settings::shows_default_process_count; }) {
                if (!settings.process_count) settings.process_count = spec.node_count;
            }
        },
        spec.toolkit);
}

}  // namespace

base::Value to_json(const JobSpec& spec) {
    JobSpec filled = spec;
    fill_process_count(filled);
    base::Value out = echo_object(properties_object, &filled);
    out.set("toolType", tool_type(filled.toolkit));
    return out;
}

}  // namespace batchai::job
