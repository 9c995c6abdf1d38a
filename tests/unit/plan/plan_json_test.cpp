// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <jsoncons/json.hpp>

#include "base/record.hpp"
#include "plan/plan.hpp"
#include "plan/plan_file.hpp"
#include "tests/unit/filled.hpp"

namespace batchai::plan {

namespace {

using Json = jsoncons::ojson;

// Random plans of any shape that the tables of fields allow, with texts that JSON has to escape.
class PlanMaker {
  public:
    explicit PlanMaker(unsigned int seed) : random_(seed) {}

    Plan make() {
        Plan plan;
        draw(plan);
        return plan;
    }

  private:
    int number(int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random_);
    }
    bool flag() { return number(0, 1) == 0; }

    template <typename T>
    void draw(T& value) {
        using base::record_detail::is_optional;
        using base::record_detail::is_vector;
        if constexpr (std::is_same_v<T, bool>) {
            value = flag();
        } else if constexpr (std::is_same_v<T, std::string>) {
            value = text();
        } else if constexpr (std::is_enum_v<T>) {
            const auto& words = base::WordsOf<T>::words;
            value = words.at(static_cast<std::size_t>(number(0, 1000)) % words.size()).second;
        } else if constexpr (is_optional<T>) {
            if (flag()) draw(value.emplace());
        } else if constexpr (is_vector<T>) {
            for (int i = number(0, 3); i > 0; --i)
                draw(value.emplace_back());
        } else {
            std::apply([&](const auto&... fields) { (draw_field(value, fields), ...); },
                       base::fields_of<T>);
        }
    }

    template <typename Struct, typename Field>
    void draw_field(Struct& value, const Field& field) {
        auto& member = value.*(field.member);
        using Member = std::decay_t<decltype(member)>;
        if constexpr (std::is_same_v<Member, std::chrono::minutes> ||
                      (std::is_integral_v<Member> && !std::is_same_v<Member, bool>)) {
            constexpr std::int64_t far = 100000;
            member = Member(number(static_cast<int>(std::max(field.least, -far)),
                                   static_cast<int>(std::min(field.most, far))));
            if constexpr (std::is_same_v<Member, std::int64_t>) member <<= 32U;
        } else {
            draw(member);
        }
    }

    std::string text() {
        static const std::vector<std::string> pieces = {"a", "/", "\"", "\\", "\n", "\t",   "\x01",
                                                        "é", "𝄞", "$X", "'",  " ",  "\x7f", "</"};
        std::string out;
        for (int i = number(0, 7); i > 0; --i)
            out += pieces[static_cast<std::size_t>(number(0, 1000)) % pieces.size()];
        return out;
    }

    std::mt19937 random_;
};

Plan full_plan() {
    Plan plan;
    base::fill(plan, "x");
    return plan;
}

// Calls `visit` for each object of the document with the place of its members.
void each_object(Json& value, const std::string& place,
                 const std::function<void(Json&, const std::string&)>& visit) {
    if (value.is_object()) {
        visit(value, place.empty() ? "" : place + ".");
        for (auto& member : value.object_range())
            each_object(member.value(), place.empty() ? member.key() : place + "." + member.key(),
                        visit);
    } else if (value.is_array()) {
        for (std::size_t i = 0; i < value.size(); ++i)
            each_object(value[i], fmt::format("{}[{}]", place, i), visit);
    }
}

std::string refusal(const Json& document) {
    std::string text;
    document.dump(text);
    const auto plan = plan_from_json(text);
    return plan ? "(accepted)" : plan.error().what;
}

}  // namespace

TEST(PlanJson, GivesBackEveryPlan) {
    for (unsigned int seed = 0; seed < 500; ++seed) {
        const Plan plan = PlanMaker(seed).make();
        const std::string text = to_json(plan);
        const auto read = plan_from_json(text);
        ASSERT_TRUE(read) << read.error().text() << text;
        EXPECT_EQ(*read, plan) << text;
        EXPECT_EQ(to_json(*read), text);
        EXPECT_TRUE(text.ends_with("}\n"));
    }
}

TEST(PlanJson, NamesEachKeyThatIsMissingWrongOrUnknown) {
    Json document = Json::parse(to_json(full_plan()));
    int checked = 0;
    each_object(document, "", [&](Json& object, const std::string& prefix) {
        std::vector<std::string> keys;
        for (const auto& member : object.object_range())
            keys.push_back(member.key());
        for (const std::string& key : keys) {
            const Json before = object;
            object.erase(key);
            // A plan of 0.1.0 has none of these.
            const bool newer = prefix + key == "watch" || key == "spareNodes" ||
                               key == "inAllocation" || key == "noteFailedNodes" ||
                               key == "tellsBadWiring";
            const std::string missing =
                newer ? "(accepted)" : fmt::format("\"{}{}\" is missing", prefix, key);
            EXPECT_NE(refusal(document).find(missing), std::string::npos) << refusal(document);
            object = before;
            // Not null: that is how a plan says that it has no container.
            object[key] = object[key].is_bool() ? Json(1) : Json(true);
            EXPECT_NE(refusal(document).find(fmt::format("\"{}{}\" is not", prefix, key)),
                      std::string::npos)
                << prefix << key << ": " << refusal(document);
            object = before;
            ++checked;
        }
        object["extra"] = 1;
        EXPECT_NE(refusal(document).find(fmt::format("\"{}extra\" is not known", prefix)),
                  std::string::npos)
            << refusal(document);
        object.erase("extra");
    });
    EXPECT_GT(checked, 50);
    EXPECT_EQ(refusal(document), "(accepted)");
}

TEST(PlanJson, RefusesOtherSchemasAndNumbersOutOfRange) {
    Json document = Json::parse(to_json(full_plan()));
    document["schema"] = "batchai-plan/v2";
    EXPECT_NE(refusal(document).find("\"batchai-plan/v2\""), std::string::npos);
    document["schema"] = "batchai-plan/v3";
    for (const Json& value : {Json(0), Json(1.5), Json(3000000000L), Json("1")}) {
        document["allocation"]["nodes"] = value;
        EXPECT_NE(refusal(document).find("\"allocation.nodes\""), std::string::npos);
    }
    document["allocation"]["nodes"] = 1;
    document["steps"][0]["kind"] = "dance";
    EXPECT_NE(refusal(document).find("\"dance\""), std::string::npos);
}

TEST(PlanJson, RefusesTextThatIsNoPlan) {
    for (const char* text : {"", "[]", "{", "null", "{} {}", "{\"schema\": 1}"})
        EXPECT_FALSE(plan_from_json(text)) << text;
}

}  // namespace batchai::plan
