// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/image.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/output/output.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "image/import.hpp"
#include "image/resolve.hpp"
#include "status/resource_view.hpp"
#include "submit/images_in_use.hpp"

namespace batchai::cli {
namespace {

struct ImageOptions {
    std::vector<std::string> images;  // names, digests, or prefixes of digests
    std::optional<std::string> server_url;
    bool shared = false;  // use the site's shared directory instead of the user's
    int unused_for = 0;   // days
    bool yes = false;
};

using Entries = std::vector<image::Entry>;

constexpr std::size_t shortest_digest = 6;

// Returns the digests of images that jobs use. They do not matter if there are no entries.
base::Result<std::set<std::string>> images_in_use(const Context& here, const Entries& entries) {
    if (entries.empty()) return std::set<std::string>();
    auto in_use = submit::images_in_use(here.store, here.slurm);
    if (in_use) return in_use;
    base::Error error = std::move(in_use).error();
    error.what = "it is not known which images are in use: " + error.what;
    return tl::unexpected(std::move(error));
}

Value image_value(const image::Entry& entry, const Value& in_use) {
    return Value::Object{
        {"digest", entry.digest}, {"image", entry.image.empty() ? Value() : Value(entry.image)},
        {"inUse", in_use},        {"lastUsed", base::to_iso8601(entry.last_used)},
        {"path", entry.path},     {"shared", entry.shared},
        {"size", entry.bytes}};
}

// Without `in_use`, it is not known which images are.
Value images_value(const Entries& entries, const std::set<std::string>* in_use) {
    Value::Array out;
    for (const image::Entry& entry : entries)
        out.push_back(image_value(entry, in_use ? Value(in_use->contains(entry.digest)) : Value()));
    return out;
}

base::Result<std::string> shared_directory(const image::Places& places) {
    if (!places.shared.empty()) return places.shared;
    return base::fail("this site has no shared directory of images", "--shared",
                      "the admin names one as shared_image_directory in site.lua",
                      base::ExitCode::usage);
}

// Returns the entries of the directory that the options select: the user's or the shared one.
base::Result<Entries> own_entries(const ImageOptions& options, const image::Places& places) {
    if (!options.shared) return image::entries(places.own, false);
    TRY(shared_directory(places));
    return image::entries(places.shared, true, places.shared_owner);
}

// Returns whether `word` refers to the entry. It may be the digest or at least its first six
// digits, with or without "sha256:" or "local:", or any form of the image's name.
bool is_meant(const image::Entry& entry, const std::string& word) {
    const std::size_t digits = entry.digest.find(':') + 1;
    const std::size_t from = word.starts_with(entry.digest.substr(0, digits)) ? 0 : digits;
    if (from + word.size() >= digits + shortest_digest &&
        std::string_view(entry.digest).substr(from).starts_with(word))
        return true;
    // The name of an entry may be missing.
    if (!word.empty() && entry.image == word) return true;
    const auto left = image::parse(entry.image);
    const auto right = image::parse(word);
    return left && right && *left == *right;
}

base::Result<Entries> find_entries(const ImageOptions& options, const Entries& all) {
    Entries out;
    for (const std::string& word : options.images) {
        bool found = false;
        for (const image::Entry& entry : all) {
            if (!is_meant(entry, word)) continue;
            found = true;
            if (std::find(out.begin(), out.end(), entry) == out.end()) out.push_back(entry);
        }
        if (!found)
            return base::fail("there is no such image in the cache", word,
                              "`batchai image list` shows them", base::ExitCode::not_found);
    }
    return out;
}

// Asks for confirmation and removes the entries. Returns them as a list.
Answer remove_all(const Entries& entries, const ImageOptions& options) {
    const std::int64_t bytes = std::accumulate(
        entries.begin(), entries.end(), std::int64_t{0},
        [](std::int64_t sum, const image::Entry& entry) { return sum + entry.bytes; });
    for (const image::Entry& entry : entries)
        say(fmt::format("to be removed: {} {} ({})", entry.digest.substr(0, 19), entry.image,
                        base::size_text(entry.bytes)));
    if (options.shared)
        warn(
            "whether jobs of other users use these images is not known here; a job that runs in "
            "one of them may lose its files");
    const auto agreed = TRY(confirm(options.yes));
    if (!agreed) return base::fail("operation cancelled");
    for (const image::Entry& entry : entries) {
        TRY(image::remove_entry(entry));
    }
    say(fmt::format(
        "{} removed, {} are free again",
        entries.size() == 1 ? "1 image is" : fmt::format("{} images are", entries.size()),
        base::size_text(bytes)));
    const std::set<std::string> none;
    return Outcome{images_value(entries, &none), status::image_columns};
}

std::string_view words_for(image::Ensured ensured) {
    switch (ensured) {
        case image::Ensured::was_there:
            return "is already imported";
        case image::Ensured::imported:
            return "is imported";
        case image::Ensured::imported_by_another:
            return "was imported by another process";
    }
    return {};
}

base::Result<void> pull_one(const ImageOptions& options, const Context& here,
                            const image::Places& places, const std::string& name,
                            Value::Array& values) {
    const auto reference = image::parse(name, options.server_url);
    if (!reference)
        return base::fail(reference.error().what, "image pull", reference.error().hint,
                          base::ExitCode::usage);
    if (!reference->is_imported())
        return base::fail("is used where it is: there is nothing to import", name, {},
                          base::ExitCode::usage);
    if (reference->plain_http && !here.site.insecure_registries.contains(reference->registry))
        return base::fail("would be contacted without encryption", reference->registry,
                          "write https://, or ask the admin to add it to insecure_registries in "
                          "site.lua");
    const auto access = TRY(image::access_for(*reference, here.site, std::nullopt));
    image::FrozenImage frozen = TRY(image::resolve(*reference, name, places, access, {})).frozen;
    if (options.shared) {
        frozen.root = image::entry_path(places.shared, frozen.digest);
        frozen.root_owner = places.shared_owner;
        frozen.cache_limit = 0;
    }
    const auto ensured = TRY(submit::ensure_image(here.store, here.slurm, frozen, access));
    say(fmt::format("{} {}", name, words_for(ensured)));
    const auto all = TRY(image::all_entries(places));
    for (const image::Entry& entry : all) {
        if (entry.path == frozen.root) values.push_back(image_value(entry, false));
    }
    return {};
}

Answer image_list(const ImageOptions& /*options*/) {
    const auto here = TRY(open_context());
    const auto all = TRY(image::all_entries(submit::image_places(here.store, here.site)));
    const auto in_use = images_in_use(here, all);
    if (!in_use) warn(in_use.error().text());
    return Outcome{images_value(all, in_use ? &*in_use : nullptr), status::image_columns};
}

Answer image_pull(const ImageOptions& options) {
    const auto here = TRY(open_context());
    const auto places = submit::image_places(here.store, here.site);
    if (options.shared) TRY(shared_directory(places));
    Value::Array values;
    for (const std::string& name : options.images)
        TRY(pull_one(options, here, places, name, values));
    return Outcome{Value(std::move(values)), status::image_columns};
}

Answer image_remove(const ImageOptions& options) {
    const auto here = TRY(open_context());
    const auto all = TRY(own_entries(options, submit::image_places(here.store, here.site)));
    const auto meant = TRY(find_entries(options, all));
    const auto in_use = TRY(images_in_use(here, meant));
    for (const image::Entry& entry : meant) {
        if (in_use.contains(entry.digest))
            return base::fail("is used by a job of yours that has not ended",
                              entry.image.empty() ? entry.digest : entry.image,
                              "`batchai job list` shows the jobs", base::ExitCode::refused);
    }
    return remove_all(meant, options);
}

// Removes what imports have left that were killed, which may be more than all images.
void remove_leftovers(const std::string& directory) {
    const std::string imports = image::directory_of_imports(directory);
    const auto before = image::size_of_tree(imports);
    image::collect_leftovers(imports, {}, {});
    const auto after = image::size_of_tree(imports);
    if (after < before)
        say(fmt::format("what ended imports had left is removed, {} are free again",
                        base::size_text(before - after)));
}

Answer image_prune(const ImageOptions& options) {
    const auto here = TRY(open_context());
    const auto places = submit::image_places(here.store, here.site);
    auto all = TRY(own_entries(options, places));
    remove_leftovers(options.shared ? places.shared : places.own);
    const auto in_use = TRY(images_in_use(here, all));
    const auto latest = base::now() - std::chrono::hours(24) * options.unused_for;
    std::erase_if(all, [&](const image::Entry& entry) {
        return in_use.contains(entry.digest) || entry.last_used > latest;
    });
    if (all.empty()) {
        say("there is no image to remove");
        return Outcome{Value::Array{}, status::image_columns};
    }
    return remove_all(all, options);
}

void add_images(Parser leaf, ImageOptions& options, const std::string& description) {
    leaf.add_option("image", options.images, description).required();
}

void add_shared(Parser leaf, ImageOptions& options) {
    leaf.add_flag("--shared", options.shared,
                  "In the site's shared directory, which the admin fills, instead of your own");
}

void add_yes(Parser leaf, ImageOptions& options) {
    leaf.add_flag("--yes,-y", options.yes, "Do not ask for confirmation");
}

}  // namespace

const Verbs image_verbs("", 50, [](CommandTree& tree, Parser app) {
    const Parser group = add_group(app, "image", "Manage imported container images");
    const std::string example = "batchai image ";
    add_verb(tree, group, "list", "List the images that are imported",
             example + "list --output table\n  batchai image list --query '[?inUse].image'",
             image_list);
    {
        auto [leaf, options] =
            add_verb(tree, group, "pull", "Import images, so that jobs need not wait for them",
                     example +
                         "pull tensorflow/tensorflow:1.8.0-gpu\n"
                         "  batchai image pull nvcr.io/nvidia/pytorch:24.01-py3\n"
                         "  batchai image pull docker-archive:image.tar",
                     image_pull);
        add_images(leaf, *options,
                   "[registry/]repository[:tag|@digest], oci:DIRECTORY, docker-archive:FILE");
        add_optional(leaf, "--server-url", options->server_url,
                     "Registry of images that do not name one [Docker Hub]")
            .type_name("URL");
        add_shared(leaf, *options);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "rm", "Remove imported images that no job uses",
                     example +
                         "rm tensorflow/tensorflow:1.8.0-gpu --yes\n"
                         "  batchai image rm sha256:29e5f63c2f3f",
                     image_remove);
        add_images(leaf, *options, "An image's name, or the beginning of its digest");
        add_shared(leaf, *options);
        add_yes(leaf, *options);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "prune", "Remove all imported images that no job uses",
                     example + "prune --unused-for 30 --yes", image_prune);
        leaf.add_option("--unused-for", options->unused_for,
                        "Only those that were not used for so many days [0]")
            .type_name("DAYS")
            .between(0, 36500);
        add_shared(leaf, *options);
        add_yes(leaf, *options);
    }
});

}  // namespace batchai::cli
