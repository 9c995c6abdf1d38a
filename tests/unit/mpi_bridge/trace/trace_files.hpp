// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <jsoncons/json.hpp>
#include <stdlib.h>

namespace mpi_bridge::test {

// A directory that goes with the test.
class Directory {
  public:
    Directory() {
        std::string name = (std::filesystem::temp_directory_path() / "trace-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
        path_ = name;
    }
    ~Directory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

inline std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void put(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

// As a viewer would; throws when the file is not JSON.
inline jsoncons::ojson load(const std::string& path) {
    return jsoncons::ojson::parse(contents(path));
}

// Of all rows; fails the test where one begins and ends out of turn or goes back in time. Returns
// the number of activities that have no end.
inline std::size_t check_nesting(const jsoncons::ojson& events) {
    std::map<std::pair<int, int>, std::vector<std::string>> open;
    double last = 0;
    for (const auto& event : events.array_range()) {
        const std::string type = event["ph"].as<std::string>();
        if (type != "B" && type != "E") continue;
        const double time = event["ts"].as<double>();
        EXPECT_GE(time, last) << event;
        last = time;
        auto& row = open[{event["pid"].as<int>(), event["tid"].as<int>()}];
        const std::string name = event["name"].as<std::string>();
        if (type == "B") {
            row.push_back(name);
        } else if (row.empty() || row.back() != name) {
            ADD_FAILURE() << "an end out of turn: " << event;
        } else {
            row.pop_back();
        }
    }
    std::size_t left = 0;
    for (const auto& [where, row] : open)
        left += row.size();
    return left;
}

inline std::size_t count(const jsoncons::ojson& events, const std::string& type,
                         const std::string& name) {
    std::size_t found = 0;
    for (const auto& event : events.array_range()) {
        if (event["ph"] == type && event.contains("name") && event["name"] == name) ++found;
    }
    return found;
}

}  // namespace mpi_bridge::test
