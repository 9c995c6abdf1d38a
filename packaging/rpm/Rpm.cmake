# SPDX-License-Identifier: GPL-2.0-or-later
# The RPM packages. What programs of the package need is found by rpm; the bundle's libraries are for
# containers, so that the package neither offers nor needs them.
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_RELEASE "${BATCHAI_PACKAGE_RELEASE}")
# CPack has one for all of them; what has which of the two is in each package's copyright file.
set(CPACK_RPM_PACKAGE_LICENSE "GPL-2.0-or-later AND Apache-2.0")
set(CPACK_RPM_PACKAGE_RELOCATABLE OFF)
set(CPACK_RPM_PACKAGE_URL "")
set(CPACK_RPM_CHANGELOG_FILE "")
# Directories that the system has already.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION
    /usr/share/man
    /usr/share/man/man1
    /usr/lib64/pkgconfig
    /usr/lib64/cmake
    /usr/share/bash-completion
    /usr/share/bash-completion/completions
    /usr/share/zsh
    /usr/share/zsh/vendor-completions
    /usr/share/fish
    /usr/share/fish/vendor_completions.d
    /usr/share/lintian
    /usr/share/lintian/overrides
    "/usr/${BATCHAI_PYTHON_SITE}")
set(bundle "^${CMAKE_INSTALL_PREFIX}/lib/batchai/bundle/")
# Stripped and compressed already, and the bill of materials lists the files as they are. The build's
# host and time would differ from one machine to the next.
set(CPACK_RPM_SPEC_MORE_DEFINE
    "%define __os_install_post %{nil}
%define __provides_exclude_from ${bundle}
%define __requires_exclude_from ${bundle}
%define _buildhost localhost
%define use_source_date_epoch_as_buildtime 1
%define clamp_mtime_to_source_date_epoch 1
%define _build_id_links none")

set(release "${PROJECT_VERSION}-${BATCHAI_PACKAGE_RELEASE}")
set(CPACK_RPM_LAUNCHER_PACKAGE_NAME batchai)
set(CPACK_RPM_LAUNCHER_PACKAGE_GROUP "System Environment/Base")
set(CPACK_RPM_LAUNCHER_PACKAGE_SUGGESTS "skopeo, umoci, squashfs-tools, squashfuse, fuse-overlayfs, rclone, curl, git, tar, elfutils-libs")

set(CPACK_RPM_PLUGIN_PACKAGE_NAME "batchai-slurm-plugin-${BATCHAI_SLURM_SERIES}")
set(CPACK_RPM_PLUGIN_PACKAGE_GROUP "System Environment/Base")
set(CPACK_RPM_PLUGIN_PACKAGE_REQUIRES
    "batchai = ${release}, slurm >= ${BATCHAI_SLURM_SERIES}, slurm < ${BATCHAI_SLURM_NEXT}")
set(CPACK_RPM_PLUGIN_PRE_UNINSTALL_SCRIPT_FILE "${CMAKE_CURRENT_BINARY_DIR}/plugin/preun")
configure_file(rpm/plugin.preun.in plugin/preun @ONLY)

set(CPACK_RPM_LIBRARY_PACKAGE_NAME libmpi-bridge0)
set(CPACK_RPM_LIBRARY_PACKAGE_GROUP "System Environment/Libraries")
set(CPACK_RPM_LIBRARY_POST_INSTALL_SCRIPT_FILE "${CMAKE_CURRENT_SOURCE_DIR}/rpm/ldconfig")
set(CPACK_RPM_LIBRARY_POST_UNINSTALL_SCRIPT_FILE "${CMAKE_CURRENT_SOURCE_DIR}/rpm/ldconfig")

set(CPACK_RPM_DEVELOPMENT_PACKAGE_NAME libmpi-bridge-devel)
set(CPACK_RPM_DEVELOPMENT_PACKAGE_GROUP "Development/Libraries")
set(CPACK_RPM_DEVELOPMENT_PACKAGE_REQUIRES "libmpi-bridge0 = ${release}")

set(CPACK_RPM_PYTHON_PACKAGE_PACKAGE_NAME python3-mpi-bridge)
set(CPACK_RPM_PYTHON_PACKAGE_PACKAGE_GROUP "Development/Libraries")
set(CPACK_RPM_PYTHON_PACKAGE_PACKAGE_ARCHITECTURE noarch)
set(CPACK_RPM_PYTHON_PACKAGE_PACKAGE_REQUIRES "libmpi-bridge0 = ${release}, python3 >= 3.9")

foreach(part IN ITEMS LAUNCHER PLUGIN LIBRARY DEVELOPMENT PYTHON_PACKAGE)
  string(REGEX MATCH "^[^\n]+" CPACK_RPM_${part}_PACKAGE_SUMMARY "${CPACK_COMPONENT_${part}_DESCRIPTION}")
  string(REGEX REPLACE "^collective" "Collective" CPACK_RPM_${part}_PACKAGE_SUMMARY
                       "${CPACK_RPM_${part}_PACKAGE_SUMMARY}")
  set(CPACK_RPM_${part}_PACKAGE_DESCRIPTION "${CPACK_COMPONENT_${part}_DESCRIPTION}")
endforeach()
