// SPDX-License-Identifier: GPL-2.0-or-later
// The lines of the record: written from values, and read into them.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "record/usage.hpp"

namespace batchai::record {

namespace {

constexpr std::string_view usage_schema = "batchai-usage/v1";
// No line has more ranks or GPUs than this.
constexpr std::size_t most_items = 4096;

constexpr std::int64_t kibi = 1024;
constexpr std::int64_t mebi = 1024 * kibi;

std::int64_t in_units(std::int64_t bytes, std::int64_t unit) {
    return (bytes + unit / 2) / unit;
}

double seconds_since(base::Time start, base::Time time) {
    return std::max(0.0, std::chrono::duration<double>(time - start).count());
}

template <typename Number>
std::string or_dash(const std::optional<Number>& number, std::int64_t unit = 1) {
    return number ? std::to_string(in_units(*number, unit)) : "-";
}

}  // namespace

std::string usage_line(const UsageHead& head) {
    return fmt::format("{} start={} interval={} cpus={} memory={}{}\n", usage_schema,
                       base::to_iso8601(head.start), head.interval, head.cpus,
                       in_units(head.memory, mebi),
                       head.gpus == 0 ? std::string() : fmt::format(" gpus={}", head.gpus));
}

std::string usage_line(const UsageSample& sample, const UsageHead& head, SampleDetail detail) {
    const bool live = detail == SampleDetail::live;
    // The kernel counts CPU time in hundredths of a second, of which a short interval needs all.
    const int digits = live ? 2 : 1;
    std::string line =
        fmt::format("@{:.1f} cpu={:.{}f} mem={} peak={} thr={} io={},{} net={},{}",
                    seconds_since(head.start, sample.time), sample.cpu_seconds, digits,
                    in_units(sample.memory, mebi), in_units(sample.peak, mebi), sample.threads,
                    in_units(sample.read, kibi), in_units(sample.written, kibi),
                    in_units(sample.received, kibi), in_units(sample.sent, kibi));
    if (live) line += fmt::format(" rw={}", in_units(sample.copied, kibi));
    const char* before = " r=";
    int expected = -1;
    for (const RankUsage& rank : sample.ranks) {
        const std::string number = rank.rank == expected ? "" : std::to_string(rank.rank);
        line += fmt::format("{}{}:{:.{}f}:{}", std::exchange(before, ","), number, rank.cpu_seconds,
                            digits, in_units(rank.memory, mebi));
        expected = rank.rank + 1;
        if (live && rank.threads)
            line += fmt::format(":{}:{}:{}", *rank.threads, in_units(rank.read.value_or(0), kibi),
                                in_units(rank.written.value_or(0), kibi));
        // The rank that the others wait for may wait for some milliseconds in all.
        if (rank.waited) line += fmt::format(":{:.3f}:{}", *rank.waited, rank.meetings);
    }
    before = " g=";
    for (const GpuUsage& gpu : sample.gpus) {
        line += fmt::format("{}{}:{}:{}:{}:{}", std::exchange(before, ","), gpu.index,
                            or_dash(gpu.busy), or_dash(gpu.memory, mebi), or_dash(gpu.watts),
                            or_dash(gpu.mean_busy));
    }
    return line + '\n';
}

namespace {

// Reads the lines above. Whatever is wrong with a line makes it no line, because the file may be
// torn, of another version, or made by somebody who wants to harm the reader.

template <typename Number>
bool take(std::string_view text, Number& into, Number most) {
    const auto number = base::number_in<Number>(text);
    if (!number || *number < 0 || *number > most) return false;
    into = *number;
    return true;
}

bool take_seconds(std::string_view text, double& into) {
    constexpr double most = 1e12;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, into, std::chars_format::fixed);
    return error == std::errc() && stop == end && into >= 0 && into <= most;
}

bool take_units(std::string_view text, std::int64_t unit, std::int64_t& into) {
    if (!take(text, into, std::numeric_limits<std::int64_t>::max() / 4 / unit)) return false;
    into *= unit;
    return true;
}

bool take_number(std::string_view text, int& into) {
    return take(text, into, std::numeric_limits<int>::max() / 4);
}

// "-" stands for a number that is not known.
template <typename Number, typename Take>
bool take_known(std::string_view text, std::optional<Number>& into, const Take& take_it) {
    if (text == "-") return true;
    return take_it(text, into.emplace());
}

bool take_pair(std::string_view text, std::int64_t& first, std::int64_t& second) {
    const auto parts = base::split(text, ',');
    return parts.size() == 2 && take_units(parts[0], kibi, first) &&
           take_units(parts[1], kibi, second);
}

bool take_rank(std::string_view text, RankUsage& into, const RankUsage* before) {
    const auto parts = base::split(text, ':');
    if (parts.front().empty() && before != nullptr)
        into.rank = before->rank + 1;
    else if (!take_number(parts.front(), into.rank))
        return false;
    if (parts.size() < 3 || !take_seconds(parts[1], into.cpu_seconds) ||
        !take_units(parts[2], mebi, into.memory))
        return false;
    const auto take_waited = [&](std::size_t at) {
        return take_seconds(parts[at], into.waited.emplace()) &&
               take(parts[at + 1], into.meetings, std::numeric_limits<std::int64_t>::max());
    };
    if (parts.size() == 5) return take_waited(3);
    if (parts.size() < 6) return true;
    return take_number(parts[3], into.threads.emplace()) &&
           take_units(parts[4], kibi, into.read.emplace()) &&
           take_units(parts[5], kibi, into.written.emplace()) &&
           (parts.size() < 8 || take_waited(6));
}

bool take_gpu(std::string_view text, GpuUsage& into, const GpuUsage* /*before*/) {
    const auto parts = base::split(text, ':');
    const auto memory = [](std::string_view from, std::int64_t& to) {
        return take_units(from, mebi, to);
    };
    return parts.size() >= 4 && take_number(parts[0], into.index) &&
           take_known(parts[1], into.busy, take_number) &&
           take_known(parts[2], into.memory, memory) &&
           take_known(parts[3], into.watts, take_number) &&
           (parts.size() < 5 || take_known(parts[4], into.mean_busy, take_number));
}

template <typename Item>
bool take_items(std::string_view text, std::vector<Item>& into,
                bool (*take_item)(std::string_view, Item&, const Item*)) {
    const auto parts = base::split(text, ',');
    if (parts.size() > most_items) return false;
    for (const std::string_view part : parts) {
        Item item;
        if (!take_item(part, item, into.empty() ? nullptr : &into.back())) return false;
        into.push_back(item);
    }
    return true;
}

// Calls `take_pair` for each "key=value" of the line from word `first` on. A key that is not known
// is one of a later version.
template <typename Take>
bool for_each_pair(const std::vector<std::string_view>& words, const Take& take_word) {
    for (std::size_t i = 1; i < words.size(); ++i) {
        const std::size_t sign = words[i].find('=');
        if (sign == std::string_view::npos ||
            !take_word(words[i].substr(0, sign), words[i].substr(sign + 1)))
            return false;
    }
    return true;
}

std::optional<UsageHead> head_in(std::string_view line) {
    const auto words = base::split(line, ' ');
    if (words.front() != usage_schema) return std::nullopt;
    UsageHead head;
    bool has_start = false;
    const bool good = for_each_pair(words, [&](std::string_view key, std::string_view value) {
        if (key == "start") {
            const auto time = base::from_iso8601(value);
            if (time) head.start = *time;
            has_start = time.has_value();
            return has_start;
        }
        if (key == "interval") return take_number(value, head.interval);
        if (key == "cpus") return take_number(value, head.cpus);
        if (key == "memory") return take_units(value, mebi, head.memory);
        if (key == "gpus") return take_number(value, head.gpus);
        return true;
    });
    return good && has_start ? std::optional(head) : std::nullopt;
}

std::optional<UsageSample> sample_in(std::string_view line, const UsageHead& head) {
    const auto words = base::split(line, ' ');
    double seconds = 0;
    // A job that runs for 100 years is a damaged line.
    constexpr double longest = 100.0 * 366 * 24 * 3600;
    if (!words.front().starts_with('@') || !take_seconds(words.front().substr(1), seconds) ||
        seconds > longest)
        return std::nullopt;
    UsageSample sample;
    sample.time = head.start + std::chrono::microseconds(std::llround(seconds * 1e6));
    const bool good = for_each_pair(words, [&](std::string_view key, std::string_view value) {
        if (key == "cpu") return take_seconds(value, sample.cpu_seconds);
        if (key == "mem") return take_units(value, mebi, sample.memory);
        if (key == "peak") return take_units(value, mebi, sample.peak);
        if (key == "thr") return take_number(value, sample.threads);
        if (key == "io") return take_pair(value, sample.read, sample.written);
        if (key == "rw") return take_units(value, kibi, sample.copied);
        if (key == "net") return take_pair(value, sample.received, sample.sent);
        if (key == "r") return take_items(value, sample.ranks, take_rank);
        if (key == "g") return take_items(value, sample.gpus, take_gpu);
        return true;
    });
    return good ? std::optional(std::move(sample)) : std::nullopt;
}

// Keeps every second sample once there are too many, and so on.
class Thinned {
  public:
    explicit Thinned(std::size_t most) : most_(std::max<std::size_t>(most, 2)) {}

    void add(UsageSample sample) {
        if (skipped_ + 1 < step_) {
            ++skipped_;
            last_ = std::move(sample);
            return;
        }
        skipped_ = 0;
        last_.reset();
        if (samples_.size() + 1 >= most_) {
            std::size_t kept = 0;
            for (std::size_t i = 0; i < samples_.size(); i += 2)
                std::swap(samples_[kept++], samples_[i]);
            samples_.resize(kept);
            step_ *= 2;
        }
        samples_.push_back(std::move(sample));
    }
    void clear() { *this = Thinned(most_); }
    std::vector<UsageSample> take() {
        if (last_) samples_.push_back(std::move(*last_));
        return std::move(samples_);
    }

  private:
    std::size_t most_;
    std::size_t step_ = 1;
    std::size_t skipped_ = 0;
    std::vector<UsageSample> samples_;
    std::optional<UsageSample> last_;  // not in `samples_`
};

}  // namespace

NodeUsage usage_in(std::string_view text, std::size_t most) {
    NodeUsage usage;
    Thinned samples(most);
    std::optional<UsageHead> head;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        if (end == std::string_view::npos) break;  // it is still being written
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(end + 1);
        if (auto next = head_in(line)) {
            head = std::move(next);
            samples.clear();
            usage.ended = false;
        } else if (line == usage_end) {
            usage.ended = true;
        } else if (head) {
            if (auto sample = sample_in(line, *head)) samples.add(std::move(*sample));
        }
    }
    if (head) usage.head = *head;
    usage.samples = samples.take();
    return usage;
}

}  // namespace batchai::record
