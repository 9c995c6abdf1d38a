// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/culprit.hpp"

#include "base/file.hpp"

namespace batchai::run {

std::optional<std::pair<TaskEnd, std::string>> culprit(
    const std::vector<TaskEnd>& ends, const std::vector<std::string>& error_files) {
    std::optional<std::pair<TaskEnd, std::string>> best;
    int best_weight = 0;
    for (TaskEnd end : ends) {
        std::string said;
        if (end.task >= 0 && static_cast<std::size_t>(end.task) < error_files.size())
            said = base::read_file(error_files[static_cast<std::size_t>(end.task)]).value_or("");
        if (end.victim) {
            if (!aborted_the_step(said)) continue;
            end.signal.reset();
            end.exit_code.reset();
        }
        std::string line = first_error_line(said);
        const int weight = end.signal ? 3 : (blames_a_peer(line) ? 1 : 2);
        if (weight <= best_weight) continue;
        best_weight = weight;
        best = {end, std::move(line)};
    }
    return best;
}

int exit_code_of(const TaskEnd& end, int otherwise) {
    if (end.exit_code) return *end.exit_code;
    if (end.signal) return 128 + *end.signal;
    return otherwise;
}

int blame(record::Failure& failure, int step_code, std::string_view srun_messages,
          const std::vector<std::string>& error_files) {
    failure.exit_code = step_code;
    const auto found = culprit(bad_ends(srun_messages), error_files);
    if (!found) return step_code;
    const auto& [end, line] = *found;
    const int exit_code = exit_code_of(end, step_code);
    failure.node = end.node;
    failure.rank = end.task;
    failure.signal = end.signal;
    failure.exit_code = exit_code;
    failure.first_error_line = line;
    return exit_code;
}

}  // namespace batchai::run
