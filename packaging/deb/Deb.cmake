# SPDX-License-Identifier: GPL-2.0-or-later
# The Debian packages. Names, sections, and what each needs; the library dependencies are found.
set(version "${PROJECT_VERSION}-${BATCHAI_PACKAGE_RELEASE}")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE "${BATCHAI_PACKAGE_RELEASE}")
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SOURCE batchai)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(CPACK_DEBIAN_LAUNCHER_PACKAGE_NAME batchai)
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_SECTION admin)
# Containers need skopeo to uidmap, remote volumes rclone, webhooks curl, and snapshots git. libdw1 is
# for stacks of C.
set(CPACK_DEBIAN_LAUNCHER_PACKAGE_RECOMMENDS
    "slurm-client, skopeo, umoci, squashfs-tools, squashfuse, fuse-overlayfs, uidmap, rclone, curl, git, libdw1")

set(series "${BATCHAI_SLURM_SERIES}")
set(needed_slurm
    "slurm-wlm-basic-plugins (>= ${series}~), slurm-wlm-basic-plugins (<< ${BATCHAI_SLURM_NEXT}~)")
set(CPACK_DEBIAN_PLUGIN_PACKAGE_NAME "batchai-slurm-plugin-${series}")
set(CPACK_DEBIAN_PLUGIN_PACKAGE_SECTION admin)
# Debian's Slurm loads PMIx by the name libpmix.so, which only this package of Debian's has.
set(CPACK_DEBIAN_PLUGIN_PACKAGE_DEPENDS "batchai (= ${version}), ${needed_slurm}, libpmix-dev (>= 4)")
configure_file(deb/plugin.prerm.in plugin/prerm @ONLY)
set(CPACK_DEBIAN_PLUGIN_PACKAGE_CONTROL_EXTRA "${CMAKE_CURRENT_BINARY_DIR}/plugin/prerm")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libmpi-bridge0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
# Checked against the library, and with the package's version: scripts/package.
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/library/shlibs"
     "libmpi_bridge 0 libmpi-bridge0 (>= ${PROJECT_VERSION})\n")
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/library/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
    "${CMAKE_CURRENT_BINARY_DIR}/library/shlibs;${CMAKE_CURRENT_BINARY_DIR}/library/triggers;${CMAKE_CURRENT_SOURCE_DIR}/deb/symbols"
)

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libmpi-bridge-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libmpi-bridge0 (= ${version})")

set(CPACK_DEBIAN_PYTHON_PACKAGE_PACKAGE_NAME python3-mpi-bridge)
set(CPACK_DEBIAN_PYTHON_PACKAGE_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_PACKAGE_DEPENDS
    "libmpi-bridge0 (= ${version}), python3 (>= 3.9~)"
)
set(CPACK_DEBIAN_PYTHON_PACKAGE_PACKAGE_SUGGESTS python3-numpy)
set(CPACK_DEBIAN_PYTHON_PACKAGE_PACKAGE_CONTROL_EXTRA
    "${CMAKE_CURRENT_SOURCE_DIR}/deb/python/postinst;${CMAKE_CURRENT_SOURCE_DIR}/deb/python/prerm")

foreach(part IN ITEMS LAUNCHER PLUGIN LIBRARY DEVELOPMENT PYTHON_PACKAGE)
  # The first line of the description is the synopsis.
  set(CPACK_DEBIAN_${part}_DESCRIPTION "${CPACK_COMPONENT_${part}_DESCRIPTION}")
endforeach()
