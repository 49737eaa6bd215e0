# librhizome for others' programs: header, library, and what find_package(rhizome) and pkg-config read. All of it names
# its own place relative to where it lies, so that an installed tree can be moved. By itself:
#
#   cmake --install BUILD --prefix PREFIX --component library

if(RHIZOME_SANITIZE)
  return()
endif()

include(CMakePackageConfigHelpers)

set(library_folder lib)
set(package_folder ${library_folder}/cmake/rhizome)

install(TARGETS rhizome_library EXPORT rhizome
  LIBRARY DESTINATION ${library_folder} COMPONENT library NAMELINK_COMPONENT library
  INCLUDES DESTINATION include)
install(FILES ${CMAKE_SOURCE_DIR}/include/rhizome/rhizome.h DESTINATION include/rhizome COMPONENT library)

install(EXPORT rhizome NAMESPACE rhizome:: FILE rhizome-config.cmake DESTINATION ${package_folder} COMPONENT library)
# Before 1.0 what another minor version has may be called otherwise.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/rhizome-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/rhizome-config-version.cmake DESTINATION ${package_folder} COMPONENT library)

configure_file(${CMAKE_SOURCE_DIR}/cmake/rhizome.pc.in ${CMAKE_BINARY_DIR}/rhizome.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/rhizome.pc DESTINATION ${library_folder}/pkgconfig COMPONENT library)
