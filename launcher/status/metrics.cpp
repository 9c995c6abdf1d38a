// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/metrics.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/record.hpp"
#include "record/ended_by.hpp"

namespace batchai::status {

namespace {

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\' || c == '"') out += '\\';
        if (c == '\n')
            out += "\\n";
        else
            out += c;
    }
    return out;
}

std::string sample_text(double value) {
    constexpr double largest_whole = 1e15;
    if (std::floor(value) == value && std::abs(value) < largest_whole)
        return fmt::format("{:.0f}", value);
    return fmt::format("{:.6g}", value);
}

}  // namespace

void MetricsText::begin(std::string name, std::string_view type, std::string_view help) {
    name_ = std::move(name);
    head_ = fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name_, help, type);
}

void MetricsText::add(const Labels& labels, double value, std::string_view suffix) {
    text_ += std::exchange(head_, {});
    std::string list;
    for (const auto& [key, text] : labels)
        list += fmt::format("{}{}=\"{}\"", list.empty() ? "" : ",", key, escaped(text));
    text_ += fmt::format("{}{}{{{}}} {}\n", name_, suffix, list, sample_text(value));
}

namespace {

// The sample_text of periods, and how long they took together.
struct Periods {
    double sum = 0;
    double count = 0;

    void add(double seconds) {
        sum += seconds;
        ++count;
    }
};

struct Sums {
    std::map<std::string_view, double> jobs;      // by state
    std::map<std::string_view, double> attempts;  // by cause of end
    double retries = 0;
    Periods queue;
    Periods preparation;
};

void add_attempts(base::Time creation_time, const std::vector<record::Attempt>& attempts,
                  Sums& sums) {
    std::optional<base::Time> waiting = creation_time;
    for (const record::Attempt& attempt : attempts) {
        // It is not known how long a job has waited after an attempt whose end nobody recorded.
        if (waiting) sums.queue.add(base::seconds_between(*waiting, attempt.start));
        waiting = attempt.end;
        for (const record::Phase& phase : attempt.phases) {
            if (phase.name == "preparation" && phase.end)
                sums.preparation.add(base::seconds_between(phase.start, *phase.end));
        }
        if (!attempt.end) continue;
        ++sums.attempts[base::word_of(attempt.ended_by.value_or(record::EndedBy::unknown))];
    }
}

Sums sums_of(const std::vector<JobMetrics>& jobs) {
    Sums sums;
    // A state or cause that no job has is 0, so that alerts and graphs know it.
    using slurm::ExecutionState;
    for (const auto state :
         {ExecutionState::queued, ExecutionState::running, ExecutionState::terminating,
          ExecutionState::succeeded, ExecutionState::failed})
        sums.jobs[slurm::to_string(state)] = 0;
    for (const auto& [word, by] : base::WordsOf<record::EndedBy>::words)
        sums.attempts[word] = 0;
    for (const JobMetrics& job : jobs) {
        ++sums.jobs[slurm::to_string(job.view.state)];
        sums.retries += job.retries;
        for (const auto& attempts : job.attempts)
            add_attempts(job.view.job.creation_time, attempts, sums);
    }
    return sums;
}

void write_sums(const Sums& sums, const std::string& user, MetricsText& out) {
    out.begin("batchai_jobs", "gauge", "Jobs that have a record, by state.");
    for (const auto& [state, count] : sums.jobs)
        out.add({{"user", user}, {"state", std::string(state)}}, count);
    out.begin("batchai_attempts", "gauge",
              "Attempts of these jobs that have ended, by who or what ended them.");
    for (const auto& [by, count] : sums.attempts)
        out.add({{"user", user}, {"ended_by", std::string(by)}}, count);
    out.begin("batchai_retries", "gauge", "How often these jobs were run again after a failure.");
    out.add({{"user", user}}, sums.retries);
    const auto periods = [&](const char* name, const char* help, const Periods& of) {
        out.begin(name, "summary", help);
        out.add({{"user", user}}, of.sum, "_sum");
        out.add({{"user", user}}, of.count, "_count");
    };
    periods("batchai_queue_seconds", "Time that attempts of these jobs waited before they began.",
            sums.queue);
    periods("batchai_preparation_seconds", "Time that the preparation of these jobs took.",
            sums.preparation);
}

// What a running job uses, on all of its nodes together.
struct Use {
    double cpu_seconds = 0;
    double memory = 0;
    double peak = 0;  // of the node that used the most
    double read = 0;
    double written = 0;
    double gpus = 0;
    double busy = 0;  // GPUs
    std::set<std::string> nodes;
};

Use use_of(const JobMetrics& job) {
    Use use;
    for (const record::NodeUsage& usage : job.usage) {
        if (usage.samples.empty()) continue;
        const record::UsageSample& last = usage.samples.back();
        use.cpu_seconds += last.cpu_seconds;
        use.read += static_cast<double>(last.read);
        use.written += static_cast<double>(last.written);
        use.peak = std::max(use.peak, static_cast<double>(last.peak));
        if (usage.ended) continue;
        use.nodes.insert(usage.node);
        use.memory += static_cast<double>(last.memory);
        for (const record::GpuUsage& gpu : last.gpus) {
            if (!gpu.busy) continue;
            ++use.gpus;
            use.busy += *gpu.busy / 100.0;
        }
    }
    return use;
}

struct Family {
    const char* name;
    const char* type;
    const char* help;
    std::optional<double> (*value)(const Use&);
};

constexpr std::array families{
    Family{"batchai_job_nodes", "gauge", "Nodes whose samples a running job has.",
           [](const Use& use) { return std::optional(static_cast<double>(use.nodes.size())); }},
    Family{"batchai_job_cpu_seconds_total", "counter",
           "CPU time of a running job in its present attempt.",
           [](const Use& use) { return std::optional(use.cpu_seconds); }},
    Family{"batchai_job_memory_bytes", "gauge", "Memory of a running job on all nodes together.",
           [](const Use& use) { return std::optional(use.memory); }},
    Family{"batchai_job_memory_peak_bytes", "gauge",
           "The most memory of a running job on one node until now.",
           [](const Use& use) { return std::optional(use.peak); }},
    Family{"batchai_job_read_bytes_total", "counter", "What a running job has read from storage.",
           [](const Use& use) { return std::optional(use.read); }},
    Family{"batchai_job_written_bytes_total", "counter",
           "What a running job has written to storage.",
           [](const Use& use) { return std::optional(use.written); }},
    Family{"batchai_job_gpu_busy_ratio", "gauge",
           "How busy the GPUs of a running job are on average, from 0 to 1.",
           [](const Use& use) {
               return use.gpus > 0 ? std::optional(use.busy / use.gpus) : std::nullopt;
           }},
};

}  // namespace

std::string metrics_text(const std::vector<JobMetrics>& jobs, const std::string& user) {
    MetricsText out;
    write_sums(sums_of(jobs), user, out);
    std::vector<std::pair<Labels, Use>> running;
    for (const JobMetrics& job : jobs) {
        if (job.usage.empty()) continue;
        const store::JobKey& key = job.view.job.key;
        running.emplace_back(Labels{{"user", user},
                                    {"group", key.group},
                                    {"workspace", key.workspace},
                                    {"experiment", key.experiment},
                                    {"job", key.job},
                                    {"slurm_job_id", job.view.job.slurm_job_id}},
                             use_of(job));
    }
    for (const Family& family : families) {
        out.begin(family.name, family.type, family.help);
        for (const auto& [labels, use] : running) {
            if (const auto value = family.value(use)) out.add(labels, *value);
        }
    }
    return out.text();
}

}  // namespace batchai::status
