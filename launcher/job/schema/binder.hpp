// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "job/parse.hpp"
#include "job/schema/faults.hpp"
#include "job/schema/field.hpp"
#include "job/syntax/tree.hpp"

namespace batchai::job {

// Copies the values of a tree into the model as the field table describes them, and reports
// everything in the tree that does not match the table.
class Binder {
  public:
    // `complete` is false if reading the tree ended early; then nothing is reported as missing.
    Binder(SchemaVersion schema, bool complete, Faults& faults, PositionTable& positions)
        : schema_(schema), complete_(complete), faults_(faults), positions_(positions) {}

    // `name` is the object's key, for messages. `owner` points to the struct to which its fields
    // belong.
    void bind(const Object& object, const Node& node, void* owner, const std::string& pointer,
              std::string_view name);

    // Reports mounts with equal or nested paths. Must be called once, after all objects are bound.
    void check_mounts();

  private:
    struct Given {
        const Field* field;
        const Member* member;
    };
    struct Mount {
        std::string path;
        Position position;
    };

    void bind_member(const Object& object, const Member& member, void* owner,
                     const std::string& pointer, std::vector<Given>& given,
                     std::vector<std::string_view>& meant);
    void bind_value(const Field& field, const Node& node, void* owner, const std::string& pointer);
    void bind_list(const Field& field, const Node& node, void* owner, const std::string& pointer);
    void bind_words(const Field& field, const Node& node, void* owner, const std::string& pointer);
    void ignored(const Field& field, const Member& member);
    std::string_view unknown_key(const Object& object, const Member& member);
    bool belongs_to_schema(const Field& field, const Member& member);
    void missing(const Object& object, const Node& node, const std::vector<Given>& given,
                 const std::vector<std::string_view>& meant, std::string_view name);
    void groups(const Object& object, const Node& node, const std::vector<Given>& given,
                const std::vector<std::string_view>& meant, std::string_view name);

    void bind_scalar(const Field& field, const Node& node, void* owner);
    std::optional<Value> text(const Field& field, const Node& node);
    std::optional<Value> integer(const Field& field, const Node& node);
    std::optional<Value> choice(const Field& field, const Node& node);
    std::optional<Value> duration(const Field& field, const Node& node);
    void wrong_type(const Field& field, const Node& node);
    void remember(const Field& field, const Node& node);

    SchemaVersion schema_;
    bool complete_;
    Faults& faults_;
    PositionTable& positions_;
    std::vector<Mount> mounts_;
    std::map<std::string_view, std::map<std::string, Position>> names_;  // by Field::unique
};

}  // namespace batchai::job
