// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/schema/field_table.hpp"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/json.hpp"
#include "job/schema/checks.hpp"

namespace batchai::job {
namespace {

template <class Visit>
void for_each_field(const Object& object, Visit visit) {
    for (const Field& field : object.fields) {
        visit(object, field);
        if (field.object != nullptr) for_each_field(*field.object, visit);
    }
}

TEST(FieldTable, DescribesEachFieldWhole) {
    for_each_field(job_file_object, [](const Object& object, const Field& field) {
        SCOPED_TRACE(std::string(object.name) + "." + std::string(field.name));
        EXPECT_FALSE(field.doc.empty());
        const bool composite = field.kind == Kind::object || field.kind == Kind::list;
        EXPECT_EQ(field.object != nullptr, composite);
        const bool own = field.kind == Kind::own;
        EXPECT_EQ(field.access.store != nullptr, !composite && !own && !field.read_only);
        EXPECT_EQ(field.access.read != nullptr && field.access.echo != nullptr,
                  own && !field.read_only);
        EXPECT_EQ(field.form.empty() || field.form_name.empty(), !own);
        EXPECT_EQ(field.choices.empty(), field.kind != Kind::choice);
        EXPECT_LE(field.since, field.until);
        EXPECT_TRUE(field.needs.empty() || object.find(field.needs) != nullptr);
        EXPECT_TRUE(field.kind != Kind::integer || field.minimum < field.maximum);
    });
}

TEST(FieldTable, NamesEachKeyOfAnObjectOnce) {
    for_each_field(job_file_object, [](const Object& object, const Field& field) {
        EXPECT_EQ(object.find(field.name), &field) << field.name;
    });
}

TEST(FieldTable, GivesExamplesThatItsOwnChecksAccept) {
    for_each_field(job_file_object, [](const Object& object, const Field& field) {
        if (field.object != nullptr) return;
        SCOPED_TRACE(std::string(object.name) + "." + std::string(field.name));
        const auto example = base::parse_json(field.example, "the example");
        ASSERT_TRUE(example) << example.error().text();
        if (field.kind != Kind::text) return;
        ASSERT_TRUE(example->is_string());
        EXPECT_FALSE(check_text(field.check, *example->string()).has_value());
    });
}

}  // namespace
}  // namespace batchai::job
