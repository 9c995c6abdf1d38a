// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/job_accounts.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::slurm {

const std::string_view kJobAccountsFormat = "JobIDRaw,CPUTimeRAW,TotalCPU,MaxRSS";

namespace {

// Reads "[days-][hours:]minutes:seconds[.fraction]".
std::optional<double> seconds_in(std::string_view text) {
    double days = 0;
    if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
        const auto number = base::number_in<unsigned>(text.substr(0, dash));
        if (!number) return std::nullopt;
        days = *number;
        text.remove_prefix(dash + 1);
    }
    double seconds = 0;
    const auto parts = base::split(text, ':');
    if (parts.size() > 3) return std::nullopt;
    for (const std::string_view part : parts) {
        double number = 0;
        const char* const end = part.data() + part.size();
        const auto [stop, error] =
            std::from_chars(part.data(), end, number, std::chars_format::fixed);
        if (error != std::errc() || stop != end || !(number >= 0 && number < 1e9))
            return std::nullopt;
        seconds = seconds * 60 + number;
    }
    return days * 86400 + seconds;
}

// Reads "12345K", "1.5M", "0"; empty: nothing.
std::optional<std::int64_t> bytes_in(std::string_view text) {
    if (text.empty()) return std::nullopt;
    double unit = 1;
    for (const char letter : std::string_view("KMGT")) {
        unit *= 1024;
        if (text.back() != letter) continue;
        text.remove_suffix(1);
        double number = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] =
            std::from_chars(text.data(), end, number, std::chars_format::fixed);
        if (error != std::errc() || stop != end || !(number >= 0 && number * unit < 1e18))
            return std::nullopt;
        return static_cast<std::int64_t>(number * unit);
    }
    return base::number_in<std::int64_t>(text);
}

}  // namespace

base::Result<std::optional<JobAccounts>> parse_job_accounts(std::string_view text) {
    JobAccounts accounts;
    double of_steps = 0;
    bool found = false;
    for (const std::string_view line : base::split(text, '\n')) {
        if (line.empty()) continue;
        const auto fields = base::split(line, '|');
        const auto unreadable = [&] {
            return base::fail(fmt::format("cannot read a line of sacct: \"{}\"", line));
        };
        if (fields.size() != 4) return unreadable();
        const auto allocated = base::number_in<std::int64_t>(fields[1]);
        const auto used = seconds_in(fields[2]);
        if (!allocated || *allocated < 0 || !used) return unreadable();
        if (fields[0].find('.') == std::string_view::npos) {
            // A job that was requeued has several lines, of which the last is the newest.
            accounts.cpu_seconds_allocated = static_cast<double>(*allocated);
            accounts.cpu_seconds = *used;
            found = true;
        } else {
            of_steps += *used;
            if (const auto memory = bytes_in(fields[3]); memory && *memory > 0)
                accounts.largest_task = std::max(accounts.largest_task.value_or(0), *memory);
        }
    }
    accounts.cpu_seconds = std::max(accounts.cpu_seconds, of_steps);
    if (!found || accounts.cpu_seconds <= 0) return std::nullopt;
    return accounts;
}

}  // namespace batchai::slurm
