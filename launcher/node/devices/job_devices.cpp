// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/devices/job_devices.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/text.hpp"
#include "node/devices/cdi_choice.hpp"
#include "slurm/client.hpp"

namespace batchai::node {

namespace {

constexpr const char* note_name = "devices";
constexpr std::size_t note_limit = 64UL << 10U;
// Of what the plugin waits for a sandbox; a controller that is slower keeps no job from starting.
constexpr std::chrono::seconds answer_deadline{10};

std::optional<std::string> read_note(const Root& place) {
    const base::FileDescriptor file = open_beneath(place.directory.get(), note_name, O_RDONLY);
    if (!file.valid()) return std::nullopt;
    std::string text(note_limit, '\0');
    const ssize_t count = read(file.get(), text.data(), text.size());
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return text;
}

void write_note(const Root& place, const std::string& text) {
    const base::FileDescriptor file =
        open_beneath(place.directory.get(), note_name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!file.valid() || write(file.get(), text.data(), text.size()) < 0) {
        // The next step asks again.
    }
}

slurm::DeviceIndices ask_slurm(const Root& place, const std::string& job_id, const Trace& trace) {
    const auto answer = slurm::Client(answer_deadline).devices(job_id);
    if (!answer) {
        trace.line("Slurm does not say which devices the job has, so the container shows all: " +
                   answer.error().text());
        return {};
    }
    const auto here = answer->find(node_name());
    slurm::DeviceIndices devices;
    if (here != answer->end()) devices = here->second;
    write_note(place, to_text(devices));
    return devices;
}

bool is_member_of(gid_t group) {
    if (getegid() == group) return true;
    std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, getgroups(0, nullptr))));
    const int count = getgroups(static_cast<int>(groups.size()), groups.data());
    groups.resize(static_cast<std::size_t>(std::max(0, count)));
    return std::find(groups.begin(), groups.end(), group) != groups.end();
}

}  // namespace

DeviceEdits devices_of_job(const CdiFiles& files, const Root& place, const std::string& job_id,
                           const Trace& trace) {
    for (const std::string& remark : files.remarks)
        trace.line(remark);
    slurm::DeviceIndices of_job;
    if (std::any_of(files.specs.begin(), files.specs.end(), has_choice)) {
        const auto note = read_note(place);
        of_job = note ? device_indices(*note) : ask_slurm(place, job_id, trace);
    }
    ChosenDevices chosen = choose_devices(files.specs, of_job);
    for (const std::string& remark : chosen.remarks)
        trace.line(remark);
    // Nobody but root can join a group; the user's own hold inside as outside.
    for (const gid_t group : chosen.edits.groups) {
        if (!is_member_of(group))
            trace.line(fmt::format(
                "devices of the container are for members of group {}, which the user is not",
                group));
    }
    return std::move(chosen.edits);
}

std::string to_text(const slurm::DeviceIndices& devices) {
    std::string text;
    for (const auto& [name, indices] : devices)
        text += fmt::format("{} {}\n", name, fmt::join(indices, " "));
    return text;
}

slurm::DeviceIndices device_indices(std::string_view text) {
    slurm::DeviceIndices devices;
    for (const std::string_view line : base::split(text, '\n')) {
        const auto words = base::split(line, ' ');
        for (std::size_t i = 1; i < words.size(); ++i) {
            int index = 0;
            const auto end = words[i].data() + words[i].size();
            if (std::from_chars(words[i].data(), end, index).ptr == end && !words[i].empty())
                devices[std::string(words.front())].push_back(index);
        }
    }
    return devices;
}

}  // namespace batchai::node
