// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/devices/cdi_choice.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

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

// "/dev/nvidia3" for 3; files in directories below have numbers of their own.
bool has_file(const CdiDevice& device, int index) {
    return std::any_of(device.edits.nodes.begin(), device.edits.nodes.end(), [&](const Bind& node) {
        std::string_view name = node.source;
        if (!name.starts_with("/dev/") || name.find('/', 5) != std::string_view::npos) return false;
        name.remove_prefix(std::min(name.size(), name.find_last_not_of("0123456789") + 1));
        return name == std::to_string(index);
    });
}

// Slurm counts device files, the vendor's tool may count in another order: the file decides where
// each device has one with a number, else the name.
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

}  // namespace batchai::node
