// SPDX-License-Identifier: Apache-2.0
#include "trace/timeline_text.hpp"

#include <gtest/gtest.h>

#include "trace_files.hpp"

namespace mpi_bridge {
namespace {

using std::chrono::nanoseconds;

class TimelineTextTest : public testing::Test {
  protected:
    TimelineTextTest() : text_(origin()) { text_.add_header(); }

    static TimelineOrigin origin() {
        TimelineOrigin origin;
        origin.rank = 3;
        origin.size = 4;
        origin.host = "node\"1";
        origin.boot = "b";
        origin.steady = Clock::time_point(nanoseconds(5000));
        origin.realtime_ns = 1'700'000'000'000'000'000;
        return origin;
    }

    // Nanoseconds after the start.
    void add(EventType type, Phase phase, int time, std::string_view tensor = "t", int set = 0) {
        Event event;
        event.type = type;
        event.phase = phase;
        event.process_set = set;
        event.time = Clock::time_point(nanoseconds(5000 + time));
        event.text = tensor;
        text_.add(event);
    }
    void begin(Phase phase, int time) { add(EventType::begin, phase, time); }
    void end(Phase phase, int time) { add(EventType::end, phase, time); }

    [[nodiscard]] jsoncons::ojson events() const {
        return jsoncons::ojson::parse('[' + text_.text() + ']');
    }
    // "B NEGOTIATE_ALLREDUCE, E NEGOTIATE_ALLREDUCE": without metadata.
    [[nodiscard]] std::string told() const {
        std::string list;
        const auto all = events();
        for (const auto& event : all.array_range()) {
            const auto type = event["ph"].as<std::string>();
            if (type == "M") continue;
            list += (list.empty() ? "" : ", ") + type + ' ' + event["name"].as<std::string>();
        }
        return list;
    }

    TimelineText text_;
};

TEST_F(TimelineTextTest, TheHeaderTellsRankHostAndClock) {
    const auto all = events();
    EXPECT_EQ(all[0]["name"], "clock");
    EXPECT_EQ(all[0]["args"]["rank"], 3);
    EXPECT_EQ(all[0]["args"]["size"], 4);
    EXPECT_EQ(all[0]["args"]["host"], "node\"1");
    EXPECT_EQ(all[0]["args"]["boot"], "b");
    EXPECT_EQ(all[0]["args"]["steady_ns"].as<std::int64_t>(), 5000);
    EXPECT_EQ(all[0]["args"]["realtime_ns"].as<std::int64_t>(), 1'700'000'000'000'000'000);
    EXPECT_EQ(all[1]["name"], "process_name");
    EXPECT_EQ(all[1]["pid"], 3);
    EXPECT_EQ(all[1]["args"]["name"], "rank 3 (node\"1)");
}

TEST_F(TimelineTextTest, AnOperationIsToldInHorovodsWords) {
    begin(Phase::negotiate, 1);
    end(Phase::negotiate, 2);
    begin(Phase::operation, 3);
    begin(Phase::queue, 4);
    end(Phase::queue, 5);
    begin(Phase::memcpy_in_fusion_buffer, 6);
    end(Phase::memcpy_in_fusion_buffer, 7);
    begin(Phase::shm, 8);
    end(Phase::shm, 9);
    end(Phase::operation, 10);
    EXPECT_EQ(told(),
              "B NEGOTIATE_ALLREDUCE, E NEGOTIATE_ALLREDUCE, B ALLREDUCE, B QUEUE, E QUEUE, "
              "B MEMCPY_IN_FUSION_BUFFER, E MEMCPY_IN_FUSION_BUFFER, B SHM_ALLREDUCE, "
              "E SHM_ALLREDUCE, E ALLREDUCE");
}

TEST_F(TimelineTextTest, TimesAreMicrosecondsSinceTheStart) {
    begin(Phase::operation, 1234567);
    EXPECT_EQ(events()[5]["ts"].as<double>(), 1234.567);
    add(EventType::begin, Phase::queue, -1);
    EXPECT_EQ(events()[6]["ts"].as<double>(), 0);
}

TEST_F(TimelineTextTest, WhatIsOpenInsideEndsWithItsHolder) {
    begin(Phase::operation, 1);
    begin(Phase::ucx, 2);
    end(Phase::operation, 3);
    EXPECT_EQ(told(), "B ALLREDUCE, B UCX_ALLREDUCE, E UCX_ALLREDUCE, E ALLREDUCE");
}

TEST_F(TimelineTextTest, AnEndWithoutBeginningIsLeftOut) {
    end(Phase::operation, 1);
    begin(Phase::operation, 2);
    end(Phase::queue, 3);
    end(Phase::operation, 4);
    EXPECT_EQ(told(), "B ALLREDUCE, E ALLREDUCE");
}

TEST_F(TimelineTextTest, AnOutermostBeginningEndsWhatTheRowHasOpen) {
    begin(Phase::negotiate, 1);
    begin(Phase::operation, 2);
    begin(Phase::queue, 3);
    begin(Phase::negotiate, 4);
    EXPECT_EQ(told(),
              "B NEGOTIATE_ALLREDUCE, E NEGOTIATE_ALLREDUCE, B ALLREDUCE, B QUEUE, E QUEUE, "
              "E ALLREDUCE, B NEGOTIATE_ALLREDUCE");
}

TEST_F(TimelineTextTest, RowsAreOneForEachTensorAndProcessSet) {
    add(EventType::begin, Phase::operation, 1, "a");
    add(EventType::begin, Phase::operation, 2, "b");
    add(EventType::begin, Phase::operation, 3, "a", 2);
    add(EventType::end, Phase::operation, 4, "a");
    add(EventType::begin, Phase::control_round, 5, "");
    std::map<std::string, int> row_of;
    std::vector<int> rows;
    const auto all = events();
    for (const auto& event : all.array_range()) {
        if (event["name"] == "thread_name") {
            row_of[event["args"]["name"].as<std::string>()] = event["tid"].as<int>();
        } else if (event["ph"] != "M") {
            rows.push_back(event["tid"].as<int>());
        }
    }
    EXPECT_EQ(row_of, (std::map<std::string, int>{
                          {"engine", 0}, {"a", 1}, {"b", 2}, {"a (process set 2)", 3}}));
    EXPECT_EQ(rows, (std::vector<int>{1, 2, 3, 1, 0}));
}

TEST_F(TimelineTextTest, DetailsAreShownWhereTheyAreGiven) {
    Event event;
    event.type = EventType::begin;
    event.text = "t";
    event.time = origin().steady;
    event.details = {1024, MPIB_FLOAT32, 2, 7};
    text_.add(event);
    EXPECT_EQ(events()[5]["args"].to_string(),
              R"({"bytes":1024,"dtype":"float32","bucket":2,"epoch":7})");
    event.details = {};
    event.phase = Phase::queue;
    text_.add(event);
    EXPECT_EQ(events()[6]["args"].to_string(), "{}");
    event.details.datatype = 99;
    text_.add(event);
    EXPECT_EQ(events()[7]["args"].to_string(), R"({"dtype":"unknown"})");
}

TEST_F(TimelineTextTest, FailuresTicksMarksAndDeviceWorkAreShown) {
    begin(Phase::operation, 0);
    Event event;
    event.time = origin().steady + nanoseconds(1000);
    event.text = "t";
    event.type = EventType::tick;
    event.rank = 2;
    text_.add(event);
    event.type = EventType::end;
    event.ok = false;
    text_.add(event);
    event.type = EventType::mark;
    event.text = "plan made";
    text_.add(event);
    event.type = EventType::device;
    event.text = "t";
    event.phase = Phase::nccl;
    event.duration = nanoseconds(1500);
    text_.add(event);
    text_.add_dropped(5, event.time);
    const auto all = events();
    std::string list;
    for (const auto& one : all.array_range()) {
        if (one["ph"] != "M") list += one.to_string() + '\n';
    }
    EXPECT_EQ(
        list,
        R"({"ph":"B","pid":3,"tid":1,"ts":0.0,"name":"ALLREDUCE","args":{}})"
        "\n"
        R"({"ph":"i","pid":3,"tid":1,"ts":1.0,"name":"2","s":"t","args":{"rank":2}})"
        "\n"
        R"({"ph":"E","pid":3,"tid":1,"ts":1.0,"name":"ALLREDUCE","args":{"failed":true}})"
        "\n"
        R"({"ph":"i","pid":3,"tid":0,"ts":1.0,"name":"plan made","s":"p","args":{}})"
        "\n"
        R"({"ph":"X","pid":3,"tid":2,"ts":1.0,"name":"NCCL_ALLREDUCE","dur":1.5,"args":{}})"
        "\n"
        R"({"ph":"i","pid":3,"tid":0,"ts":1.0,"name":"events dropped","s":"p","args":{"count":5}})"
        "\n");
}

TEST_F(TimelineTextTest, NamesMayBeAnyBytes) {
    add(EventType::begin, Phase::operation, 1, std::string_view("\"\\\n\0\xFF", 5));
    EXPECT_EQ(events()[3]["args"]["name"].as<std::string>(),
              std::string("\"\\\n\0\xEF\xBF\xBD", 7));
}

}  // namespace
}  // namespace mpi_bridge
