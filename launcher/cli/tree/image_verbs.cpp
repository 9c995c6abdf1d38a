// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/tree/builder.hpp"
#include "cli/verbs/image.hpp"

namespace batchai::cli {
namespace {

void add_images(CLI::App& leaf, ImageOptions& options, const std::string& description) {
    leaf.add_option("image", options.images, description)->required();
}

void add_shared(CLI::App& leaf, ImageOptions& options) {
    leaf.add_flag("--shared", options.shared,
                  "In the site's shared directory, which the admin fills, instead of your own");
}

void add_yes(CLI::App& leaf, ImageOptions& options) {
    leaf.add_flag("--yes,-y", options.yes, "Do not ask for confirmation");
}

}  // namespace

void add_image_verbs(CommandTree& tree) {
    auto& group = *add_group(tree.app, "image", "Manage imported container images");
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
        add_images(*leaf, *options,
                   "[registry/]repository[:tag|@digest], oci:DIRECTORY, docker-archive:FILE");
        add_optional(*leaf, "--server-url", options->server_url,
                     "Registry of images that do not name one [Docker Hub]")
            ->type_name("URL");
        add_shared(*leaf, *options);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "rm", "Remove imported images that no job uses",
                     example +
                         "rm tensorflow/tensorflow:1.8.0-gpu --yes\n"
                         "  batchai image rm sha256:29e5f63c2f3f",
                     image_remove);
        add_images(*leaf, *options, "An image's name, or the beginning of its digest");
        add_shared(*leaf, *options);
        add_yes(*leaf, *options);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "prune", "Remove all imported images that no job uses",
                     example + "prune --unused-for 30 --yes", image_prune);
        leaf->add_option("--unused-for", options->unused_for,
                         "Only those that were not used for so many days [0]")
            ->type_name("DAYS")
            ->check(CLI::Range(0, 36500));
        add_shared(*leaf, *options);
        add_yes(*leaf, *options);
    }
}

}  // namespace batchai::cli
