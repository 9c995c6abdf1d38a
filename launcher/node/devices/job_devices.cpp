// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/devices/job_devices.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/text.hpp"
#include "node/node_name.hpp"
#include "slurm/client.hpp"

namespace batchai::node {

namespace {

const CdiDevice* find_device(const CdiSpec& spec, std::string_view name) {
    const auto found = std::find_if(spec.devices.begin(), spec.devices.end(),
                                    [&](const CdiDevice& device) { return device.name == name; });
    return found == spec.devices.end() ? nullptr : &*found;
}

const CdiDevice* find_index(const CdiSpec& spec, int index) {
    const CdiDevice* const plain = find_device(spec, std::to_string(index));
    if (plain != nullptr) return plain;
    return find_device(spec, fmt::format("{}{}", spec.device_class(), index));
}

// Returns whether the device has a file like "/dev/nvidia3" for index 3. Files in subdirectories of
// /dev do not count, because they have numbers of their own.
bool has_file(const CdiDevice& device, int index) {
    return std::any_of(device.edits.nodes.begin(), device.edits.nodes.end(), [&](const Bind& node) {
        std::string_view name = node.source;
        if (!name.starts_with("/dev/") || name.find('/', 5) != std::string_view::npos) return false;
        name.remove_prefix(std::min(name.size(), name.find_last_not_of("0123456789") + 1));
        return name == std::to_string(index);
    });
}

// Returns the device that has the given index in Slurm. Slurm counts device files, but the vendor's
// tool may count in another order. So the number in the name of the device file decides if exactly
// one device has such a file. Otherwise the device's name decides.
const CdiDevice* device_of_slurm(const CdiSpec& spec, int index) {
    const CdiDevice* by_file = nullptr;
    const auto count = static_cast<int>(spec.devices.size());
    for (int i = 0; i < count; ++i) {
        const CdiDevice* const device = find_index(spec, i);
        if (device == nullptr || !has_file(*device, index)) continue;
        if (by_file != nullptr) return find_index(spec, index);
        by_file = device;
    }
    return by_file != nullptr ? by_file : find_index(spec, index);
}

std::vector<const CdiDevice*> all_devices(const CdiSpec& spec) {
    if (const CdiDevice* const all = find_device(spec, "all")) return {all};
    std::vector<const CdiDevice*> devices;
    for (const CdiDevice& device : spec.devices)
        devices.push_back(&device);
    return devices;
}

std::vector<const CdiDevice*> devices_of_job(const CdiSpec& spec,
                                             const slurm::DeviceIndices& of_job,
                                             std::vector<std::string>& remarks) {
    const auto given = of_job.find(spec.device_class());
    if (given == of_job.end() || given->second.empty() || !has_choice(spec))
        return all_devices(spec);
    std::vector<const CdiDevice*> devices;
    for (const int index : given->second) {
        const CdiDevice* const device = device_of_slurm(spec, index);
        if (device == nullptr) {
            remarks.push_back(fmt::format(
                "the job has {} {} of Slurm's, which the CDI files of {} do not name; the "
                "container shows all",
                spec.device_class(), index, spec.kind));
            return all_devices(spec);
        }
        devices.push_back(device);
    }
    return devices;
}

constexpr const char* devices_note = "devices";
constexpr std::size_t note_limit = 64UL << 10U;
// This is part of the plugin's timeout for a sandbox. If the controller takes longer, the job
// starts without its answer.
constexpr std::chrono::seconds answer_deadline{10};

std::optional<std::string> read_note(const base::Root& place) {
    const base::FileDescriptor file =
        base::open_beneath(place.directory.get(), devices_note, O_RDONLY);
    if (!file.valid()) return std::nullopt;
    std::string text(note_limit, '\0');
    const ssize_t count = read(file.get(), text.data(), text.size());
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return text;
}

// On a full file system there is no note, and not an empty one or a part of it: the next step asks
// again.
void write_note(const base::Root& place, const std::string& text) {
    const int directory = place.directory.get();
    const std::string fresh = fmt::format("{}.{}", devices_note, base::random_uuid());
    const base::FileDescriptor file =
        base::open_beneath(directory, fresh, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!file.valid()) return;
    if (!base::write_all(file.get(), text) ||
        renameat(directory, fresh.c_str(), directory, devices_note) != 0)
        unlinkat(directory, fresh.c_str(), 0);
}

slurm::DeviceIndices ask_slurm(const base::Root& place, const std::string& job_id,
                               const Trace& trace) {
    const auto answer = slurm::JobId::parse(job_id).and_then(
        [](const slurm::JobId& job) { return slurm::Client(answer_deadline).devices(job); });
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

bool has_choice(const CdiSpec& spec) {
    return find_index(spec, 0) != nullptr && find_index(spec, 1) != nullptr;
}

ChosenDevices choose_devices(const std::vector<CdiSpec>& specs,
                             const slurm::DeviceIndices& of_job) {
    ChosenDevices chosen;
    for (const CdiSpec& spec : specs) {
        chosen.edits.add(spec.edits);
        for (const CdiDevice* const device : devices_of_job(spec, of_job, chosen.remarks))
            chosen.edits.add(device->edits);
    }
    return chosen;
}

DeviceEdits devices_of_job(const CdiFiles& files, const base::Root& place,
                           const std::string& job_id, const Trace& trace) {
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
    // Only root can add a process to a group. The user's own groups apply in the container as they
    // do outside.
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
            if (const auto index = base::number_in<int>(words[i]))
                devices[std::string(words.front())].push_back(*index);
        }
    }
    return devices;
}

}  // namespace batchai::node
