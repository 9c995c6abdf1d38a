#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# The commands of the Azure CLI as alice types them: groups, storage, file servers, usage, and the
# options that all commands have. Hardly any needs a job.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
    make_home az
    as_user mkdir -p "$HOME_DIR/site/shares/public" "$HOME_DIR/site/ro" "$HOME_DIR/nfs" "$HOME_DIR/work"
    write_home site.lua << LUA
return {
    location = "hall",
    vm_sizes = { STANDARD_NC6 = { partition = "main", gres = "widget:1" } },
    file_servers = { nfs = { directory = "$HOME_DIR/nfs" } },
    storage_accounts = {
        sitestorage = { file_share_directory = "$HOME_DIR/site/shares/%s" },
        readonlystorage = { file_share_directory = "$HOME_DIR/site/ro/%s", read_only = true },
        faraway = { file_share_remote = { type = "smb", host = "files.example.org" } },
    },
}
LUA
    az group create --name team --location eastus -o none
    az storage account create -g team -n mystorage --sku Standard_LRS -o none
}

teardown_file() {
    cancel_jobs
    remove_home
}

# az WORDS…: the drop-in, in $HOME_DIR/work, with the suite's records and site.
az() { az_with '' "$@"; }
# az_with "NAME=VALUE …" WORDS…: with these variables besides.
az_with() {
    # shellcheck disable=SC2016 # for the inner shell
    as_user bash -c 'cd "$1/work" && exec env BATCHAI_HOME="$1/records" BATCHAI_SITE="$1/site.lua" $3 \
        PATH="$2:$PATH" az "${@:4}"' az "$HOME_DIR" "$PREFIX/libexec/batchai/az-drop-in" "$@"
}
file() { az storage file "$@" --account-name mystorage; }
blob() { az storage blob "$@" --account-name mystorage; }

# write_work FILE: standard input to a file of the working directory.
write_work() { write_home "work/$1"; }

# keys_are "a b c": standard input is an object with these keys, sorted.
keys_are() {
    local keys
    keys=$(jq -r 'keys | join(" ")')
    [[ $keys == "$1" ]] || { echo "$keys" >&2; return 1; }
}

# Breaks when a group loses its shape, or deleting it asks nobody.
@test "groups have the shapes and the table of az group" {
    az group create -n second -l westeurope --tags a=b c |
        jq -e '. == {id: .id, location: "westeurope", managedBy: null, name: "second",
                     properties: {provisioningState: "Succeeded"}, tags: {a: "b", c: ""}}'
    [[ $(az group exists -n second) == true ]]
    run -0 az group list -o table
    [[ ${lines[0]} =~ ^Location\ +Name$ && ${lines[3]} =~ ^eastus\ +team$ ]]
    run -2 az group delete -n second
    az group delete -n second --yes
    [[ $(az group exists -n second) == false ]]
    run -5 az group show -n second
}

# Breaks when an account loses its shape, is made twice, or its name is not checked.
@test "storage accounts are made, shown, listed and deleted" {
    az storage account show -n mystorage -g team > "$BATS_TEST_TMPDIR/account"
    keys_are "accessTier creationTime customDomain enableHttpsTrafficOnly encryption id identity kind lastGeoFailoverTime location name networkRuleSet primaryEndpoints primaryLocation provisioningState resourceGroup secondaryEndpoints secondaryLocation sku statusOfPrimary statusOfSecondary tags type" \
        < "$BATS_TEST_TMPDIR/account"
    jq -e '.location == "eastus" and .resourceGroup == "team" and .sku.name == "Standard_LRS"
           and .provisioningState == "Succeeded" and .type == "Microsoft.Storage/storageAccounts"
           and (.id | endswith("/resourceGroups/team/providers/Microsoft.Storage/storageAccounts/mystorage"))
           and (.primaryEndpoints.file | startswith("file:///"))' "$BATS_TEST_TMPDIR/account"
    # A second time it is the same one, and no other group can have it.
    [[ $(az storage account create -g team -n mystorage --query creationTime) == $(jq .creationTime "$BATS_TEST_TMPDIR/account") ]]
    az group create -n other -l x -o none
    run -4 az storage account create -g other -n mystorage
    [[ $output == *"The storage account named mystorage is already taken."* ]]
    run -2 az storage account create -g team -n My_Storage
    [[ $output == *"between 3 and 24 characters"* ]]
    run -5 az storage account create -g nosuch -n another
    run -0 az storage account list --query '[].name' -o tsv
    [[ $output == $'faraway\nmystorage\nreadonlystorage\nsitestorage' ]]
    [[ $(az storage account list -g team --query 'length(@)') == 1 ]]
    [[ $(az storage account check-name -n mystorage --query reason) == '"AlreadyExists"' ]]
    run -0 --separate-stderr az storage account keys list -g team -n mystorage
    [[ $output == "[]" ]]
    az storage account create -g other -n shortlived -o none
    az storage share create -n s --account-name shortlived -o none
    run -2 az storage account delete -n shortlived -g other
    az storage account delete -n shortlived -g other --yes
    run -5 az storage share list --account-name shortlived
    prints_nothing as_user find "$HOME_DIR/records/storage" -name shortlived
    az group delete -n other --yes
}

# Breaks when one of the two kinds behaves otherwise, or a share is not where jobs find it.
@test "shares and containers are made, shown, listed and deleted" {
    local kind
    for kind in share container; do
        [[ $(az storage $kind create -n data --account-name mystorage --query created) == true ]]
        [[ $(az storage $kind create -n data --account-name mystorage --query created) == false ]]
        run -4 az storage $kind create -n data --account-name mystorage --fail-on-exist
        [[ $(az storage $kind exists -n data --account-name mystorage) == $'{\n  "exists": true\n}' ]]
        [[ $(az storage $kind exists -n none --account-name mystorage --query exists) == false ]]
        run -0 az storage $kind list --account-name mystorage --query '[].name' -o tsv
        [[ $output == data ]]
        run -5 az storage $kind show -n dat --account-name mystorage
        [[ $output == *'did you mean "data"?'* ]]
        run -2 az storage $kind create -n ../escape --account-name mystorage
        az storage $kind create -n gone --account-name mystorage -o none
        [[ $(az storage $kind delete -n gone --account-name mystorage --query deleted) == true ]]
        [[ $(az storage $kind delete -n gone --account-name mystorage --query deleted) == false ]]
        run -5 az storage $kind delete -n gone --account-name mystorage --fail-not-exist
    done
    [[ $(az storage share show -n data --account-name mystorage --query path -o tsv) == "$HOME_DIR/records/storage/mystorage/file-shares/data" ]]
    run -0 az storage share list --account-name mystorage -o table
    [[ ${lines[0]} =~ ^Name\ +Quota\ +Last\ Modified$ ]]
    run -0 az storage container list --account-name mystorage -o table
    [[ ${lines[0]} =~ ^Name\ +Lease\ Status\ +Last\ Modified$ ]]
    # A share that cannot be deleted does not vanish with what is left of it.
    az storage share create -n kept --account-name mystorage -o none
    local theirs=$HOME_DIR/records/storage/mystorage/file-shares/kept/theirs
    as_root_on login install -d -m 755 "$theirs"
    as_root_on login touch "$theirs/file"
    run -1 az storage share delete -n kept --account-name mystorage
    [[ $output == *"some of its files belong to others"* ]]
    [[ $(az storage share exists -n kept --account-name mystorage --query exists) == true ]]
    as_user test -f "$theirs/file"
    as_root_on login rm -r "$theirs"
    [[ $(az storage share delete -n kept --account-name mystorage --query deleted) == true ]]
}

# Breaks when an account is not found by one of its names, or a misspelt one is taken as a new one.
@test "the account comes from the option, the connection string or the environment" {
    run -2 az storage share list
    [[ $output == *AZURE_STORAGE_ACCOUNT* ]]
    [[ $(az_with AZURE_STORAGE_ACCOUNT=sitestorage storage share list --query '[].name' -o tsv) == public ]]
    [[ $(az storage share list --connection-string 'AccountName=sitestorage;AccountKey=x==' --query '[].name' -o tsv) == public ]]
    run -5 az storage share list --account-name mystoraje
    [[ $output == *'Cannot find "mystoraje" storage account.'*'did you mean "mystorage"?'* ]]
    run -2 az storage share list --account-name ../..
    run -1 az storage share list --account-name faraway
    [[ $output == *"opened by rclone on the nodes"* ]]
    az storage share create -n mine --account-name sitestorage -o none
    as_user test -d "$HOME_DIR/site/shares/mine"
    run -1 az storage share create -n mine --account-name readonlystorage
    [[ $output == *"only be read"* ]]
    # Who may not delete a share does not lose the files in it.
    as_user bash -c "touch $HOME_DIR/site/shares/public/file && chmod a-w $HOME_DIR/site/shares"
    run -1 az storage share delete -n public --account-name sitestorage
    [[ $output == *"ask the admin"* ]]
    as_user bash -c "chmod u+w $HOME_DIR/site/shares && test -f $HOME_DIR/site/shares/public/file"
}

# Breaks when a directory or file does not get the place, shape or message that az gives it.
@test "files are uploaded, listed, shown, downloaded and deleted" {
    az storage share create -n files --account-name mystorage -o none
    printf 'hello\n' | write_work train.py
    run -5 file upload -s files --path cifar --source train.py
    [[ $output == *"The specified parent path does not exist."* ]]
    [[ $(az storage directory create -n cifar -s files --account-name mystorage) == $'{\n  "created": true\n}' ]]
    [[ $(az storage directory create -n cifar -s files --account-name mystorage --query created) == false ]]
    [[ $(az storage directory exists -n cifar -s files --account-name mystorage --query exists) == true ]]
    run -0 --separate-stderr file upload -s files --path cifar --source train.py
    # shellcheck disable=SC2154 # bats' run --separate-stderr sets it
    [[ -z $output && -z $stderr ]]
    file upload -s files --path cifar/other.txt --source train.py --max-connections 2 --metadata a=b c=d
    file upload -s files --source train.py
    # On a terminal the upload shows how far it is.
    # shellcheck disable=SC2016 # for the inner shell
    run -0 as_user bash -c 'cd "$1/work" && export BATCHAI_HOME=$1/records BATCHAI_SITE=$1/site.lua PATH=$2:$PATH
        script -qec "az storage file upload -s files --source train.py --account-name mystorage" /dev/null' \
        - "$HOME_DIR" "$PREFIX/libexec/batchai/az-drop-in"
    [[ $output == *"train.py ["*"100.0% of 6 B"* ]]
    run -0 file list -s files -o table
    [[ ${lines[0]} =~ ^Name\ +Content\ Length\ +Type\ +Last\ Modified$ ]]
    [[ ${lines[2]} =~ ^cifar\ +dir\ +20 && ${lines[3]} =~ ^train.py\ +6\ +file\ +20 ]]
    run -0 file list -s files/cifar --query '[].name' -o tsv
    [[ $output == $'other.txt\ntrain.py' ]]
    [[ $(file list -s files --exclude-dir --query 'length(@)') == 1 ]]
    file show -s files --path cifar/train.py | jq -e '.properties.contentLength == 6 and .type == "file"'
    [[ $(file exists -s files --path cifar/none --query exists) == false ]]
    file download -s files --path cifar/other.txt |
        jq -e '.content == null and .name == "other.txt" and .properties.contentLength == 6'
    as_user cmp "$HOME_DIR/work/other.txt" "$HOME_DIR/work/train.py"
    as_user mkdir -p "$HOME_DIR/work/into"
    file download -s files --path cifar/other.txt --dest into --no-progress -o none
    as_user test -f "$HOME_DIR/work/into/other.txt"
    file download -s files --path cifar/other.txt --dest part.txt --start-range 1 --end-range 3 -o none
    [[ $(as_user cat "$HOME_DIR/work/part.txt") == ell ]]
    run -5 file download -s files --path cifar/none
    run -1 az storage directory delete -n cifar -s files --account-name mystorage
    [[ $output == *"The specified directory is not empty."* ]]
    [[ $(file delete -s files --path train.py --query deleted) == true ]]
    run -5 file delete -s files --path train.py
}

# Breaks when a batch works in another account than its URL names.
@test "the URL of a share names its account" {
    az storage account create -n elsewhere -o none
    local account
    for account in mystorage elsewhere; do
        az storage share create -n urls --account-name "$account" -o none
        echo "$account" | write_work "$account.txt"
        az storage file upload -s urls --account-name "$account" --source "$account.txt" -o none
    done
    az_with AZURE_STORAGE_ACCOUNT=elsewhere storage file delete-batch -s https://mystorage.file.core.windows.net/urls
    [[ $(az storage file list -s urls --account-name mystorage --query 'length(@)') == 0 ]]
    [[ $(az storage file list -s urls --account-name elsewhere --query '[].name' -o tsv) == elsewhere.txt ]]
    run -2 az storage file delete-batch -s https://mystorage.file.core.windows.net/urls --account-name elsewhere
    [[ $output == *'the URL is of the account "mystorage"'* ]]
    run -2 az storage file delete-batch -s "file://$HOME_DIR/urls" --account-name elsewhere
    [[ $output == *"is not a URL of a share"* ]]
    az storage account delete -n elsewhere --yes
}

# Breaks when a batch copies the wrong files, or stops at a link or an odd name.
@test "batches copy and delete what matches, whatever the names are" {
    az storage share create -n batch --account-name mystorage -o none
    as_user bash -c 'cd "$1/work" && mkdir -p tree/a/b && echo 1 > tree/one.csv && echo 2 > tree/a/two.csv &&
        echo 3 > tree/a/b/three.txt && echo 4 > "tree/a/$(printf "odd\n\033[31mname\377.csv")" &&
        ln -s /etc tree/link && mkfifo tree/fifo' - "$HOME_DIR"
    run -0 --separate-stderr file upload-batch -s tree -d batch --pattern '*.csv' --query 'length(@)'
    [[ $output == 3 ]]
    run -0 file list -s batch --path a -o table
    [[ $output != *$'\e'* && ${#lines[@]} -eq 4 ]]
    run -0 file list -s batch --path a -o tsv --query '[].name'
    lines_are 2 "$output"
    [[ $output != *$'\e'* ]]
    file list -s batch --path a | jq -e 'length == 2'
    # A directory that may be listed but not searched is an error, and not empty.
    local unsearchable
    unsearchable=$(as_user find "$HOME_DIR" -type d -path '*/batch/a')
    as_user chmod 444 "$unsearchable"
    run -1 file list -s batch --path a
    [[ $output == *"Permission denied"*/batch/a* || $output == */batch/a*"Permission denied"* ]]
    run -1 file download-batch -s batch -d .
    [[ $output == *"Permission denied"* ]]
    as_user chmod 755 "$unsearchable"
    as_user mkdir "$HOME_DIR/work/back"
    run -0 file download-batch -s batch -d back --dryrun -o none
    prints_nothing as_user find "$HOME_DIR/work/back" -type f
    file download-batch -s batch/a -d back -o none
    [[ $(as_user find "$HOME_DIR/work/back" -type f -printf x) == xx ]]
    file delete-batch -s batch --pattern 'a/*'
    [[ $(file list -s batch --exclude-dir --query '[].name' -o tsv) == one.csv ]]
    prints_nothing as_user find "$HOME_DIR/records/storage/mystorage/file-shares/batch/a" -type f
    run -5 file download-batch -s batch -d nosuch
}

# Breaks when a blob needs a directory, or its name is not the path in the container.
@test "blobs are files of any depth in a container" {
    az storage container create -n models --account-name mystorage -o none
    printf 'weights' | write_work w.bin
    blob upload -c models -f w.bin -n run1/epoch2/w.bin | keys_are "etag lastModified"
    blob upload-batch -s . -d models --pattern 'w.bin' --destination-path top -o none
    run -0 blob list -c models --query '[].name' -o tsv
    [[ $output == $'run1/epoch2/w.bin\ntop/w.bin' ]]
    [[ $(blob list -c models --prefix run1/ --query 'length(@)') == 1 ]]
    run -0 blob list -c models -o table
    [[ ${lines[0]} =~ ^Name\ +Blob\ Type\ +Blob\ Tier\ +Length\ +Content\ Type\ +Last\ Modified$ ]]
    blob show -c models -n run1/epoch2/w.bin | jq -e '.properties.contentLength == 7 and .properties.blobType == "BlockBlob"'
    blob download -c models -n run1/epoch2/w.bin -f copy.bin -o none
    as_user cmp "$HOME_DIR/work/w.bin" "$HOME_DIR/work/copy.bin"
    as_user mkfifo "$HOME_DIR/work/fifo"
    run -2 blob download -c models -n run1/epoch2/w.bin -f fifo
    as_user test -p "$HOME_DIR/work/fifo"
    as_user rm "$HOME_DIR/work/fifo"
    blob download-batch -s models -d into-blobs --dryrun 2> /dev/null && return 1
    # A path behind the container's name limits what is listed, as it does for show.
    [[ $(blob list -c models/run1 --query '[].name' -o tsv) == run1/epoch2/w.bin ]]
    blob delete -c models -n top/w.bin
    [[ $(blob exists -c models -n top/w.bin --query exists) == false ]]
    run -2 blob upload -c models -f w.bin -n ../w.bin
}

# Breaks when a path or a link leads out of a share, or a link is followed when a file is written.
@test "nothing leads out of a share" {
    az storage share create -n trap --account-name mystorage -o none
    local share=$HOME_DIR/records/storage/mystorage/file-shares/trap
    printf 'mine' | write_work own
    printf 'keep' | write_home secret
    as_user ln -s /etc "$share/etc"
    as_user ln -s "$HOME_DIR/secret" "$share/file"
    as_user ln -s ../../../.. "$share/up"
    local path
    for path in ../../x /../x a/../../x .. up/secret etc/passwd; do
        run file download -s trap --path "$path"
        [[ $status -eq 2 && $output == *"leaves the share"* ]]
        run file upload -s trap --path "$path/own.txt" --source own
        [[ $status -eq 2 && $output == *"leaves the share"* ]]
        run file delete -s trap --path "$path"
        [[ $status -eq 2 ]]
    done
    run -2 file list -s trap --path etc
    run -2 file list -s trap/../.. --path .
    run -2 az storage directory create -n etc/new -s trap --account-name mystorage
    run -2 file download -s trap --path file
    run -0 file list -s trap -o table
    [[ $output == *other* && $output != *dir* ]]
    [[ $(file download-batch -s trap -d . --query 'length(@)') == 0 ]]
    # The name gets a file of its own, and what the link led to stays.
    file upload -s trap --path file.txt --source own
    as_user ln -sf "$HOME_DIR/secret" "$share/file.txt"
    file upload -s trap --path file.txt --source own
    [[ $(as_user cat "$HOME_DIR/secret") == keep && $(as_user cat "$share/file.txt") == mine ]]
    # Deleting the share removes the links and not what they lead to.
    az storage share delete -n trap --account-name mystorage -o none
    as_user test -f /etc/passwd
    [[ $(as_user cat "$HOME_DIR/secret") == keep ]]
}

# Breaks when a share that bob has prepared takes alice's command to other files of hers.
@test "a share that somebody else can write to is as safe" {
    as_bob sh -c 'mkdir -p /home/bob/open/evil && chmod 777 /home/bob/open /home/bob/open/evil && chmod o+x /home/bob'
    as_bob sh -c "ln -sfn $HOME_DIR /home/bob/open/link && ln -sfn $HOME_DIR/secret2 /home/bob/open/evil/out.txt"
    printf 'keep' | write_home secret2
    printf 'new' | write_work own2
    as_user bash -c "sed 's|faraway = .*|bobs = { file_share_directory = \"/home/bob/open/%s\" },|' $HOME_DIR/site.lua > $HOME_DIR/bob.lua"
    bobs() { az_with "BATCHAI_SITE=$HOME_DIR/bob.lua" storage "$@" --account-name bobs; }
    run -1 bobs file list -s link
    [[ $output == *"not followed"* ]]
    [[ $(bobs share list --query '[].name' -o tsv) == evil ]]
    run -2 bobs file download -s evil --path out.txt
    bobs file upload -s evil --path out.txt --source own2
    [[ $(as_user cat "$HOME_DIR/secret2") == keep ]]
    as_bob rm -rf /home/bob/open
}

# Breaks when an interrupted upload leaves half a file, or its temporary one.
@test "an interrupt leaves no half file" {
    az storage share create -n cut --account-name mystorage -o none
    local share=$HOME_DIR/records/storage/mystorage/file-shares/cut
    # Data, and not a hole, so that copying takes longer than the signal.
    as_user bash -c 'cd "$1/work" && head -c 32M /dev/zero | tr "\0" x > part &&
        for i in 1 2 3 4 5 6 7 8; do cat part; done > big' - "$HOME_DIR"
    for _ in {1..10}; do
        # shellcheck disable=SC2016 # for the inner shell
        run as_user bash -c 'cd "$1/work" && export BATCHAI_HOME=$1/records BATCHAI_SITE=$1/site.lua
            "$2/bin/batchai" storage file upload -s cut --source big --account-name mystorage & p=$!
            until compgen -G "$3/.batchai-*" > /dev/null || ! kill -0 $p 2> /dev/null; do :; done
            kill -TERM $p; wait $p' - "$HOME_DIR" "$PREFIX" "$share"
        # On a busy machine the copy can end before this shell runs again.
        [[ $status -eq 0 ]] || break
        as_user rm "$share/big"
    done
    [[ $status -eq 143 ]]
    prints_nothing as_user find "$share" -mindepth 1
    as_user rm "$HOME_DIR/work/big" "$HOME_DIR/work/part"
}

# Breaks when a record is made of a server that the site does not have, or its shape changes.
@test "file servers are records of what the site has" {
    local parents=(-w dev -g team)
    az batchai workspace create -n dev -g team -o none
    run -1 az batchai file-server create -n nosuch "${parents[@]}"
    [[ $output == *'this site has no file server "nosuch"'*"file servers nfs"* ]]
    az batchai file-server create -n nfs "${parents[@]}" -s Standard_D2 --disk-count 1 --disk-size 10 \
        --storage-sku Standard_LRS -u alice -p secret --generate-ssh-keys |
        keys_are "creationTime dataDisks id mountSettings name provisioningState provisioningStateTransitionTime resourceGroup sshConfiguration subnet type vmSize"
    run -0 az batchai file-server list "${parents[@]}" -o table
    [[ ${lines[0]} =~ ^Name\ +Resource\ Group\ +Size\ +Disks\ +Public\ IP\ +Internal\ IP\ +Mount\ Point$ ]]
    [[ ${lines[2]} == *"STANDARD_D2"*"1 x 10 Gb"*"$HOME_DIR/nfs" ]]
    local id
    id=$(az batchai file-server show -n nfs "${parents[@]}" --query id -o tsv)
    jq -n --arg id "$id" '{properties: {nodeCount: 1, stdOutErrPathPrefix: "$AZ_BATCHAI_JOB_TEMP_DIR",
        mountVolumes: {fileServers: [{fileServer: {id: $id}, relativeMountPath: "nfs"}]},
        customToolkitSettings: {commandLine: "true"}}}' | write_work server.json
    run -0 az batchai job create -f server.json --dry-run
    [[ $output == *"$HOME_DIR/nfs"* ]]
    run -2 az batchai file-server delete --ids "$id"
    az batchai file-server delete --ids "$id" --yes
    [[ $(az batchai file-server list "${parents[@]}") == "[]" ]]
}

# Breaks when the nodes of a cluster, its files or the cores in use are not told.
@test "a cluster's nodes and files, and the cores in use" {
    az batchai workspace create -n nodes -g team -o none
    az batchai cluster create -n nc6 -w nodes -g team -s STANDARD_NC6 -t 2 --generate-ssh-keys -o none
    run -0 az batchai cluster node list -c nc6 -w nodes -g team -o table
    [[ ${lines[0]} =~ ^ID\ +IP\ +SSH\ Port$ && ${#lines[@]} -eq 4 && ${lines[2]} =~ ^h[1-4]\ +[0-9.]+ ]]
    az batchai cluster node list -c nc6 -w nodes -g team | jq -e 'all(keys == ["ipAddress", "nodeId", "port"])'
    [[ $(az batchai cluster file list -c nc6 -w nodes -g team) == "[]" ]]
    run -2 az batchai cluster node exec -c nc6 --exec hostname
    [[ $output == *"az batchai cluster node exec"*"without a job"*"job node exec"* ]]
    az batchai list-usages -l eastus | jq -e '.[0] | keys == ["currentValue", "limit", "name", "unit"]
        and .name.value == "STANDARD_NC6" and .unit == "Count" and .limit > 0 and .currentValue <= .limit'
    run -0 az batchai usage list -l eastus -o table
    [[ ${lines[0]} =~ ^Value\ +Usage\ +Limit$ && ${lines[2]} =~ ^"STANDARD_NC6 Cores"\ +[0-9]+\ +[0-9]+$ ]]
    # Several ids give one list, with the table of the command.
    local ids
    ids=$(az batchai cluster list -w nodes -g team --query '[].id' -o tsv)
    run -0 az batchai cluster show --ids "$ids" "$ids" -o table
    [[ ${#lines[@]} -eq 4 && ${lines[0]} == *"VM Size"* ]]
    [[ $(az batchai cluster show --ids "$ids" --query name) == '"nc6"' ]]
    run -2 az batchai job show --ids "$ids"
    [[ $output == *"is not the id of a job"* ]]
    az batchai cluster delete --ids "$ids" --yes --no-wait
}

# Breaks when the storage is made anew for each cluster, or its volumes are not the cluster's.
@test "a cluster may have storage made for it" {
    az batchai workspace create -n auto -g team -o none
    local name
    for name in first second; do
        run -0 --separate-stderr az batchai cluster create -n $name -w auto -g team -s STANDARD_NC6 -t 1 --use-auto-storage \
            --query 'nodeSetup.mountVolumes.[azureFileShares[0].relativeMountPath, azureBlobFileSystems[0].relativeMountPath]' -o tsv
        [[ $output == $'autoafs\tautobfs' ]] || [[ $output == $'autoafs\nautobfs' ]]
    done
    # shellcheck disable=SC2154 # bats' run --separate-stderr sets it
    [[ $stderr == *"Using existing bai"*"storage account as an auto-storage account"* ]]
    [[ $(az storage account list -g batchaiautostorage --query 'length(@)') == 1 ]]
    name=$(az storage account list -g batchaiautostorage --query '[0].name' -o tsv)
    [[ $name =~ ^bai[a-z]{12}$ ]]
    [[ $(az storage share exists -n batchaishare --account-name "$name" --query exists) == true ]]
    [[ $(az storage container exists -n batchaicontainer --account-name "$name" --query exists) == true ]]
    az group delete -n batchaiautostorage --yes
    az batchai workspace delete -n auto -g team --yes --no-wait
}

# Breaks when a global option is not taken, or acts on standard output.
@test "all commands have the options of the Azure CLI" {
    run -0 az group show -n team -o yaml
    [[ $output == *$'\nname: team\nproperties:\n  provisioningState: Succeeded\ntags: null' ]]
    run -0 az group show -n team -o YAMLC --query name
    [[ $output == $'team\n...' ]]
    run -0 az group show -n team -o none --subscription mine
    [[ -z $output ]]
    run -0 --separate-stderr az group show -n team --query name -o tsv --verbose
    [[ $output == team && $stderr == *"the records are in $HOME_DIR/records"*"site.lua"* ]]
    run -0 --separate-stderr az batchai list-usages --debug -o none
    [[ -z $output && $stderr == *"ran sinfo "*"exit code 0"* ]]
    run -0 --separate-stderr az login -u alice -p secret -o none --only-show-errors
    [[ -z $output && -z $stderr ]]
}

# Breaks when what scripts begin with fails, or changes anything but the defaults that it names.
@test "scripts may log in, choose a subscription and set defaults" {
    az login | jq -e '.[0].user.name == "alice" and .[0].state == "Enabled"'
    az account show | keys_are "environmentName id isDefault name state tenantId user"
    az account list -o table
    az account set --subscription "anything at all"
    az account set -s "anything at all"
    az account show --name "anything at all" --query state | grep -qx '"Enabled"'
    az provider register -n Microsoft.BatchAI
    az logout
    run -0 az --version
    [[ $output == *.*.* ]]
    az batchai workspace create -n ours -g team -o none
    az_with "XDG_CONFIG_HOME=$HOME_DIR/config" configure --defaults group=team workspace=dev
    az_with "XDG_CONFIG_HOME=$HOME_DIR/config" configure --list-defaults |
        jq -e 'map({(.name): .value}) | add == {group: "team", workspace: "dev"}'
    [[ $(az_with "XDG_CONFIG_HOME=$HOME_DIR/config" batchai workspace list --query '[0].resourceGroup') == '"team"' ]]
}

# Breaks when a link replaces a real az, is made where nobody looks without a word, or stays.
@test "batchai az puts a link on PATH and takes it out again" {
    # shellcheck disable=SC2016 # for the inner shell
    batchai_az() { as_user bash -c 'cd "$1" && PATH="$2:$PATH" exec "$3/bin/batchai" az "${@:4}"' - "$HOME_DIR" "$1" "$PREFIX" "${@:2}"; }
    local bin=$HOME_DIR/bin
    run -5 batchai_az /none --install "$bin"
    as_user mkdir "$bin"
    run -0 batchai_az /none --install bin
    [[ $output == "$bin/az -> $PREFIX/bin/batchai"*"is not on PATH"* ]]
    run -0 --separate-stderr batchai_az "$bin" --install "$bin"
    [[ -z $stderr ]]
    run -0 as_user bash -c "PATH=$bin:\$PATH az --version"
    run -0 batchai_az "$bin"
    [[ $output == "$bin/az starts batchai" ]]
    as_user mkdir "$HOME_DIR/first"
    as_user bash -c "printf '#!/bin/sh\necho real\n' > $HOME_DIR/first/az && chmod 755 $HOME_DIR/first/az"
    run -0 --separate-stderr batchai_az "$HOME_DIR/first:$bin" --install "$bin"
    [[ $stderr == *"$HOME_DIR/first/az comes before it"* ]]
    run -4 batchai_az "$bin" --install "$HOME_DIR/first"
    run -4 batchai_az "$bin" --uninstall "$HOME_DIR/first"
    [[ $(as_user "$HOME_DIR/first/az") == real ]]
    batchai_az "$bin" --install "$HOME_DIR/first" --force
    batchai_az "$bin" --uninstall "$HOME_DIR/first"
    batchai_az "$bin" --uninstall "$bin"
    prints_nothing as_user find "$bin" "$HOME_DIR/first" -mindepth 1
}

# Breaks when the modulefile or the completion of az names what is not installed.
@test "the modulefile and the completion of az are installed" {
    local module path
    module=$(as_user find "$PREFIX/share/batchai/modulefiles/batchai" -type f)
    path=$(as_user awk '$1 == "prepend-path" && $2 == "PATH" { gsub(/"/, "", $3); print $3 }' "$module")
    [[ $path == "$PREFIX/bin"$'\n'"$PREFIX/libexec/batchai/az-drop-in" ]]
    as_user bash -c "PATH=$PREFIX/libexec/batchai/az-drop-in:\$PATH; source $PREFIX/share/batchai/completion/az.bash
        COMP_WORDS=(az batchai clus); COMP_CWORD=2; _az; [[ \${COMPREPLY[*]} == cluster ]]"
    # Where az is another program, it does nothing.
    as_user bash -c "set -e; source $PREFIX/share/batchai/completion/az.bash; ! declare -F _az"
}

# Breaks when a command that is not available here is answered as a typing error, or without help.
@test "what Slurm has not is answered by name" {
    run -2 az keyvault secret show --name x
    [[ $output == *'`az keyvault` is not available on Slurm'*fromEnv* ]]
    run -2 az storage blob copy start --destination-blob x
    [[ $output == *"az storage blob copy"* ]]
    run -2 az stroage share list
    [[ $output == *'did you mean "storage"?'* ]]
    # All that is wrong with a command is said at once.
    run -2 az storage blob upload -c c -f f -n n --lease-id x --snapshot y --conten-type z
    [[ $output == *'unknown option "--snapshot"'*'unknown option "--conten-type"; did you mean "--content-type"?'* ]]
    run -2 az storage blob upload -c c --lease-id x
    [[ $output == *"--lease-id: "*"is required"* ]]
    run -2 az batchai job list --experiment-name x
    [[ $output == *'did you mean "--experiment"?'* ]]
}

# Breaks when a command of people's blogs and old scripts stops at an option without a meaning here, or
# takes a file for a cluster.
@test "the commands of blogs and of older releases run, and say what has no effect" {
    jq -n --arg logs "$HOME_DIR/logs" '{"$schema": "x", location: "eastus", tags: {a: "b"}, name: "n", properties: {
        nodeCount: 1, stdOutErrPathPrefix: $logs, customToolkitSettings: {commandLine: "true"}}}' | write_work q.json
    run -0 az batchai cluster create -n old -s STANDARD_NC6 --min 1 --max 1 -u alice -p secret -l eastus \
        --image UbuntuLTS --storage-account-name mystorage --storage-account-key AAAA= \
        --afs-name files --container-name blobs --subnet /x -o none
    [[ $output == *"--image: "*containerSettings*"--storage-account-key: "*"--subnet: "*"--location: "*"--user-name has no effect"* ]]
    [[ $output != *AAAA=* && $output != *secret* ]]
    run -0 --separate-stderr az batchai job create -n j -l eastus -c q.json -r old --query cluster.id -o tsv
    # shellcheck disable=SC2154 # bats' run --separate-stderr sets it
    [[ $output == */clusters/old && $stderr == *"q.json is taken for the job file"*"--location: "* ||
        $output == */clusters/old && $stderr == *"--location: "*"q.json is taken for the job file"* ]]
    # What the file has beside "properties" is ignored.
    [[ $stderr == *'"location" belongs to schema 2018-03-01 and is ignored'*'"tags" belongs'*'"name" is set by the service'* ]]
    run -0 az batchai job create -n k --cluster-name old --config q.json --query cluster.id -o tsv
    [[ $output == */clusters/old ]]
    run -2 az batchai job create -n l -c q.json -f q.json
    [[ $output == *"q.json: is a job file, and --config-file names another"* ]]
    run -2 az batchai job create -n l -c old -r older -f q.json
    [[ $output == *"names a second cluster"* ]]
    run -2 az batchai job create -n l -c old
    [[ $output == *"--config-file is required"* ]]
    az batchai job delete -n j --yes
    az batchai job delete -n k --yes
    az batchai cluster delete -n old --yes
}

# Breaks when a user who has written a file by an unquoted here-document is left to find out.
@test "a key that the shell has taken away is told as such" {
    write_work empty.json << 'JSON'
{ "": "https://raw.githubusercontent.com/Azure/BatchAI/master/schemas/2017-09-01-preview/job.json",
  "properties": { "nodeCount": 1, "stdOutErrPathPrefix": "/logs", "customToolkitSettings": { "commandLine": "true" } } }
JSON
    run -3 az batchai job create -n e -f empty.json
    [[ $output == *'unknown key ""; did the shell replace "$schema"'*"<< 'EOF'"* ]]
}
