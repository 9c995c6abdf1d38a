// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/page/chart.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/record.hpp"
#include "job/syntax/utf8.hpp"
#include "record/ended_by.hpp"
#include "status/page/axis.hpp"

namespace batchai::status {

namespace {

constexpr int least_width = 40;
constexpr int most_width = 240;
constexpr std::size_t longest_name = 20;
constexpr std::size_t most_chart_rows = 64;
constexpr int cells_of_a_tick = 14;

constexpr char failed_letter = 'X';
constexpr char open_letter = '>';

// Text of others is made safe before its length counts.
std::string name_of(const std::string& node) {
    const std::string safe = job::printable(node);
    std::string out;
    std::size_t characters = 0;
    for (std::size_t at = 0; at < safe.size() && characters < longest_name; ++characters) {
        const std::size_t length = std::max<std::size_t>(1, job::utf8_sequence(safe, at));
        out += safe.substr(at, length);
        at += length;
    }
    return out;
}

std::size_t text_width(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

// One letter for each cell.
std::string cells_of(const NodeRow& row, const AttemptBars& attempt, int width) {
    std::string cells(static_cast<std::size_t>(width), ' ');
    const double seconds = std::max(attempt.seconds(), 1e-6);
    const auto cell = [&](base::Time time) {
        const double part = seconds_between(attempt.begin, time) / seconds;
        return std::clamp(static_cast<int>(part * width), 0, width - 1);
    };
    std::vector<const Bar*> bars;
    for (const Bar& bar : row.bars)
        bars.push_back(&bar);
    // The short ones come last, so that each has a cell.
    std::stable_sort(bars.begin(), bars.end(), [](const Bar* a, const Bar* b) {
        return a->end - a->begin > b->end - b->begin;
    });
    for (const Bar* const bar : bars) {
        const int first = cell(bar->begin);
        const int last = std::max(first, cell(bar->end) - (bar->end == attempt.end ? 0 : 1));
        for (int i = first; i <= last; ++i)
            cells[static_cast<std::size_t>(i)] = look_of(bar->phase).letter;
        if (bar->failed) cells[static_cast<std::size_t>(last)] = failed_letter;
        if (bar->open) cells[static_cast<std::size_t>(last)] = open_letter;
    }
    return cells;
}

class Chart {
  public:
    Chart(const Facts& facts, const ChartStyle& style) : facts_(facts), style_(style) {
        style_.width = std::clamp(style_.width, least_width, most_width);
    }

    std::string take(const std::vector<AttemptBars>& attempts) {
        for (std::size_t i = 0; i < attempts.size(); ++i) {
            if (i > 0) out_ += '\n';
            add(attempts[i], facts_.attempts[i]);
        }
        if (!attempts.empty()) add_legend(attempts);
        return std::move(out_);
    }

  private:
    void add(const AttemptBars& attempt, const record::Attempt& record) {
        out_ += fmt::format("attempt {}: {} UTC, {}{}\n", attempt.number, time_text(attempt.begin),
                            duration_text(attempt.seconds()), ending_of(attempt, record));
        names_ = 0;
        for (const NodeRow& row : attempt.rows)
            names_ = std::max(names_, text_width(name_of(row.node)));
        // Rows of several nodes have a longer name.
        names_ = std::min<std::size_t>(std::max<std::size_t>(names_, 12),
                                       static_cast<std::size_t>(style_.width) / 3);
        cells_ = style_.width - static_cast<int>(names_) - 3;
        add_rows(attempt);
        add_axis(attempt);
    }

    static std::string ending_of(const AttemptBars& attempt, const record::Attempt& record) {
        if (attempt.open) return ", running";
        const auto by = record.ended_by.value_or(record::EndedBy::unknown);
        std::string text = fmt::format(", ended by {}", base::word_of(by));
        if (record.exit_code) text += fmt::format(", exit code {}", *record.exit_code);
        return text;
    }

    // Neighbours that look the same share a row.
    void add_rows(const AttemptBars& attempt) {
        std::size_t shown = 0;
        for (std::size_t i = 0; i < attempt.rows.size();) {
            const std::string cells = cells_of(attempt.rows[i], attempt, cells_);
            std::size_t next = i + 1;
            while (next < attempt.rows.size() &&
                   cells_of(attempt.rows[next], attempt, cells_) == cells)
                ++next;
            if (shown++ == most_chart_rows) {
                out_ += fmt::format("and {} more nodes\n", attempt.rows.size() - i);
                return;
            }
            std::string name = name_of(attempt.rows[i].node);
            if (next - i > 1)
                name += fmt::format("{}{}", next - i == 2 ? ", " : " to ",
                                    name_of(attempt.rows[next - 1].node));
            add_row(std::move(name), cells);
            i = next;
        }
    }

    void add_row(std::string name, const std::string& cells) {
        while (text_width(name) > names_ && !name.empty()) {
            while ((static_cast<unsigned char>(name.back()) & 0xC0U) == 0x80U)
                name.pop_back();
            name.pop_back();
        }
        out_ += name + std::string(names_ - text_width(name), ' ');
        out_ += style_.utf8 ? " │" : " |";
        for (std::size_t i = 0; i < cells.size();) {
            std::size_t end = i;
            while (end < cells.size() && cells[end] == cells[i])
                ++end;
            add_cells(cells[i], end - i);
            i = end;
        }
        if (!style_.colour) out_.erase(out_.find_last_not_of(' ') + 1);
        out_ += '\n';
    }

    void add_cells(char letter, std::size_t count) {
        if (!style_.colour || letter == ' ') {
            out_ += std::string(count, letter);
            return;
        }
        const bool sign = letter == failed_letter || letter == open_letter;
        int colour = letter == failed_letter ? 1 : PhaseLook{}.colour;
        for (const PhaseLook& known : phase_looks()) {
            if (known.letter == letter) colour = known.colour;
        }
        out_ += fmt::format("\x1b[3{}m", colour);
        for (std::size_t i = 0; i < count; ++i)
            out_ += style_.utf8 && !sign ? "█" : std::string(1, letter);
        out_ += "\x1b[0m";
    }

    void add_axis(const AttemptBars& attempt) {
        const double seconds = std::max(attempt.seconds(), 1e-6);
        std::string marks;
        std::string texts(static_cast<std::size_t>(cells_), ' ');
        std::vector<bool> marked(static_cast<std::size_t>(cells_), false);
        for (const Tick& tick : ticks_of(seconds, std::max(1, cells_ / cells_of_a_tick))) {
            const auto at = static_cast<std::size_t>(
                std::clamp(static_cast<int>(tick.seconds / seconds * cells_), 0, cells_ - 1));
            if (at + tick.text.size() > texts.size()) continue;
            marked[at] = true;
            texts.replace(at, tick.text.size(), tick.text);
        }
        for (const bool mark : marked) {
            if (style_.utf8)
                marks += mark ? "┬" : "─";
            else
                marks += mark ? '+' : '-';
        }
        const std::string margin(names_ + 1, ' ');
        texts.erase(texts.find_last_not_of(' ') + 1);
        out_ += margin + (style_.utf8 ? "└" : "+") + marks + '\n';
        out_ += margin + ' ' + texts + '\n';
    }

    void add_legend(const std::vector<AttemptBars>& attempts) {
        std::vector<std::string> phases;
        bool failed = false;
        bool open = false;
        for (const AttemptBars& attempt : attempts) {
            for (const NodeRow& row : attempt.rows) {
                for (const Bar& bar : row.bars) {
                    failed = failed || bar.failed;
                    open = open || bar.open;
                    const std::string name(look_of(bar.phase).name);
                    if (std::find(phases.begin(), phases.end(), name) == phases.end())
                        phases.push_back(name);
                }
            }
        }
        out_ += '\n';
        std::size_t column = 0;
        const auto entry = [&](char letter, std::string_view text) {
            const std::size_t length = text.size() + 4;
            if (column > 0 && column + length > static_cast<std::size_t>(style_.width)) {
                out_ += '\n';
                column = 0;
            }
            if (column > 0) out_ += "  ";
            add_cells(letter, 1);
            out_ += fmt::format(" {}", text);
            column += length;
        };
        for (const std::string& phase : phases)
            entry(look_of(phase).letter, phase);
        if (failed) entry(failed_letter, "failed");
        if (open) entry(open_letter, "runs");
        out_ += '\n';
    }

    const Facts& facts_;
    ChartStyle style_;
    std::string out_;
    std::size_t names_ = 0;
    int cells_ = 0;
};

}  // namespace

std::string chart_of(const Facts& facts, const std::vector<AttemptBars>& attempts,
                     const ChartStyle& style) {
    return Chart(facts, style).take(attempts);
}

}  // namespace batchai::status
