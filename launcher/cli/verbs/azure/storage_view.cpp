// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/azure/storage_view.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "job/syntax/utf8.hpp"
#include "status/output_directory.hpp"
#include "status/resource_view.hpp"

namespace batchai::cli {

namespace {

Value tags_value(const std::optional<store::Tags>& tags) {
    if (!tags) return nullptr;
    Value::Object out;
    for (const auto& [key, value] : *tags)
        out.emplace_back(key, value);
    return out;
}

// Changes with the file, as an etag has to.
std::string etag(const storage::Entry& entry) {
    return fmt::format("\"0x{:X}{:X}{:X}\"", entry.inode, entry.modified.time_since_epoch().count(),
                       entry.size);
}

std::string time_text(const storage::Entry& entry) {
    return base::to_iso8601_seconds(entry.modified);
}

Value content_settings() {
    return Value::Object{{"cacheControl", nullptr},    {"contentDisposition", nullptr},
                         {"contentEncoding", nullptr}, {"contentLanguage", nullptr},
                         {"contentMd5", nullptr},      {"contentType", nullptr}};
}

Value copy_value() {
    return Value::Object{{"completionTime", nullptr}, {"id", nullptr},
                         {"progress", nullptr},       {"source", nullptr},
                         {"status", nullptr},         {"statusDescription", nullptr}};
}

Value endpoint(const site::StoragePlace& place) {
    using Where = site::StoragePlace::Where;
    if (place.where == Where::launcher) return status::file_url(place.parent + "/");
    if (place.where != Where::site) return nullptr;
    // Up to the directory that has a share's name in it.
    return status::file_url(
        place.pattern.substr(0, place.pattern.rfind('/', place.pattern.find("%s")) + 1));
}

using Row = std::vector<std::string>;

std::string text(const Value& value) {
    if (const auto* string = value.string()) return *string;
    if (const auto* integer = value.integer()) return std::to_string(*integer);
    return "";
}

}  // namespace

std::string name_text(std::string_view name) {
    return job::is_utf8(name) ? std::string(name) : job::printable(name);
}

Value account_value(const AccountView& account, const std::string& subscription,
                    const std::string& location) {
    const auto& record = account.record;
    const Value group = record ? Value(record->key.group) : Value();
    const Value id =
        record ? Value(status::storage_account_id(subscription, record->key)) : Value();
    const std::string where = record ? record->location : location;
    const std::string sku = record ? record->sku : "Standard_LRS";
    return Value::Object{
        {"accessTier", nullptr},
        {"creationTime", record ? Value(base::to_iso8601(record->creation_time)) : Value()},
        {"customDomain", nullptr},
        {"enableHttpsTrafficOnly", false},
        {"encryption", nullptr},
        {"id", id},
        {"identity", nullptr},
        {"kind", "Storage"},
        {"lastGeoFailoverTime", nullptr},
        {"location", where},
        {"name", account.name},
        {"networkRuleSet", nullptr},
        {"primaryEndpoints", Value::Object{{"blob", endpoint(account.containers)},
                                           {"file", endpoint(account.shares)},
                                           {"queue", nullptr},
                                           {"table", nullptr}}},
        {"primaryLocation", where},
        {"provisioningState", "Succeeded"},
        {"resourceGroup", group},
        {"secondaryEndpoints", nullptr},
        {"secondaryLocation", nullptr},
        {"sku", Value::Object{{"capabilities", nullptr},
                              {"kind", nullptr},
                              {"locations", nullptr},
                              {"name", sku},
                              {"resourceType", nullptr},
                              {"restrictions", nullptr},
                              {"tier", sku.substr(0, sku.find('_'))}}},
        {"statusOfPrimary", "available"},
        {"statusOfSecondary", nullptr},
        {"tags", record ? tags_value(record->tags) : Value()},
        {"type", "Microsoft.Storage/storageAccounts"}};
}

Value share_value(const storage::Entry& entry, const std::string& path) {
    return Value::Object{{"metadata", nullptr},
                         {"name", name_text(entry.name)},
                         {"path", name_text(path)},
                         {"properties", Value::Object{{"etag", etag(entry)},
                                                      {"lastModified", time_text(entry)},
                                                      {"quota", nullptr}}}};
}

Value container_value(const storage::Entry& entry, const std::string& path) {
    return Value::Object{{"metadata", nullptr},
                         {"name", name_text(entry.name)},
                         {"path", name_text(path)},
                         {"properties", Value::Object{{"etag", etag(entry)},
                                                      {"lastModified", time_text(entry)},
                                                      {"lease", Value::Object{{"duration", nullptr},
                                                                              {"state", nullptr},
                                                                              {"status", nullptr}}},
                                                      {"publicAccess", nullptr}}}};
}

Value file_value(const storage::Entry& entry, const std::string& name) {
    if (entry.kind == storage::EntryKind::directory) {
        return Value::Object{{"metadata", nullptr},
                             {"name", name_text(name)},
                             {"properties", Value::Object{{"etag", etag(entry)},
                                                          {"lastModified", time_text(entry)},
                                                          {"serverEncrypted", nullptr}}},
                             {"type", "dir"}};
    }
    const bool is_file = entry.kind == storage::EntryKind::file;
    return Value::Object{
        {"content", nullptr},
        {"metadata", nullptr},
        {"name", name_text(name)},
        {"properties", Value::Object{{"contentLength", is_file ? Value(entry.size) : Value()},
                                     {"contentRange", nullptr},
                                     {"contentSettings", content_settings()},
                                     {"copy", copy_value()},
                                     {"etag", etag(entry)},
                                     {"lastModified", time_text(entry)},
                                     {"serverEncrypted", nullptr}}},
        {"type", is_file ? "file" : "other"}};
}

Value blob_value(const storage::Entry& entry, const std::string& name) {
    return Value::Object{{"content", nullptr},
                         {"deleted", nullptr},
                         {"metadata", nullptr},
                         {"name", name_text(name)},
                         {"properties", Value::Object{{"appendBlobCommittedBlockCount", nullptr},
                                                      {"blobTier", nullptr},
                                                      {"blobTierChangeTime", nullptr},
                                                      {"blobTierInferred", nullptr},
                                                      {"blobType", "BlockBlob"},
                                                      {"contentLength", entry.size},
                                                      {"contentRange", nullptr},
                                                      {"contentSettings", content_settings()},
                                                      {"copy", copy_value()},
                                                      {"deletedTime", nullptr},
                                                      {"etag", etag(entry)},
                                                      {"lastModified", time_text(entry)},
                                                      {"lease", Value::Object{{"duration", nullptr},
                                                                              {"state", nullptr},
                                                                              {"status", nullptr}}},
                                                      {"pageBlobSequenceNumber", nullptr},
                                                      {"remainingRetentionDays", nullptr},
                                                      {"serverEncrypted", nullptr}}},
                         {"snapshot", nullptr}};
}

Value upload_value(const storage::Entry& entry) {
    return Value::Object{{"etag", etag(entry)}, {"lastModified", time_text(entry)}};
}

Table account_columns(const Value& value) {
    return status::rows_of(
        value, {"Name", "Resource Group", "Location", "Sku", "State"}, [](const Value& item) {
            return Row{text(item["name"]), text(item["resourceGroup"]), text(item["location"]),
                       text(item["sku"]["name"]), text(item["provisioningState"])};
        });
}

Table share_columns(const Value& value) {
    return status::rows_of(value, {"Name", "Quota", "Last Modified"}, [](const Value& item) {
        const auto& properties = item["properties"];
        return Row{text(item["name"]), text(properties["quota"]), text(properties["lastModified"])};
    });
}

Table container_columns(const Value& value) {
    return status::rows_of(value, {"Name", "Lease Status", "Last Modified"}, [](const Value& item) {
        const auto& properties = item["properties"];
        return Row{text(item["name"]), text(properties["lease"]["status"]),
                   text(properties["lastModified"])};
    });
}

Table storage_file_columns(const Value& value) {
    return status::rows_of(value, {"Name", "Content Length", "Type", "Last Modified"},
                           [](const Value& item) {
                               const auto& properties = item["properties"];
                               return Row{text(item["name"]), text(properties["contentLength"]),
                                          text(item["type"]), text(properties["lastModified"])};
                           });
}

Table blob_columns(const Value& value) {
    return status::rows_of(
        value, {"Name", "Blob Type", "Blob Tier", "Length", "Content Type", "Last Modified"},
        [](const Value& item) {
            const auto& properties = item["properties"];
            return Row{text(item["name"]),
                       text(properties["blobType"]),
                       text(properties["blobTier"]),
                       text(properties["contentLength"]),
                       text(properties["contentSettings"]["contentType"]),
                       text(properties["lastModified"])};
        });
}

}  // namespace batchai::cli
