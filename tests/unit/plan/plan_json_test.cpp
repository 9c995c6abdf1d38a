// SPDX-License-Identifier: GPL-2.0-or-later
#include <functional>
#include <optional>
#include <random>
#include <type_traits>

#include <gtest/gtest.h>
#include <jsoncons/json.hpp>

#include "planned.hpp"
#include "record/plan_file.hpp"

namespace batchai::plan {

namespace {

using Json = jsoncons::ojson;

// Random plans of any shape, with texts that JSON has to escape.
class PlanMaker {
  public:
    explicit PlanMaker(unsigned int seed) : random_(seed) {}

    Plan make() {
        Plan plan;
        plan.identity = {text(), text(), text(), text(), text(), text(), text()};
        plan.tool_type = text();
        plan.allocation = {
            count(),
            count(),
            count(),
            number(0),
            number(-9),
            std::chrono::minutes(number(0)),
            list([&] {
                return SlurmOption{text(), text(), static_cast<Origin>(number(0) % 7)};
            })};
        plan.mpi = text();
        plan.directories = {text(), text(), text(), text(), text(), text(), text(), text(), text()};
        plan.mounts = list([&] {
            std::optional<RemoteVolume> remote;
            if (flag())
                remote = RemoteVolume{text(),
                                      text(),
                                      list([&] {
                                          return Variable{text(), text()};
                                      }),
                                      text(),
                                      text(),
                                      text(),
                                      number(0) % 01000,
                                      number(0) % 01000};
            return Mount{
                text(),  text(),   text(), text(), flag() ? MountScope::job : MountScope::cluster,
                flag(),  flag(),   text(), flag(), remote,
                count(), number(0)};
        });
        if (flag()) {
            const auto variable = [&] { return Variable{text(), text()}; };
            const auto word = [&] { return text(); };
            plan.container = Container{text(),
                                       text(),
                                       text(),
                                       text(),
                                       flag(),
                                       flag(),
                                       std::int64_t{number(0)} << 30U,
                                       list(variable),
                                       list(word),
                                       text(),
                                       std::int64_t{number(0)} << 32U,
                                       flag(),
                                       list([&] {
                                           return HostBind{text(), text(), flag(), flag()};
                                       }),
                                       flag()};
        }
        plan.outputs = list([&] { return OutputDirectory{text(), text(), text(), flag()}; });
        plan.environment = list([&] { return Variable{text(), text()}; });
        plan.secret_names = list([&] { return text(); });
        plan.steps = list([&] {
            return Step{static_cast<StepKind>(number(0) % 3),
                        text(),
                        count(),
                        count(),
                        flag(),
                        text(),
                        text()};
        });
        if (flag())
            plan.retry = Retry{list([&] { return text(); }), count(), flag(), text(), count()};
        if (flag()) plan.checkpoint = Checkpoint{1 + number(0) % 64, count()};
        plan.notices = list([&] { return text(); });
        return plan;
    }

  private:
    int number(int least) { return std::uniform_int_distribution<int>(least, 100000)(random_); }
    int count() { return number(1); }
    bool flag() { return number(0) % 2 == 0; }

    std::string text() {
        static const std::vector<std::string> pieces = {"a", "/", "\"", "\\", "\n", "\t",   "\x01",
                                                        "é", "𝄞", "$X", "'",  " ",  "\x7f", "</"};
        std::string out;
        for (int i = number(0) % 8; i > 0; --i)
            out += pieces[static_cast<std::size_t>(number(0)) % pieces.size()];
        return out;
    }

    template <typename Make>
    std::vector<std::invoke_result_t<Make>> list(Make make_one) {
        std::vector<std::invoke_result_t<Make>> out;
        for (int i = number(0) % 4; i > 0; --i)
            out.push_back(make_one());
        return out;
    }

    std::mt19937 random_;
};

// A plan in which each list has an entry.
Plan full_plan() {
    Plan plan;
    plan.mounts.resize(1);
    plan.container.emplace().environment.resize(1);
    plan.container->binds.resize(1);
    plan.outputs.resize(1);
    plan.environment.resize(1);
    plan.secret_names.resize(1);
    plan.steps.resize(1);
    plan.notices.resize(1);
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
    const auto plan = record::plan_from_json(text);
    return plan ? "(accepted)" : plan.error().what;
}

}  // namespace

TEST(PlanJson, GivesBackEveryPlan) {
    for (unsigned int seed = 0; seed < 500; ++seed) {
        const Plan plan = PlanMaker(seed).make();
        const std::string text = record::to_json(plan);
        const auto read = record::plan_from_json(text);
        ASSERT_TRUE(read) << read.error().text() << text;
        EXPECT_EQ(*read, plan) << text;
        EXPECT_EQ(record::to_json(*read), text);
        EXPECT_TRUE(text.ends_with("}\n"));
    }
}

TEST(PlanJson, NamesEachKeyThatIsMissingWrongOrUnknown) {
    Json document = Json::parse(record::to_json(full_plan()));
    int checked = 0;
    each_object(document, "", [&](Json& object, const std::string& prefix) {
        std::vector<std::string> keys;
        for (const auto& member : object.object_range())
            keys.push_back(member.key());
        for (const std::string& key : keys) {
            const Json before = object;
            object.erase(key);
            // Plans of jobs that were queued before an upgrade do not have this key.
            const bool is_new = prefix + key == "declaration";
            EXPECT_NE(refusal(document).find(
                          is_new ? "(accepted)" : fmt::format("\"{}{}\" is missing", prefix, key)),
                      std::string::npos)
                << refusal(document);
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
    Json document = Json::parse(record::to_json(full_plan()));
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
        EXPECT_FALSE(record::plan_from_json(text)) << text;
}

}  // namespace batchai::plan
