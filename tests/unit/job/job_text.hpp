// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace batchai::job::test {

inline std::string read_data(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A whole, correct job file around some properties, which go to line 5 and after:
//   1 {
//   2   "properties": {
//   3     "nodeCount": 2, "stdOutErrPathPrefix": "logs",
//   4     "horovodSettings": {"pythonScriptFilePath": "a.py"},
//   5 <properties>
inline std::string with_properties(std::string_view properties) {
    return "{\n  \"properties\": {\n    \"nodeCount\": 2, \"stdOutErrPathPrefix\": \"logs\",\n"
           "    \"horovodSettings\": {\"pythonScriptFilePath\": \"a.py\"},\n" +
           std::string(properties) + "\n  }\n}\n";
}

// The same without the toolkit, and the properties on line 4.
inline std::string with_toolkit(std::string_view properties) {
    return "{\n  \"properties\": {\n    \"nodeCount\": 2, \"stdOutErrPathPrefix\": \"logs\",\n" +
           std::string(properties) + "\n  }\n}\n";
}

// The same as with_properties(), in an older version of the schema (on line 1).
inline std::string in_schema(std::string_view version, std::string_view properties) {
    return "{ \"$schema\": \"https://example.org/" + std::string(version) + "/job.json\",\n" +
           with_toolkit("\"cntkSettings\": {\"configFilePath\": \"c\"},\n" +
                        std::string(properties))
               .substr(2);
}

}  // namespace batchai::job::test
