# libexec/: the servers that the program starts, each in a folder of its own beside what the dynamic linker and ggml
# look for there (ggml searches its CPU back ends in the folder of the program).
#
#   libexec/rhizome/   llama-server with the patch, llama.cpp's libraries, librhizome_llama.so
#   libexec/stock/     llama-server as it is, llama.cpp's libraries
#
# `ninja bundle` makes it in the build tree, with links; `cmake --install` copies it.

include(GNUInstallDirs)

# A library with a sanitizer in it cannot be loaded into a server without one.
if(RHIZOME_SANITIZE)
  set_target_properties(rhizome_llama PROPERTIES EXCLUDE_FROM_ALL ON)
  return()
endif()

install(TARGETS rhizome RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS rhizome_llama LIBRARY DESTINATION lib)
add_custom_target(bundle ALL DEPENDS rhizome_llama)
if(NOT LLAMA_FOLDER)
  return()  # an installed llama.cpp: its own server is started with `rhizome run`
endif()
foreach(flavour IN ITEMS rhizome stock)
  if(EXISTS ${LLAMA_FOLDER}/bin-${flavour}/llama-server)
    set(library "")
    if(flavour STREQUAL "rhizome")
      set(library $<TARGET_FILE:rhizome_llama>)
    endif()
    add_custom_command(TARGET bundle POST_BUILD
      COMMAND ${CMAKE_COMMAND} -DFROM=${LLAMA_FOLDER} -DFLAVOUR=${flavour} -DLIBRARY=${library}
              -DTO=${CMAKE_BINARY_DIR}/libexec/${flavour} -P ${CMAKE_SOURCE_DIR}/cmake/BundleFolder.cmake)
    install(PROGRAMS ${LLAMA_FOLDER}/bin-${flavour}/llama-server DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/${flavour})
  endif()
endforeach()

# Installed, both servers share one copy of llama.cpp's libraries.
file(GLOB llama_files ${LLAMA_FOLDER}/lib/*.so*)
install(FILES ${llama_files} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/rhizome)
install(CODE "
  set(folder \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBEXECDIR})
  foreach(file IN ITEMS ${llama_files})
    get_filename_component(name \${file} NAME)
    file(CREATE_LINK ../rhizome/\${name} \${folder}/stock/\${name} SYMBOLIC)
  endforeach()
  file(CREATE_LINK ../../lib/librhizome_llama.so \${folder}/rhizome/librhizome_llama.so SYMBOLIC)")
