// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/bundle/inject_choice.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::node {

namespace {

constexpr const char* c_library = "libc.so.6";

class Chooser {
  public:
    Chooser(const NodeObjects& node, const ImageLibrary& image) : node_(node), image_(image) {}

    // All that is loaded, beginning with these, and is not the image's.
    [[nodiscard]] std::map<std::string, const NodeObject*> closure(
        const std::vector<const NodeObject*>& roots) {
        while (true) {
            auto found = walk(roots);
            const auto too_old = too_old_in_image(roots, found);
            if (too_old.empty()) return found;
            from_node_.insert(too_old.begin(), too_old.end());
        }
    }

    [[nodiscard]] bool is_of_image(const std::string& name) const {
        if (from_node_.contains(name) || image_(name) == nullptr) return false;
        const auto ours = node_.libraries.find(name);
        return name == pmix_name ||
               (ours != node_.libraries.end() && !ours->second.elf.versions.empty());
    }

  private:
    [[nodiscard]] std::map<std::string, const NodeObject*> walk(
        const std::vector<const NodeObject*>& roots) const {
        std::map<std::string, const NodeObject*> found;
        std::vector<const NodeObject*> open = roots;
        while (!open.empty()) {
            const NodeObject* const object = open.back();
            open.pop_back();
            for (const std::string& name : object->elf.needed) {
                if (is_of_c_library(name) || found.contains(name) || is_of_image(name)) continue;
                const auto library = node_.libraries.find(name);
                if (library == node_.libraries.end()) continue;  // a module that works nowhere
                found.emplace(name, &library->second);
                open.push_back(&library->second);
            }
        }
        return found;
    }

    [[nodiscard]] std::set<std::string> too_old_in_image(
        const std::vector<const NodeObject*>& roots,
        const std::map<std::string, const NodeObject*>& found) const {
        std::set<std::string> names;
        const auto look_at = [&](const NodeObject& object) {
            for (const auto& [name, versions] : object.elf.needed_versions) {
                if (is_of_c_library(name) || !is_of_image(name)) continue;
                const ElfObject* const theirs = image_(name);
                if (!std::includes(theirs->versions.begin(), theirs->versions.end(),
                                   versions.begin(), versions.end()))
                    names.insert(name);
            }
        };
        for (const NodeObject* object : roots)
            look_at(*object);
        for (const auto& [name, object] : found)
            look_at(*object);
        return names;
    }

    const NodeObjects& node_;
    const ImageLibrary& image_;
    std::set<std::string> from_node_;  // though the image has them
};

std::vector<const NodeObject*> pointers(const std::vector<NodeObject>& objects) {
    std::vector<const NodeObject*> out;
    out.reserve(objects.size());
    for (const NodeObject& object : objects)
        out.push_back(&object);
    return out;
}

std::string file_name(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

// Why the image's C library does not do for the object; else empty.
std::string complaint_on_c_library(const NodeObject& object, const ElfObject& theirs) {
    const Release has = newest_release(theirs.versions);
    for (const auto& [name, versions] : object.elf.needed_versions) {
        if (!is_of_c_library(name)) continue;
        const Release needed = newest_release(versions);
        if (has < needed)
            return fmt::format("the image has glibc {}, the node's {} needs {}", has.text(),
                               file_name(object.path), needed.text());
        for (const std::string& version : versions) {
            const bool numbered = newest_release({version}) != Release{};
            if (!numbered && !theirs.versions.contains(version))
                return fmt::format("the image's glibc {} has no {}, the node's {} needs it",
                                   has.text(), version, file_name(object.path));
        }
    }
    return {};
}

// A library with a RUNPATH of its own is not served by the RPATH of the one that needs it.
std::string complaint_on_runpath(const NodeObject& object,
                                 const std::map<std::string, const NodeObject*>& brought) {
    if (object.elf.runpath.empty()) return {};
    for (const std::string_view directory : base::split(object.elf.runpath, ':')) {
        if (directory == "$ORIGIN" || directory == "${ORIGIN}") return {};
    }
    const auto& needed = object.elf.needed;
    const auto name = std::find_if(needed.begin(), needed.end(), [&](const std::string& library) {
        return brought.contains(library);
    });
    if (name == needed.end()) return {};
    return fmt::format("the node's {} finds {} by its RUNPATH {}, which is not supported yet",
                       object.path, *name, object.elf.runpath);
}

std::string refusal_of(const NodeObjects& node, const ImageLibrary& image,
                       const std::map<std::string, const NodeObject*>& essential) {
    const ElfObject* const theirs = image(c_library);
    if (theirs == nullptr) return "the image has no glibc, which the node's libraries need";
    if (theirs->machine != node.essential.front().elf.machine)
        return "the image is for another kind of processor";
    std::vector<const NodeObject*> all = pointers(node.essential);
    for (const auto& [name, object] : essential)
        all.push_back(object);
    // The one that needs most is named.
    Release most;
    std::string complaint;
    for (const NodeObject* object : all) {
        std::string found = complaint_on_c_library(*object, *theirs);
        if (found.empty()) found = complaint_on_runpath(*object, essential);
        Release needed;
        for (const auto& [name, versions] : object->elf.needed_versions)
            needed = std::max(needed, newest_release(versions));
        if (found.empty() || (!complaint.empty() && !(most < needed))) continue;
        most = needed;
        complaint = std::move(found);
    }
    return complaint;
}

}  // namespace

InjectionChoice choose_injection(const NodeObjects& node, const ImageLibrary& image) {
    Chooser chooser(node, image);
    std::vector<const NodeObject*> roots = pointers(node.essential);
    InjectionChoice choice;
    choice.refusal = refusal_of(node, image, chooser.closure(roots));
    if (!choice.refusal.empty()) return choice;
    choice.pmix_of_image = chooser.is_of_image(pmix_name);
    const auto add = [&](const std::vector<NodeObject>& objects) {
        for (const NodeObject& object : objects)
            roots.push_back(&object);
    };
    add(node.ucx_modules);
    if (!choice.pmix_of_image) add(node.pmix_components);
    for (const auto& [name, object] : chooser.closure(roots))
        choice.libraries.push_back(name);
    return choice;
}

}  // namespace batchai::node
