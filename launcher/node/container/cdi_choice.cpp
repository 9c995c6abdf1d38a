// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/container/cdi_choice.hpp"

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
        const CdiDevice* const device = find_index(spec, index);
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
