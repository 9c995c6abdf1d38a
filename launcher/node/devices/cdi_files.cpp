// SPDX-License-Identifier: GPL-2.0-or-later
// Which of the node's CDI files count.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "base/file.hpp"
#include "node/devices/cdi.hpp"

namespace batchai::node {

namespace {

constexpr std::size_t file_limit = 16UL << 20U;

struct Found {
    std::filesystem::path path;
    std::size_t directory = 0;  // which of them; later ones come before
};

std::optional<CdiFormat> format_of(const std::filesystem::path& path) {
    if (path.extension() == ".json") return CdiFormat::json;
    if (path.extension() == ".yaml" || path.extension() == ".yml") return CdiFormat::yaml;
    return std::nullopt;
}

std::map<std::string, Found> find_files(const std::vector<std::string>& directories) {
    std::map<std::string, Found> files;
    for (std::size_t i = 0; i < directories.size(); ++i) {
        std::error_code missing;
        for (const auto& entry : std::filesystem::directory_iterator(directories[i], missing)) {
            if (format_of(entry.path()))
                files[entry.path().filename().string()] = {entry.path(), i};
        }
    }
    return files;
}

}  // namespace

base::Result<CdiFiles> read_cdi(const std::vector<std::string>& directories) {
    CdiFiles read;
    std::map<std::string, std::size_t> directory_of_kind;
    std::vector<std::size_t> directory_of_spec;
    for (const auto& [name, file] : find_files(directories)) {
        const auto text = base::read_file(file.path, file_limit);
        if (!text) return tl::unexpected<base::Error>(text.error());
        auto spec = parse_cdi(*text, format_of(file.path).value(), file.path.string());
        if (!spec)
            return base::fail("cannot be used as a CDI file: " + spec.error().what,
                              file.path.string(), "the admin should write it anew");
        std::size_t& latest = directory_of_kind[spec->kind];
        latest = std::max(latest, file.directory);
        directory_of_spec.push_back(file.directory);
        read.specs.push_back(std::move(*spec));
    }
    std::vector<CdiSpec> counting;
    for (std::size_t i = 0; i < read.specs.size(); ++i) {
        CdiSpec& spec = read.specs[i];
        if (directory_of_spec[i] != directory_of_kind[spec.kind]) continue;
        read.remarks.insert(read.remarks.end(), spec.remarks.begin(), spec.remarks.end());
        counting.push_back(std::move(spec));
    }
    read.specs = std::move(counting);
    return read;
}

}  // namespace batchai::node
