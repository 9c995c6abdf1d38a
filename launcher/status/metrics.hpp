// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/timestamp.hpp"
#include "record/attempt.hpp"
#include "record/usage.hpp"
#include "status/job_view.hpp"

// A user's jobs as metrics, in the text format of Prometheus. Pure.
namespace batchai::status {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Writes families of metrics. All samples of a family must be added before the next one begins.
class MetricsText {
  public:
    // `type` is "gauge", "counter" or "summary". A family without samples is not written.
    void begin(std::string name, std::string_view type, std::string_view help);
    // `suffix` is "_sum" or "_count" in a summary.
    void add(const Labels& labels, double value, std::string_view suffix = {});
    [[nodiscard]] const std::string& text() const { return text_; }

  private:
    std::string name_;
    std::string head_;
    std::string text_;
};

struct JobMetrics {
    JobView view;
    // Of each task of an array job; of another job, those of the job.
    std::vector<std::vector<record::Attempt>> attempts;
    int retries = 0;  // of all tasks together
    // Of a job that runs, the newest samples; also of the tasks that have ended.
    std::vector<record::NodeUsage> usage;
};

[[nodiscard]] std::string metrics_text(const std::vector<JobMetrics>& jobs,
                                       const std::string& user);

}  // namespace batchai::status
