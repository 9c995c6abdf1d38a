// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/gpu_environment.hpp"

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstddef>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "spank/protocol.h"
#include "spank/stepd.hpp"

namespace batchai::spank {

namespace {

constexpr std::size_t list_limit = 4096;
constexpr std::size_t file_limit = 65536;
constexpr std::string_view blanks = " \t\r";

std::string_view without_blanks(std::string_view text) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(blanks)));
    return text.substr(0, text.find_last_not_of(blanks) + 1);
}

// Returns the beginning of a file; empty if it cannot be read. O_NONBLOCK keeps a FIFO from holding
// the task.
std::string beginning_of(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return {};
    std::string text(file_limit, '\0');
    const ssize_t count = read(file, text.data(), text.size());
    close(file);
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return text;
}

// NCCL reads the site's file, and the user's: that of NCCL_CONF_FILE, or else that in the home.
bool nccl_files_set(spank_t handle, std::string_view name) {
    std::string users = job_variable(handle, "NCCL_CONF_FILE", PATH_MAX);
    const std::string home = job_variable(handle, "HOME", PATH_MAX);
    if (users.empty() && !home.empty()) users = home + "/.nccl.conf";
    return (!users.empty() && sets_variable(beginning_of(users), name)) ||
           sets_variable(beginning_of("/etc/nccl.conf"), name);
}

}  // namespace

int count_devices(const std::string& gpus_on_node, const std::string& device_list) {
    int number = 0;
    const char* const end = gpus_on_node.data() + gpus_on_node.size();
    const auto [stop, error] = std::from_chars(gpus_on_node.data(), end, number);
    if (error == std::errc() && stop == end && number >= 0) return number;
    if (device_list.empty() || device_list == "NoDevFiles") return 0;
    return 1 + static_cast<int>(std::count(device_list.begin(), device_list.end(), ','));
}

int gpus_of_step(spank_t handle) {
    std::string list;
    for (const char* name : {"SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"}) {
        if (list.empty()) list = job_variable(handle, name, list_limit);
    }
    return count_devices(job_variable(handle, "SLURM_GPUS_ON_NODE", 16), list);
}

bool sees_one_gpu(spank_t handle) {
    return count_devices({}, job_variable(handle, "CUDA_VISIBLE_DEVICES", list_limit)) == 1;
}

std::string nccl_interface(spank_t handle) {
    const std::string interface =
        job_variable(handle, BATCHAI_NCCL_INTERFACE_VARIABLE, BATCHAI_INTERFACE_LIMIT);
    if (interface.empty() || gpus_of_step(handle) == 0 ||
        nccl_files_set(handle, "NCCL_SOCKET_IFNAME"))
        return {};
    return '=' + interface;
}

bool sets_variable(std::string_view text, std::string_view name) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        const std::size_t sign = line.find('=');
        if (sign != std::string_view::npos && without_blanks(line.substr(0, sign)) == name)
            return true;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return false;
}

}  // namespace batchai::spank
