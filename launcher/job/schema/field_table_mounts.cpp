// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>

#include "job/schema/field_binding.hpp"
#include "job/schema/field_table.hpp"
#include "job/schema/local_secret_fields.hpp"

namespace batchai::job {

namespace {

using Reference = KeyVaultSecretReference;

constexpr std::array source_vault_fields = {
    text<&Reference::source_vault_id>("id", "Id of the key vault",
                                      R"("/subscriptions/.../vaults/keys")")
        .required()
        .checked(Check::word),
};
constexpr Object source_vault_object = {"SourceVault", "A key vault", source_vault_fields};

constexpr std::array key_vault_secret_reference_fields = {
    object_within<&Reference::source_vault_id>("sourceVault", source_vault_object,
                                               "The key vault that holds the secret")
        .required(),
    text<&Reference::secret_url>("secretUrl", "URL of the secret in the key vault",
                                 R"("https://keys.vault.azure.net/secrets/storage")")
        .required()
        .checked(Check::word),
};

constexpr std::array storage_credentials_fields = {
    text<&StorageCredentials::account_key>("accountKey", "Key of the storage account",
                                           R"("<AZURE_BATCHAI_STORAGE_KEY>")")
        .checked(Check::word)
        .in_group(Group::at_most_one, "account key")
        .kept_secret(),
    object<&StorageCredentials::account_key_secret_reference>(
        "accountKeySecretReference", key_vault_secret_reference_object,
        "Where the key is kept, instead of the key itself")
        .in_group(Group::at_most_one, "account key")
        .kept_secret(),
    from_env<&StorageCredentials::from_env>(Group::at_most_one, "account key"),
    from_file<&StorageCredentials::from_file>(Group::at_most_one, "account key"),
};
constexpr Object storage_credentials_object = {
    "StorageCredentials", "How to open a storage account", storage_credentials_fields};

template <auto Pointer>
constexpr Field relative_mount_path() {
    return text<Pointer>("relativeMountPath",
                         "Directory below `$AZ_BATCHAI_JOB_MOUNT_ROOT` where it is mounted",
                         R"("myshare")")
        .required()
        .checked(Check::relative_mount_path);
}

template <auto Pointer>
constexpr Field mount_options() {
    return text<Pointer>("mountOptions", "Options of the mount; the site decides which it follows",
                         R"("rw")")
        .checked(Check::path);
}

// Batch AI's `job show` always prints the credentials of a mount, with nothing in them.
template <auto Pointer>
constexpr Field credentials() {
    Field field =
        object<Pointer>("credentials", storage_credentials_object, "Credentials of the account")
            .defaults_to("the site's `credentials_file` of the account");
    field.access.count = [](const void*) -> std::size_t { return 1; };
    field.access.at = [](const void* owner, std::size_t) -> const void* {
        static const StorageCredentials none;
        const auto& held = MemberOf<Pointer>::of(owner);
        return held ? &*held : &none;
    };
    return field;
}

constexpr std::array azure_file_share_fields = {
    text<&AzureFileShare::account_name>("accountName", "Storage account", R"("mystorageaccount")")
        .defaults_to("the first part of the host in `azureFileUrl`")
        .checked(Check::path_component),
    text<&AzureFileShare::azure_file_url>(
        "azureFileUrl", "URL of the share, or of a directory in it",
        R"("https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/myshare")")
        .required()
        .checked(Check::file_share_url),
    credentials<&AzureFileShare::credentials>(),
    relative_mount_path<&AzureFileShare::relative_mount_path>(),
    text<&AzureFileShare::file_mode>("fileMode", "Permissions of files", R"("0777")")
        .defaults_to(R"("0777")")
        .checked(Check::octal_mode),
    text<&AzureFileShare::directory_mode>("directoryMode", "Permissions of directories",
                                          R"("0777")")
        .defaults_to(R"("0777")")
        .checked(Check::octal_mode),
};
constexpr Object azure_file_share_object = {"AzureFileShare", "A file share of a storage account",
                                            azure_file_share_fields};

constexpr std::array azure_blob_file_system_fields = {
    text<&AzureBlobFileSystem::account_name>("accountName", "Storage account",
                                             R"("mystorageaccount")")
        .required()
        .checked(Check::path_component),
    text<&AzureBlobFileSystem::container_name>("containerName", "Blob container", R"("data")")
        .required()
        .checked(Check::path_component),
    credentials<&AzureBlobFileSystem::credentials>(),
    relative_mount_path<&AzureBlobFileSystem::relative_mount_path>(),
    mount_options<&AzureBlobFileSystem::mount_options>(),
};
constexpr Object azure_blob_file_system_object = {
    "AzureBlobFileSystem", "A blob container of a storage account", azure_blob_file_system_fields};

constexpr std::array file_server_id_fields = {
    text<&FileServerMount::file_server_id>("id", "Name or resource id of the file server",
                                           R"("datasets")")
        .required()
        .checked(Check::word),
};
constexpr Object file_server_id_object = {"FileServerId", "Names a file server",
                                          file_server_id_fields};

constexpr std::array file_server_fields = {
    object_within<&FileServerMount::file_server_id>("fileServer", file_server_id_object,
                                                    "The file server")
        .required(),
    text<&FileServerMount::source_directory>("sourceDirectory", "Directory of the server",
                                             R"("cifar")")
        .defaults_to("the whole server")
        .checked(Check::path),
    relative_mount_path<&FileServerMount::relative_mount_path>(),
    mount_options<&FileServerMount::mount_options>(),
};
constexpr Object file_server_object = {"FileServerMount", "A directory of a file server",
                                       file_server_fields};

constexpr std::array unmanaged_file_system_fields = {
    text<&UnmanagedFileSystem::mount_command>(
        "mountCommand", "Names a mount that the site defines; it is never run as a command",
        R"("scratch")")
        .required()
        .checked(Check::path),
    relative_mount_path<&UnmanagedFileSystem::relative_mount_path>(),
};
constexpr Object unmanaged_file_system_object = {
    "UnmanagedFileSystem", "A file system that the site's administrator has set up",
    unmanaged_file_system_fields};

constexpr std::array mount_volumes_fields = {
    list<&MountVolumes::azure_file_shares>(AzureFileShare::key, azure_file_share_object,
                                           "File shares of storage accounts"),
    list<&MountVolumes::azure_blob_file_systems>(AzureBlobFileSystem::key,
                                                 azure_blob_file_system_object,
                                                 "Blob containers of storage accounts"),
    list<&MountVolumes::file_servers>(FileServerMount::key, file_server_object,
                                      "Directories of file servers"),
    list<&MountVolumes::unmanaged_file_systems>(UnmanagedFileSystem::key,
                                                unmanaged_file_system_object,
                                                "File systems that the site has set up"),
};

}  // namespace

constexpr Object key_vault_secret_reference_object = {"KeyVaultSecretReference",
                                                      "A secret that is kept in a key vault",
                                                      key_vault_secret_reference_fields};
constexpr Object mount_volumes_object = {
    "MountVolumes",
    "Directories that appear below `$AZ_BATCHAI_JOB_MOUNT_ROOT` while the job runs. No two may "
    "have the same `relativeMountPath`, and none may lie inside another.",
    mount_volumes_fields};

}  // namespace batchai::job
