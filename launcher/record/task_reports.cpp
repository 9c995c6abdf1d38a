// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/task_reports.hpp"

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/record.hpp"
#include "base/text.hpp"

namespace batchai::record {

namespace fs = std::filesystem;

std::string task_file(const fs::path& path, int task, std::string_view ending) {
    return fmt::format("{}.{}.{}", path.string(), task, ending);
}

namespace {

constexpr std::size_t report_limit = 1UL << 20U;

std::optional<std::string> text_of(const fs::path& path, int task, std::string_view ending) {
    if (path.empty()) return std::nullopt;
    const auto text = base::read_file(task_file(path, task, ending), report_limit);
    if (!text || base::trim(*text).empty()) return std::nullopt;
    return std::string(base::trim(*text));
}

template <typename Report>
base::Result<Report> read(const fs::path& path, int task, std::string_view schema) {
    const std::string file = task_file(path, task, "json");
    const std::string text = TRY(base::read_file(file, report_limit));
    auto report = base::from_record<Report>(text, schema);
    if (!report) report.error().where = file;
    return report;
}

}  // namespace

std::optional<std::string> refusal(const fs::path& path, int task) {
    return text_of(path, task, "txt");
}

base::Result<RankFailure> rank_failure(const fs::path& path, int task) {
    return read<RankFailure>(path, task, "mpi_bridge-failure/v1");
}

std::optional<WireUpReport> wire_up_report(const fs::path& path, int task) {
    if (path.empty()) return std::nullopt;
    auto report = read<WireUpReport>(path, task, "mpi_bridge-wireup/v1");
    return report ? std::optional(std::move(*report)) : std::nullopt;
}

std::optional<GpuReport> gpu_report(const fs::path& path, int task) {
    auto report = read<GpuReport>(path, task, "mpi_bridge-gpus/v1");
    return report ? std::optional(std::move(*report)) : std::nullopt;
}

std::optional<LinkReport> link_report(const fs::path& path, int task) {
    auto report = read<LinkReport>(path, task, "mpi_bridge-links/v1");
    return report ? std::optional(std::move(*report)) : std::nullopt;
}

namespace {

constexpr std::string_view health_schema = "batchai-health/v1";

}  // namespace

std::optional<HealthReport> health_report(const fs::path& path, int task) {
    auto report = read<HealthReport>(path, task, health_schema);
    return report ? std::optional(std::move(*report)) : std::nullopt;
}

base::Result<void> write_health_report(const fs::path& path, int task, const HealthReport& report) {
    return base::write_atomically(task_file(path, task, "json"),
                                  base::to_record(report, health_schema));
}

std::optional<std::string> why_no_wire_up(const fs::path& path, int task) {
    return text_of(path, task, "txt");
}

std::optional<std::string> bundle_in_use(const fs::path& path, int task) {
    return text_of(path, task, "bundle.json");
}

void forget_reports(const fs::path& path) {
    const std::string prefix = path.filename().string() + '.';
    std::error_code error;
    for (const auto& entry : base::entries_of(path.parent_path(), error)) {
        std::error_code ignored;
        if (entry.path().filename().string().starts_with(prefix)) fs::remove(entry, ignored);
    }
}

}  // namespace batchai::record
