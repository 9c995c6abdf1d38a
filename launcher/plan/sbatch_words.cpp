// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/sbatch_words.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "job/schema/checks.hpp"
#include "job/schema/field_table.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::plan {

namespace {

enum class Value : std::uint8_t { none, optional, required };

struct Known {
    std::string_view name;
    Value value = Value::required;
    char letter = '\0';           // of the short option; zero: there is none
    std::string_view usual = {};  // the usual name of an option that has two

    [[nodiscard]] constexpr std::string_view usual_name() const {
        return usual.empty() ? name : usual;
    }
};

// The options of sbatch in Slurm 22.05 to 26.05, also those that it does not document, and those of
// batchai.so. A Slurm that does not have one of them refuses it.
constexpr std::array known_options{
    Known{"account", Value::required, 'A'},
    Known{"acctg-freq"},
    Known{"array", Value::required, 'a'},
    Known{"batch"},
    Known{"bb"},
    Known{"bbf"},
    Known{"begin", Value::required, 'b'},
    Known{"chdir", Value::required, 'D'},
    Known{"cluster", Value::required, '\0', "clusters"},
    Known{"cluster-constraint"},
    Known{"clusters", Value::required, 'M'},
    Known{"comment"},
    Known{"consolidate-segments", Value::none},
    Known{"constraint", Value::required, 'C'},
    Known{"container"},
    Known{"container-id"},
    Known{"container-type"},
    Known{"context"},
    Known{"contiguous", Value::none},
    Known{"core-spec", Value::required, 'S'},
    Known{"cores-per-socket"},
    Known{"cpu-freq"},
    Known{"cpus-per-gpu"},
    Known{"cpus-per-task", Value::required, 'c'},
    Known{"deadline"},
    Known{"delay-boot"},
    Known{"dependency", Value::required, 'd'},
    Known{"distribution", Value::required, 'm'},
    Known{"error", Value::required, 'e'},
    Known{"exclude", Value::required, 'x'},
    Known{"exclusive", Value::optional},
    Known{"export"},
    Known{"export-file"},
    Known{"external", Value::none},
    Known{"extra"},
    Known{"extra-node-info", Value::required, 'B'},
    Known{"get-user-env", Value::optional},
    Known{"gid"},
    Known{"gpu-bind"},
    Known{"gpu-freq"},
    Known{"gpus", Value::required, 'G'},
    Known{"gpus-per-node"},
    Known{"gpus-per-socket"},
    Known{"gpus-per-task"},
    Known{"gres"},
    Known{"gres-flags"},
    Known{"help", Value::none, 'h'},
    Known{"hint"},
    Known{"hold", Value::none, 'H'},
    Known{"ignore-container", Value::none},
    Known{"ignore-pbs", Value::none},
    Known{"input", Value::required, 'i'},
    Known{"job-image"},
    Known{"job-json"},
    Known{"job-name", Value::required, 'J'},
    Known{"kill-on-invalid-dep"},
    Known{"licenses", Value::required, 'L'},
    Known{"mail-type"},
    Known{"mail-user"},
    Known{"mcs-label"},
    Known{"mem"},
    Known{"mem-bind"},
    Known{"mem-per-cpu"},
    Known{"mem-per-gpu"},
    Known{"mem-update"},
    Known{"mincpus"},
    Known{"network"},
    Known{"nice", Value::optional},
    Known{"no-kill", Value::optional, 'k'},
    Known{"no-requeue", Value::none},
    Known{"nodefile", Value::required, 'F'},
    Known{"nodelist", Value::required, 'w'},
    Known{"nodes", Value::required, 'N'},
    Known{"ntasks", Value::required, 'n'},
    Known{"ntasks-per-core"},
    Known{"ntasks-per-gpu"},
    Known{"ntasks-per-node"},
    Known{"ntasks-per-socket"},
    Known{"ntasks-per-tres", Value::required, '\0', "ntasks-per-gpu"},
    Known{"oom-kill-step", Value::optional},
    Known{"open-mode"},
    Known{"output", Value::required, 'o'},
    Known{"overcommit", Value::none, 'O'},
    Known{"oversubscribe", Value::none, 's'},
    Known{"parsable", Value::none},
    Known{"partition", Value::required, 'p'},
    Known{"power"},
    Known{"prefer"},
    Known{"priority"},
    Known{"profile"},
    Known{"propagate", Value::optional},
    Known{"qos", Value::required, 'q'},
    Known{"quiet", Value::none, 'Q'},
    Known{"reboot", Value::none},
    Known{"requeue", Value::optional},
    Known{"reservation"},
    Known{"resources"},
    Known{"resv-ports", Value::optional},
    Known{"segment"},
    Known{"signal"},
    Known{"sockets-per-node"},
    Known{"spread-job", Value::none},
    Known{"spread-segments", Value::none},
    Known{"stepmgr", Value::none},
    Known{"switches"},
    Known{"tasks-per-node", Value::required, '\0', "ntasks-per-node"},
    Known{"test-only", Value::none},
    Known{"thread-spec"},
    Known{"threads-per-core"},
    Known{"time", Value::required, 't'},
    Known{"time-min"},
    Known{"tmp"},
    Known{"tres-bind"},
    Known{"tres-per-task"},
    Known{"uid"},
    Known{"usage", Value::none},
    Known{"use-min-nodes", Value::none},
    Known{"verbose", Value::none, 'v'},
    Known{"version", Value::none, 'V'},
    Known{"wait", Value::none, 'W'},
    Known{"wait-all-nodes"},
    Known{"wckey"},
    Known{"wrap"},
};

constexpr const char* place = "options after --";

tl::unexpected<base::Error> wrong(std::string what, std::string hint = {}) {
    return base::fail(std::move(what), place, std::move(hint), base::ExitCode::usage);
}

const Known* with_letter(char letter) {
    const auto* const found =
        std::find_if(known_options.begin(), known_options.end(),
                     [&](const Known& option) { return option.letter == letter; });
    return letter == '\0' || found == known_options.end() ? nullptr : found;
}

// Returns the option that a long name or a beginning of it stands for; null if it is none of ours.
base::Result<const Known*> with_name(std::string_view name) {
    std::vector<std::string> matches;
    const Known* match = nullptr;
    for (const Known& option : known_options) {
        if (option.name == name) return &option;
        if (!option.name.starts_with(name)) continue;
        match = &option;
        matches.push_back(fmt::format("--{}", option.name));
    }
    if (matches.size() > 1)
        return wrong(fmt::format("--{} is ambiguous", name),
                     fmt::format("write {}", fmt::join(matches, " or ")));
    return match;
}

bool is_option_name(std::string_view name) {
    return !name.empty() && name.front() != '-' &&
           std::all_of(name.begin(), name.end(), [](char c) {
               return base::is_letter(c) || base::is_digit(c) || c == '-' || c == '_' || c == '.';
           });
}

class Reader {
  public:
    explicit Reader(const std::vector<std::string>& words) : words_(words) {}

    base::Result<std::vector<SlurmOption>> read() {
        while (next_ < words_.size()) {
            const std::string& word = words_[next_++];
            const bool is_option = word.size() > 1 && word.starts_with('-') && word != "--";
            if (!is_option)
                return wrong(fmt::format("{} is not an option", job::quote(word)),
                             "write an option and its value in one word, as in --name=value");
            TRY(word.starts_with("--") ? long_option(word) : short_options(word));
        }
        return std::move(found_);
    }

  private:
    base::Result<void> long_option(std::string_view word) {
        const std::size_t equals = std::min(word.find('='), word.size());
        const std::string_view name = word.substr(2, equals - 2);
        if (!is_option_name(name))
            return wrong(fmt::format("{} is not an option", job::quote(word)));
        const bool has_value = equals < word.size();
        const std::string_view value = has_value ? word.substr(equals + 1) : std::string_view();
        const Known* const option = TRY(with_name(name));
        if (has_value && value.empty()) return wrong(fmt::format("--{} has an empty value", name));
        if (option == nullptr) return put(name, value);
        TRY(check_owner(*option, word));
        if (option->value == Value::none && has_value)
            return wrong(fmt::format("--{} takes no value", option->name));
        if (option->value == Value::required && !has_value)
            return put(option->usual_name(), TRY(next_word(option->name)));
        return put(option->usual_name(), value);
    }

    base::Result<void> short_options(std::string_view word) {
        for (std::size_t at = 1; at < word.size(); ++at) {
            const Known* const option = with_letter(word[at]);
            if (option == nullptr)
                return wrong(
                    fmt::format("sbatch has no option -{}", job::printable(word.substr(at, 1))),
                    "write the long name of the option");
            TRY(check_owner(*option, word));
            if (option->value == Value::none) {
                TRY(put(option->usual_name(), {}));
                continue;
            }
            const std::string_view rest = word.substr(at + 1);
            if (rest.empty() && option->value == Value::required)
                return put(option->usual_name(), TRY(next_word(option->name)));
            return put(option->usual_name(), rest);
        }
        return {};
    }

    static base::Result<void> check_owner(const Known& option, std::string_view word) {
        for (const job::RefusedKey& refused : job::slurm_object.refused) {
            if (refused.name != option.usual_name() || refused.only_in_file) continue;
            return wrong(fmt::format("{} (--{}) cannot be given to a job of this program",
                                     job::quote(word), option.name),
                         std::string(refused.instead));
        }
        return {};
    }

    base::Result<std::string_view> next_word(std::string_view name) {
        if (next_ == words_.size() || words_[next_].empty())
            return wrong(fmt::format("--{} has no value", name));
        return std::string_view(words_[next_++]);
    }

    base::Result<void> put(std::string_view name, std::string_view value) {
        // A plan is JSON in UTF-8.
        if (!job::is_utf8(value) ||
            (!value.empty() && job::check_text(job::Check::path, value).has_value()))
            return wrong(
                fmt::format("the value of --{} has a control character, or is not UTF-8", name));
        std::erase_if(found_, [&](const SlurmOption& option) { return option.name == name; });
        found_.push_back({.name = std::string(name),
                          .value = std::string(value),
                          .origin = Origin::sbatch_words});
        return {};
    }

    const std::vector<std::string>& words_;
    std::size_t next_ = 0;
    std::vector<SlurmOption> found_;
};

}  // namespace

base::Result<std::vector<SlurmOption>> read_sbatch_words(const std::vector<std::string>& words) {
    return Reader(words).read();
}

}  // namespace batchai::plan
