// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>
#include <jsoncons/json.hpp>

#include "base/file.hpp"
#include "base/text.hpp"
#include "plan/gpus.hpp"
#include "plan/plan_file.hpp"
#include "plan/slurm_options.hpp"
#include "planned.hpp"

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
        if (flag()) plan.node_setup = NodeSetup{text(), text(), text()};
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
    plan.retry.emplace().on.resize(1);
    plan.checkpoint = Checkpoint{.signal = 10, .seconds_before = 60};
    plan.notices.resize(1);
    return plan;
}

std::vector<std::filesystem::path> earlier_plans() {
    std::vector<std::filesystem::path> out;
    for (const auto& entry : std::filesystem::directory_iterator(BATCHAI_PLAN_DATA "/earlier"))
        out.push_back(entry.path());
    return out;
}

std::string text_of_file(const std::filesystem::path& path) {
    auto text = base::read_file(path);
    EXPECT_TRUE(text) << text.error().text();
    return text.value_or("");
}

Plan earlier_plan(const std::string& name) {
    auto plan = plan_from_json(text_of_file(BATCHAI_PLAN_DATA "/earlier/" + name));
    EXPECT_TRUE(plan) << name << ": " << plan.error().text();
    return plan.value_or(Plan{});
}

// Returns the object at a place such as "mounts[0].remote.", or null.
const Json* object_at(const Json& document, std::string_view place) {
    const Json* at = &document;
    for (const std::string_view part : base::split(place, '.')) {
        if (part.empty()) continue;
        const std::string key(part.substr(0, part.find('[')));
        if (!at->is_object() || !at->contains(key)) return nullptr;
        at = &at->at(key);
        if (!part.ends_with(']')) continue;
        if (!at->is_array() || at->empty()) return nullptr;
        at = &(*at)[0];
    }
    return at->is_object() ? at : nullptr;
}

// Returns whether the plans of some earlier release have the object, but not this key in it.
bool came_later(const std::string& prefix, const std::string& key) {
    static const std::vector<Json> documents = [] {
        std::vector<Json> out;
        for (const auto& path : earlier_plans())
            out.push_back(Json::parse(text_of_file(path)));
        return out;
    }();
    return std::any_of(documents.begin(), documents.end(), [&](const Json& document) {
        const Json* const object = object_at(document, prefix);
        return object != nullptr && !object->contains(key);
    });
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
            EXPECT_NE(refusal(document).find(came_later(prefix, key)
                                                 ? "(accepted)"
                                                 : fmt::format("\"{}{}\" is missing", prefix, key)),
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

// Breaks when a job that was queued before an upgrade cannot run after it. The files are what
// releases have written before the change in their names.
TEST(PlanJson, ReadsThePlansOfEarlierReleases) {
    EXPECT_GE(earlier_plans().size(), 4U);
    for (const auto& path : earlier_plans()) {
        const Plan plan = earlier_plan(path.filename());
        EXPECT_EQ(plan.identity.job, "cifar_distributed") << path;
        EXPECT_EQ(plan.steps.size(), 2U) << path;
        // What is written from it is what this release reads.
        const auto again = plan_from_json(to_json(plan));
        ASSERT_TRUE(again) << path << again.error().text();
        EXPECT_EQ(*again, plan) << path;
    }
    const Plan before_retry = earlier_plan("before-retry.plan.json");
    EXPECT_EQ(before_retry.retry, std::nullopt);
    EXPECT_EQ(before_retry.checkpoint, std::nullopt);
    EXPECT_EQ(earlier_plan("before-declaration.plan.json").declaration, "");
    EXPECT_EQ(earlier_plan("with-retry.plan.json").retry->max, 3);
}

// Breaks when the options of Slurm of an earlier plan are lost, such as the GPUs that are checked.
TEST(PlanJson, ReadsTheOptionsOfEarlierReleases) {
    const Plan plan = earlier_plan("before-options.plan.json");
    std::vector<std::string> options;
    for (const SlurmOption& option : plan.allocation.options)
        options.push_back(argument_of(option));
    EXPECT_EQ(options,
              (std::vector<std::string>{"--exclusive", "--partition=gpu", "--constraint=ib&fast",
                                        "--gres=gpu:1", "--switches=1"}));
    EXPECT_EQ(gpus_of_job(plan.allocation), 4);
    Json document =
        Json::parse(text_of_file(BATCHAI_PLAN_DATA "/earlier/before-options.plan.json"));
    document["allocation"]["gres"] = 1;
    EXPECT_EQ(refusal(document),
              "this is not a plan of this release: \"allocation.gres\" is not known");
    document["allocation"]["gres"] = "";
    document["allocation"]["extraOptions"][0].erase("name");
    EXPECT_EQ(refusal(document),
              "this is not a plan of this release: \"allocation.options[3].name\" is missing");
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
