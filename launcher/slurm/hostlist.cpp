// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/hostlist.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::slurm {

namespace {

using base::Result;

tl::unexpected<base::Error> malformed(std::string_view expression) {
    return base::fail(fmt::format("\"{}\" is not a host list", expression), "Slurm's answer");
}

tl::unexpected<base::Error> too_many(std::size_t limit) {
    return base::fail(fmt::format("a host list names more than {} hosts", limit), "Slurm's answer");
}

// Expands "1-3,07" to "1", "2", "3", "07".
Result<std::vector<std::string>> expand_ranges(std::string_view ranges, std::size_t limit) {
    std::vector<std::string> out;
    for (const std::string_view part : base::split(ranges, ',')) {
        const std::size_t dash = part.find('-');
        const std::string_view low_text = part.substr(0, dash);
        const auto low = base::number_in<std::size_t>(low_text);
        const auto high = dash == std::string_view::npos
                              ? low
                              : base::number_in<std::size_t>(part.substr(dash + 1));
        if (!low || !high || *high < *low) return malformed(ranges);
        if (*high - *low >= limit - std::min(limit, out.size())) return too_many(limit);
        for (std::size_t value = *low; value <= *high; ++value)
            out.push_back(fmt::format("{:0{}}", value, low_text.size()));
    }
    return out;
}

// Expands one element of the form prefix[ranges]middle[ranges]suffix.
Result<void> expand_element(std::string_view element, std::size_t limit,
                            std::vector<std::string>& into) {
    std::vector<std::string> names{""};
    std::string_view rest = element;
    while (!rest.empty()) {
        const std::size_t open = rest.find('[');
        const std::string_view plain = rest.substr(0, open);
        if (plain.find(']') != std::string_view::npos) return malformed(element);
        for (std::string& name : names)
            name += plain;
        if (open == std::string_view::npos) break;
        const std::size_t close = rest.find(']', open);
        if (close == std::string_view::npos) return malformed(element);
        auto values = TRY(expand_ranges(rest.substr(open + 1, close - open - 1), limit));
        if (values.size() > limit / names.size()) return too_many(limit);
        std::vector<std::string> longer;
        longer.reserve(names.size() * values.size());
        for (const std::string& name : names)
            for (const std::string& value : values)
                longer.push_back(name + value);
        names = std::move(longer);
        rest.remove_prefix(close + 1);
    }
    if (names.size() > limit - std::min(limit, into.size())) return too_many(limit);
    into.insert(into.end(), names.begin(), names.end());
    return {};
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view expression, std::size_t limit) {
    std::vector<std::string> names;
    expression = base::trim(expression);
    if (expression.empty() || expression == "(null)") return names;
    std::size_t start = 0;
    int depth = 0;
    for (std::size_t i = 0; i <= expression.size(); ++i) {
        const char c = i < expression.size() ? expression[i] : ',';
        if (c == '[') ++depth;
        if (c == ']') --depth;
        if (depth < 0 || depth > 1) return malformed(expression);
        if (static_cast<unsigned char>(c) <= ' ') return malformed(expression);
        if (c != ',' || (depth > 0 && i < expression.size())) continue;
        if (depth != 0 || i == start) return malformed(expression);
        TRY(expand_element(expression.substr(start, i - start), limit, names));
        start = i + 1;
    }
    return names;
}

}  // namespace batchai::slurm
