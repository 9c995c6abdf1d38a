// SPDX-License-Identifier: GPL-2.0-or-later
// What users give to --job-json and --job-image reaches the plugin through Slurm, and what the
// admin writes into plugstack.conf reaches it in slurmd as root. Each line of the input is one of
// these: an option begins with "json ", "image " or "ignore", and all other lines are arguments of
// plugstack.conf.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spank/options.hpp"
#include "spank/protocol.h"
#include "tests/fuzz/promise.hpp"
#include "tests/spank/fake_slurm.hpp"

namespace {

using batchai::fuzz::promise;

void give(const std::string& option, const char* value) {
    spank_option& registered = fake::slurm().registered.at(option);
    static_cast<void>(registered.cb(registered.val, value, 0));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fake::slurm() = fake::Slurm();
    batchai::spank::register_options(nullptr);
    std::vector<std::string> arguments;
    std::string_view text(reinterpret_cast<const char*>(data), size);
    while (!text.empty()) {
        const std::string line(text.substr(0, text.find('\n')));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        if (line.rfind("json ", 0) == 0) {
            give("job-json", line.c_str() + 5);
        } else if (line.rfind("image ", 0) == 0) {
            give("job-image", line.c_str() + 6);
        } else if (line == "ignore") {
            give("ignore-container", nullptr);
        } else {
            arguments.push_back(line);
        }
    }
    const auto& options = batchai::spank::options();
    promise(options.job_json.size() < BATCHAI_PATH_LIMIT);
    promise(options.job_image.size() < BATCHAI_PATH_LIMIT);

    std::vector<char*> pointers;
    for (std::string& argument : arguments)
        pointers.push_back(argument.data());
    const auto settings =
        batchai::spank::read_settings(static_cast<int>(pointers.size()), pointers.data());
    promise(settings.timeout_seconds >= 1 && settings.timeout_seconds <= 3600);
    return 0;
}
