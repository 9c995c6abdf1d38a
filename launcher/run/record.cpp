// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/record.hpp"

#include <charconv>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <jsoncons/json.hpp>

#include "base/file.hpp"

namespace batchai::run {

namespace {

constexpr std::string_view schema = "batchai-attempt/v1";

using Json = jsoncons::ojson;

template <typename T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json::null();
}

Json time_or_null(const std::optional<base::Time>& time) {
    return time ? Json(base::to_iso8601(*time)) : Json::null();
}

Json phase_json(const Phase& phase) {
    Json out(jsoncons::json_object_arg);
    out["name"] = phase.name;
    out["start"] = base::to_iso8601(phase.start);
    out["end"] = time_or_null(phase.end);
    out["exitCode"] = phase.exit_code;
    return out;
}

Json failure_json(const Failure& failure) {
    Json out(jsoncons::json_object_arg);
    out["code"] = failure.code;
    out["message"] = failure.message;
    out["phase"] = failure.phase;
    out["node"] = failure.node;
    out["rank"] = or_null(failure.rank);
    out["signal"] = or_null(failure.signal);
    out["exitCode"] = or_null(failure.exit_code);
    out["firstErrorLine"] = failure.first_error_line;
    return out;
}

Json restart_json(const Restart& restart) {
    Json out(jsoncons::json_object_arg);
    out["time"] = base::to_iso8601(restart.time);
    out["nodes"] = restart.nodes;
    out["failure"] = failure_json(restart.failure);
    return out;
}

// Thrown inside this file only; attempt_from_json turns it into a value.
struct BadRecord {
    std::string what;
};

const Json& member(const Json& object, std::string_view key) {
    if (!object.is_object() || !object.contains(key))
        throw BadRecord{fmt::format("\"{}\" is missing", key)};
    return object.at(key);
}

std::string text_member(const Json& object, std::string_view key) {
    const Json& value = member(object, key);
    if (!value.is_string()) throw BadRecord{fmt::format("\"{}\" is not a string", key)};
    return value.as<std::string>();
}

std::optional<int> number_member(const Json& object, std::string_view key) {
    const Json& value = member(object, key);
    if (value.is_null()) return std::nullopt;
    if (!value.is<int>()) throw BadRecord{fmt::format("\"{}\" is not an integer", key)};
    return value.as<int>();
}

std::optional<base::Time> time_member(const Json& object, std::string_view key) {
    if (member(object, key).is_null()) return std::nullopt;
    const auto time = base::from_iso8601(text_member(object, key));
    if (!time) throw BadRecord{fmt::format("\"{}\" is not a time", key)};
    return time;
}

base::Time required_time(const Json& object, std::string_view key) {
    const auto time = time_member(object, key);
    if (!time) throw BadRecord{fmt::format("\"{}\" is null", key)};
    return *time;
}

const Json& array_member(const Json& object, std::string_view key) {
    const Json& value = member(object, key);
    if (!value.is_array()) throw BadRecord{fmt::format("\"{}\" is not an array", key)};
    return value;
}

Failure read_failure(const Json& object) {
    Failure failure;
    failure.code = text_member(object, "code");
    failure.message = text_member(object, "message");
    failure.phase = text_member(object, "phase");
    failure.node = text_member(object, "node");
    failure.rank = number_member(object, "rank");
    failure.signal = number_member(object, "signal");
    failure.exit_code = number_member(object, "exitCode");
    failure.first_error_line = text_member(object, "firstErrorLine");
    return failure;
}

std::vector<std::string> names_member(const Json& object, std::string_view key) {
    std::vector<std::string> names;
    for (const Json& name : array_member(object, key).array_range())
        names.push_back(name.as<std::string>());
    return names;
}

Attempt read_attempt(const Json& document) {
    if (text_member(document, "schema") != schema)
        throw BadRecord{fmt::format("\"schema\" is not \"{}\"", schema)};
    Attempt attempt;
    attempt.number = number_member(document, "attempt").value_or(0);
    attempt.slurm_job_id = text_member(document, "slurmJobId");
    attempt.nodes = names_member(document, "nodes");
    attempt.start = required_time(document, "start");
    attempt.end = time_member(document, "end");
    attempt.exit_code = number_member(document, "exitCode");
    for (const Json& entry : array_member(document, "phases").array_range()) {
        Phase phase{text_member(entry, "name"), required_time(entry, "start"),
                    time_member(entry, "end"), number_member(entry, "exitCode").value_or(0)};
        attempt.phases.push_back(std::move(phase));
    }
    // Records of version 0.1.0 have none.
    if (document.contains("restarts")) {
        for (const Json& entry : array_member(document, "restarts").array_range())
            attempt.restarts.push_back({required_time(entry, "time"), names_member(entry, "nodes"),
                                        read_failure(member(entry, "failure"))});
    }
    const Json& failure = member(document, "failure");
    if (!failure.is_null()) attempt.failure = read_failure(failure);
    return attempt;
}

}  // namespace

std::string to_json(const Attempt& attempt) {
    Json out(jsoncons::json_object_arg);
    out["schema"] = std::string(schema);
    out["attempt"] = attempt.number;
    out["slurmJobId"] = attempt.slurm_job_id;
    out["nodes"] = attempt.nodes;
    out["start"] = base::to_iso8601(attempt.start);
    out["end"] = time_or_null(attempt.end);
    out["exitCode"] = or_null(attempt.exit_code);
    Json phases(jsoncons::json_array_arg);
    for (const Phase& phase : attempt.phases)
        phases.push_back(phase_json(phase));
    out["phases"] = std::move(phases);
    Json restarts(jsoncons::json_array_arg);
    for (const Restart& restart : attempt.restarts)
        restarts.push_back(restart_json(restart));
    out["restarts"] = std::move(restarts);
    out["failure"] = attempt.failure ? failure_json(*attempt.failure) : Json::null();
    std::string text;
    out.dump_pretty(text);
    return text + "\n";
}

base::Result<Attempt> attempt_from_json(std::string_view text) {
    try {
        return read_attempt(Json::parse(text));
    } catch (const BadRecord& error) {
        return base::fail("the attempt's record is damaged: " + error.what);
    } catch (const std::exception& error) {
        return base::fail(fmt::format("the attempt's record is damaged: {}", error.what()));
    }
}

std::string attempt_path(std::string_view job_directory, int number) {
    return fmt::format("{}/attempts/{}.json", job_directory, number);
}

base::Result<std::optional<Attempt>> latest_attempt(std::string_view job_directory) {
    const auto directory = std::filesystem::path(job_directory) / "attempts";
    int newest = -1;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
        const std::string name = entry.path().filename().string();
        int number = -1;
        const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), number);
        if (code == std::errc() && std::string_view(end) == ".json")
            newest = std::max(newest, number);
    }
    if (newest < 0) return std::optional<Attempt>();
    const std::string path = attempt_path(job_directory, newest);
    return base::read_file(path).and_then([&](const std::string& text) {
        return attempt_from_json(text)
            .map([](Attempt attempt) { return std::optional<Attempt>(std::move(attempt)); })
            .map_error([&](base::Error failed) {
                failed.where = path;
                return failed;
            });
    });
}

}  // namespace batchai::run
