// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>

#include "job/schema/field_binding.hpp"
#include "job/schema/field_table.hpp"
#include "job/schema/local_secret_fields.hpp"

namespace batchai::job {

namespace {

constexpr std::array conda_fields = {
    text<&CondaSettings::environment>("environment", "Name of the environment", R"("train")")
        .checked(Check::path_component)
        .in_group(Group::exactly_one, "environment"),
    text<&CondaSettings::prefix>("prefix", "Directory of the environment",
                                 R"("/shared/conda/envs/train")")
        .checked(Check::path)
        .in_group(Group::exactly_one, "environment"),
};
constexpr Object conda_object = {"Conda", "An environment of conda, mamba or micromamba.",
                                 conda_fields};

constexpr std::array uv_fields = {
    text<&UvSettings::project>("project", "Directory with `pyproject.toml` and `uv.lock`",
                               R"("$HOME/train")")
        .required()
        .checked(Check::path),
    words<&UvSettings::extras>("extras", "Extras of the project that are installed as well",
                               R"(["gpu"])")
        .checked(Check::path_component),
    words<&UvSettings::groups>("groups", "Dependency groups that are installed as well",
                               R"(["train"])")
        .checked(Check::path_component),
};
constexpr Object uv_object = {
    "Uv", "A project of uv. `uv sync --frozen` installs what its `uv.lock` says, on each node.",
    uv_fields};

constexpr std::string_view python = "Python environment";

constexpr std::array software_fields = {
    words<&SoftwareSettings::modules>("modules", "Modules to load, in this order",
                                      R"(["cuda/12.4", "openmpi"])")
        .checked(Check::module_name),
    words<&SoftwareSettings::module_paths>(
        "modulePaths", "Directories of modules that are searched first, as by `module use`",
        R"(["/shared/modulefiles"])")
        .checked(Check::path),
    boolean<&SoftwareSettings::purge>(
        "purge", "Unload first what the submitting shell had loaded, as by `module purge`", "true")
        .defaults_to("false"),
    object<&SoftwareSettings::conda>("conda", conda_object, "An environment of conda")
        .in_group(Group::at_most_one, python),
    text<&SoftwareSettings::venv>("venv", "Directory that `python3 -m venv` has made",
                                  R"("$HOME/venv")")
        .checked(Check::path)
        .in_group(Group::at_most_one, python),
    object<&SoftwareSettings::uv>("uv", uv_object, "A project of uv")
        .in_group(Group::at_most_one, python),
    duration<&SoftwareSettings::time_limit>("timeLimit", 1, 24LL * 60 * 60,
                                            "How long setting this up may take", R"("PT20M")")
        .defaults_to("`PT10M`"),
};

constexpr std::array snapshot_fields = {
    text<&SnapshotSettings::directory>("directory", "The directory that is copied", R"("~/train")")
        .checked(Check::path)
        .defaults_to("the directory of the toolkit's script, or else of the job file"),
    words<&SnapshotSettings::exclude>("exclude", "Patterns of names and paths that are not copied",
                                      R"(["*.ckpt", "data/"])")
        .checked(Check::path),
    text<&SnapshotSettings::max_size>("maxSize", "A larger directory is refused", R"("500m")")
        .checked(Check::memory_size)
        .defaults_to(R"("100m")"),
    integer<&SnapshotSettings::max_files>("maxFiles", 1, 1'000'000,
                                          "A directory with more files is refused", "50000")
        .defaults_to("20000"),
};

constexpr std::array<std::string_view, 2> webhook_formats = {"json", "text"};

constexpr std::array webhook_fields = {
    text<&WebhookSettings::url>("url", "Where it is sent; a secret", R"("...")")
        .checked(Check::word)
        .in_group(Group::exactly_one, "url")
        .kept_secret(),
    from_env<&WebhookSettings::from_env>(Group::exactly_one, "url"),
    from_file<&WebhookSettings::from_file>(Group::exactly_one, "url"),
    choice<&WebhookSettings::format>(
        "format", webhook_formats,
        "`json`: a text and the facts as keys; `text`: the text alone, as chat programs take it",
        R"("text")")
        .defaults_to(R"("json")"),
    boolean<&WebhookSettings::only_failures>("onlyFailures", "Say nothing of jobs that succeed",
                                             "true")
        .defaults_to("false"),
};
constexpr Object webhook_object = {
    "Webhook", "A URL to which the end of the job is sent as a POST request.", webhook_fields};

constexpr std::array notification_fields = {
    object<&NotificationSettings::webhook>("webhook", webhook_object,
                                           "A URL to which the end of the job is sent"),
};

}  // namespace

constexpr Object software_object = {
    "Software",
    "Software of the nodes, or of the container, that is set up on each node before preparation "
    "and ranks. An extension of Batch AI's schema; see surroundings.md.",
    software_fields};

constexpr Object snapshot_object = {
    "Snapshot",
    "A copy of a directory, made when the job is submitted. An extension of Batch AI's schema; see "
    "surroundings.md.",
    snapshot_fields};

constexpr Object notification_object = {
    "Notification",
    "Who is told that the job has ended. An extension of Batch AI's schema; see surroundings.md.",
    notification_fields};

}  // namespace batchai::job
