#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# What is in the packages. ctest sets SOURCE and PACKAGES, the directory that `make` has filled.

bats_require_minimum_version 1.5.0
load ../integration/lib

# The series of this system's Slurm, such as 22.05, which the plugin is made for, and its first successor.
series=$(slurmd -V | sed -n 's/^slurm[^ ]* \([0-9]*\.[0-9]*\).*/\1/p')
next_series=$(printf '%s.%02d' "${series%.*}" "$((10#${series#*.} + 1))")
plugin=batchai-slurm-plugin-$series
debian_packages=(batchai "$plugin" libmpi-bridge0 libmpi-bridge-dev python3-mpi-bridge)

# deb NAME [SET]: the path of that package.
deb() { echo "$PACKAGES/${2:-one}/$1"_*.deb; }

# files_of NAME: the paths of its files, links and directories left out.
files_of() { dpkg-deb --fsys-tarfile "$(deb "$1")" | tar -tf - | grep -v '/$' | sed 's/^\.//'; }

# unpack NAME…: into $BATS_TEST_TMPDIR/root.
unpack() {
    local name
    for name in "$@"; do dpkg-deb -x "$(deb "$name")" "$BATS_TEST_TMPDIR/root"; done
}

# has NAME PATH…: the package has these files.
has() {
    local files name=$1 path
    files=$(files_of "$name")
    shift
    for path in "$@"; do
        grep -qxF -- "$path" <<< "$files" || { echo "$name has no $path; it has:"; echo "$files"; return 1; }
    done
}

# Breaks when a package is not made, or one more is.
@test "there are the five packages and the wheel" {
    local name
    for name in "${debian_packages[@]}"; do [[ -f $(deb "$name") ]]; done
    [[ $(find "$PACKAGES/one" -name '*.deb' | wc -l) -eq 5 ]]
    [[ $(find "$PACKAGES/one" -name '*.whl') == */mpi_bridge-*-py3-none-any.whl ]]
}

# Breaks when a file gets into another package, or into none.
@test "each package has its files" {
    local libraries=/usr/lib/x86_64-linux-gnu
    has batchai /usr/bin/batchai /usr/libexec/batchai/batchai-node /usr/libexec/batchai/az-drop-in/az \
        /usr/share/man/man1/batchai-job.1.gz /usr/share/bash-completion/completions/batchai \
        /usr/share/zsh/vendor-completions/_batchai /usr/share/fish/vendor_completions.d/batchai.fish \
        /usr/share/batchai/completion/az.bash /usr/share/batchai/completion/_az \
        /usr/share/batchai/completion/az.fish /usr/share/man/man1/batchai-storage.1.gz \
        /usr/share/batchai/job.schema.json /usr/share/batchai/site.lua.example \
        /usr/share/batchai/cli_filter.lua /usr/share/batchai/job_submit.lua /usr/lib/batchai/bundle/manifest.json \
        "$libraries/batchai/batchai_cli_filter.so" /usr/share/batchai/examples/README.md
    has "$plugin" "$libraries/batchai/slurm-$series/batchai.so" \
        "/usr/share/batchai/slurm-$series/plugstack.conf"
    has libmpi-bridge0 "$libraries/libmpi_bridge.so.0"
    has libmpi-bridge-dev "$libraries/libmpi_bridge.so" "$libraries/pkgconfig/mpi_bridge.pc" \
        "$libraries/cmake/mpi_bridge/mpi_bridgeConfig.cmake" /usr/include/mpi_bridge{,_engine,_messages,_python}.h
    has python3-mpi-bridge /usr/lib/python3/dist-packages/mpi_bridge/library.py \
        /usr/lib/python3/dist-packages/mpi_bridge/torch_backend/{module.cpp,work/work.cpp,mpi_bridge_engine.h} \
        /usr/lib/python3/dist-packages/horovod/torch/__init__.py /usr/bin/horovodrun
}

# Breaks when two packages have the same file, so that they cannot be installed together.
@test "no file is in two packages" {
    local name
    run sort <(for name in "${debian_packages[@]}"; do files_of "$name"; done)
    [[ $(uniq -d <<< "$output") == "" && ${#lines[@]} -gt 100 ]]
}

# Breaks when a package brings a configuration file, or a program that runs as somebody else.
@test "no package touches /etc or raises privileges" {
    local name listed
    for name in "${debian_packages[@]}"; do
        listed=$(dpkg-deb -c "$(deb "$name")")
        [[ $(grep -E ' \./(etc|var|lib|run)/' <<< "$listed") == "" ]]
        # The mode: no s, no t, nobody but root may write; links have all of their bits.
        [[ $(grep -vE '^(l|[-d]rw[-x]r-[-x]r-[-x] root/root)' <<< "$listed") == "" ]]
    done
    for name in batchai libmpi-bridge0 libmpi-bridge-dev; do
        dpkg-deb -e "$(deb "$name")" "$BATS_TEST_TMPDIR/$name"
        run find "$BATS_TEST_TMPDIR/$name" -name '*inst' -o -name '*rm'
        [[ $status -eq 0 && -z $output ]]
    done
}

# Breaks when the plugin could be installed beside a Slurm that refuses it.
@test "packages need just what they were built for" {
    local version needed
    version=$(dpkg-deb -f "$(deb batchai)" Version)
    needed=$(dpkg-deb -f "$(deb "$plugin")" Depends)
    [[ $needed == *"batchai (= $version)"* ]]
    [[ $needed == *libpmix-dev* ]]
    [[ $needed == *"slurm-wlm-basic-plugins (>= $series~), slurm-wlm-basic-plugins (<< $next_series~)"* ]]
    [[ $(dpkg-deb -f "$(deb libmpi-bridge-dev)" Depends) == "libmpi-bridge0 (= $version)" ]]
    needed=$(dpkg-deb -f "$(deb libmpi-bridge0)" Depends)
    [[ $needed == *libpmix2* && $needed == *libucx0* && $needed == *libc6* ]]
    needed=$(dpkg-deb -f "$(deb batchai)" Depends)
    [[ $needed == *libpmix2* && $needed == *liblua5.4-0* && $needed == *libarchive13* && $needed == *libc6* ]]
    # The plugin runs in Slurm's processes, whose libraries it must not choose.
    unpack "$plugin"
    run readelf -d "$BATS_TEST_TMPDIR/root/usr/lib/x86_64-linux-gnu/batchai/slurm-$series/batchai.so"
    [[ $status -eq 0 && $output != *libslurm* && $output != *libstdc++* && $output != *PATH* ]]
}

# Breaks when lintian has a new complaint. What is overridden has its reason in packaging/deb.
@test "lintian has nothing to say" {
    # As root it says on standard error that it had rather not be.
    run --separate-stderr lintian --fail-on error,warning --display-level '>=warning' \
        --suppress-tags-from-file "$SOURCE/packaging/deb/suppressed" "$PACKAGES"/one/*.deb
    echo "$output"
    [[ $status -eq 0 && -z $output ]]
}

# Breaks when the library is not found by pkg-config or CMake, or without its development package.
@test "a C program builds with pkg-config and with CMake, and runs" {
    local root=$BATS_TEST_TMPDIR/root libraries
    unpack libmpi-bridge0 libmpi-bridge-dev
    libraries=$root/usr/lib/x86_64-linux-gnu
    export PKG_CONFIG_LIBDIR="$libraries/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
    [[ $(pkg-config --modversion mpi_bridge) == 0.1.0 ]]
    # shellcheck disable=SC2046 # options, one argument each
    cc -o "$BATS_TEST_TMPDIR/by-pkg-config" "$SOURCE/tests/packages/consumer/consumer.c" \
        -I"$root/usr/include" -L"$libraries" $(pkg-config --cflags --libs mpi_bridge)
    cmake -S "$SOURCE/tests/packages/consumer" -B "$BATS_TEST_TMPDIR/build" \
        -DCMAKE_PREFIX_PATH="$root/usr" > "$BATS_TEST_TMPDIR/cmake.log"
    grep -q "$root" "$BATS_TEST_TMPDIR/build/CMakeCache.txt"
    cmake --build "$BATS_TEST_TMPDIR/build" >> "$BATS_TEST_TMPDIR/cmake.log"
    local program
    for program in "$BATS_TEST_TMPDIR/by-pkg-config" "$BATS_TEST_TMPDIR/build/consumer"; do
        readelf -d "$program" | grep -q 'NEEDED.*libmpi_bridge.so.0'
        LD_LIBRARY_PATH=$libraries run "$program"
        echo "$output"
        [[ $output == "sum 1 of 1 ranks" ]]
    done
}

# Breaks when the wheel is for one Python or processor, or does not find the installed library.
@test "the wheel and the Python package find the library" {
    local root=$BATS_TEST_TMPDIR/root
    unpack libmpi-bridge0 python3-mpi-bridge
    local check='import mpi_bridge; mpi_bridge.init(); print(mpi_bridge.size())'
    LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu PYTHONPATH=$root/usr/lib/python3/dist-packages \
        run /usr/bin/python3 -s -B -c "$check"
    echo "$output"
    [[ $output == 1 ]]
    python3 -m venv --without-pip "$BATS_TEST_TMPDIR/venv"
    python3 -m zipfile -e "$PACKAGES"/one/*.whl "$(echo "$BATS_TEST_TMPDIR"/venv/lib/python3*/site-packages)"
    LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu run "$BATS_TEST_TMPDIR/venv/bin/python" -B -c "$check"
    echo "$output"
    [[ $output == 1 ]]
    MPI_BRIDGE_LIBRARY=/nonexistent run "$BATS_TEST_TMPDIR/venv/bin/python" -B -c "$check"
    [[ $output == *"libmpi_bridge could not be loaded"*MPI_BRIDGE_LIBRARY* ]]
}

# Breaks when the time, the order of files, the user, or the directory of the build gets into a package.
@test "packages made again, and from elsewhere, are the same to the last byte" {
    local other path
    for other in again elsewhere; do
        [[ $(find "$PACKAGES/$other" -type f | wc -l) -eq 6 ]]
        for path in "$PACKAGES"/one/*; do
            cmp "$path" "$PACKAGES/$other/$(basename "$path")"
        done
    done
    for path in "$PACKAGES"/two/*.deb; do [[ $path == *_0.1.0-2_* ]]; done
}

# Breaks when the bill of materials leaves out a file, or what is compiled in or copied.
@test "the bill of materials names the files and what else is in them" {
    local name document listed
    unpack "${debian_packages[@]}"
    for name in "${debian_packages[@]}"; do
        document=$BATS_TEST_TMPDIR/root/usr/share/doc/$name/sbom.spdx.json
        jq -r '.files[] | "\(.checksums[] | select(.algorithm == "SHA256").checksumValue)  .\(.fileName[1:])"' \
            "$document" > "$BATS_TEST_TMPDIR/sums"
        (cd "$BATS_TEST_TMPDIR/root" && sha256sum --quiet --strict -c "$BATS_TEST_TMPDIR/sums")
        listed=$(dpkg-deb -c "$(deb "$name")" | grep -c '^-')
        # All but itself.
        [[ $(wc -l < "$BATS_TEST_TMPDIR/sums") -eq $((listed - 1)) ]]
        jq -e '.spdxVersion == "SPDX-2.3" and (.relationships | length > 0)' "$document" > /dev/null
    done
    # holds PACKAGE RELATION OTHER
    holds() {
        jq -e --arg kind "$2" --arg other "SPDXRef-Package-$3" \
            '.relationships | any(.relationshipType == $kind and .relatedSpdxElement == $other)' \
            "$BATS_TEST_TMPDIR/root/usr/share/doc/$1/sbom.spdx.json" > /dev/null
    }
    holds batchai STATIC_LINK libjsoncons-dev
    holds batchai STATIC_LINK libcli11-dev
    holds batchai CONTAINS libucx0
    holds batchai DYNAMIC_LINK libpmix2
    holds libmpi-bridge0 DYNAMIC_LINK libucx0
    holds libmpi-bridge0 STATIC_LINK libexpected-dev
    run ! holds libmpi-bridge0 CONTAINS libucx0
    [[ -s $BATS_TEST_TMPDIR/root/usr/share/doc/batchai/bundle/libucx0.copyright ]]
}

# rpm_of NAME
rpm_of() { echo "$PACKAGES/rpm/$1"-[0-9]*.rpm; }

# Breaks when an RPM has other files, scripts or needs than it should. None is installed here: their
# libraries are those of this system.
@test "the RPM packages have their files, needs and scripts" {
    local listed name
    [[ $(find "$PACKAGES/rpm" -name '*.rpm' | wc -l) -eq 5 ]]
    listed=$(rpm -qpl "$(rpm_of batchai)")
    grep -qx /usr/bin/batchai <<< "$listed"
    grep -qx /usr/lib64/batchai/batchai_cli_filter.so <<< "$listed"
    [[ $(rpm -qp --requires "$(rpm_of batchai)") != *libmpi* ]]
    [[ $(rpm -qp --provides "$(rpm_of batchai)") != *libucs.so* ]]
    rpm -qpl "$(rpm_of "$plugin")" | grep -qx "/usr/lib64/batchai/slurm-$series/batchai.so"
    listed=$(rpm -qp --requires "$(rpm_of "$plugin")")
    [[ $listed == *"batchai = 0.1.0-1"* && $listed == *"slurm >= $series"* && $listed == *"slurm < $next_series"* ]]
    rpm -qp --provides "$(rpm_of libmpi-bridge0)" | grep -q '^libmpi_bridge.so.0'
    rpm -qpl "$(rpm_of libmpi-bridge-devel)" | grep -qx /usr/lib64/pkgconfig/mpi_bridge.pc
    rpm -qpl "$(rpm_of python3-mpi-bridge)" | grep -q /site-packages/mpi_bridge/library.py
    for name in batchai libmpi-bridge-devel python3-mpi-bridge; do
        [[ -z $(rpm -qp --scripts "$(rpm_of "$name")") ]]
    done
    [[ $(rpm -qp --scripts "$(rpm_of libmpi-bridge0)") == *ldconfig* ]]
    listed=$(rpm -qp --scripts "$(rpm_of "$plugin")")
    [[ $listed == *"preuninstall scriptlet"*"still named in"* && $listed != *postinstall* ]]
    for name in "$PACKAGES"/rpm/*.rpm; do
        prints_nothing lines_like '^/(etc|var|run)' rpm -qpl "$name"
    done
}

# Breaks when rpmlint has a new complaint; packaging/rpm/rpmlint.toml has what is left out, and why.
@test "rpmlint has nothing to say" {
    run rpmlint --config "$SOURCE/packaging/rpm/rpmlint.toml" "$PACKAGES"/rpm/*.rpm
    echo "$output"
    [[ $status -eq 0 && $output == *" 0 errors, 0 warnings"* ]]
}
