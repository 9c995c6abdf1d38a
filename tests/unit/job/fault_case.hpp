// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "job/parse.hpp"

namespace batchai::job::test {

// A file with exactly one fault: where it is said to be, its code, and the whole text of the
// message ("message; hint").
struct FaultCase {
    const char* name;
    std::string text;
    std::size_t line;
    std::size_t column;
    std::size_t length;
    const char* code;
    const char* said;
};

inline std::ostream& operator<<(std::ostream& out, const FaultCase& c) {
    return out << c.name;
}

inline void expect_only_this_fault(const FaultCase& c) {
    const Parsed parsed = parse(c.text);
    SCOPED_TRACE(render_all(parsed.diagnostics, "job.json", c.text));
    ASSERT_EQ(parsed.diagnostics.size(), 1U);
    const Diagnostic& found = parsed.diagnostics.front();
    EXPECT_EQ(found.code, c.code);
    EXPECT_EQ(found.position.line, c.line);
    EXPECT_EQ(found.position.column, c.column);
    EXPECT_EQ(found.position.length, c.length);
    EXPECT_EQ(found.hint.empty() ? found.message : found.message + "; " + found.hint, c.said);
    EXPECT_EQ(parsed.spec.has_value(), found.severity == Severity::warning);
}

inline std::string case_name(const testing::TestParamInfo<FaultCase>& info) {
    return info.param.name;
}

}  // namespace batchai::job::test
