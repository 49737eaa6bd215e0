# Gives the target `llama`: headers and shared libraries of llama.cpp v0.5.0, the version that the engine layer is
# written against, and LLAMA_FOLDER/bin-*, the servers that tools/setup built against it.
#
#   LLAMA_FROM=prebuilt              the libraries of the pinned release (the default)
#   LLAMA_FROM=source                the same release, built on this machine by tools/setup
#   RHIZOME_LLAMA_SOURCE=<tree>      a llama.cpp tree of your own, built by tools/setup
#   LLAMA_FROM=system                an installed llama.cpp, by find_package(llama)

set(LLAMA_FROM "prebuilt" CACHE STRING "prebuilt, source or system")
set(RHIZOME_LLAMA_SOURCE "" CACHE PATH "A llama.cpp tree to use instead of the pinned one")

set(RHIZOME_LLAMA_VERSION "v0.5.0")

if(LLAMA_FROM STREQUAL "system")
  find_package(llama CONFIG REQUIRED)
  add_library(llama_headers INTERFACE)
  target_include_directories(llama_headers SYSTEM INTERFACE
    $<TARGET_PROPERTY:llama,INTERFACE_INCLUDE_DIRECTORIES>)
  set(LLAMA_FOLDER "")
  set(LLAMA_BACKEND_DIR "")
  return()
endif()

if(RHIZOME_LLAMA_SOURCE)
  set(LLAMA_FOLDER ${RHIZOME_SETUP_CACHE}/llama-own)
elseif(LLAMA_FROM MATCHES "^(prebuilt|source)$")
  set(LLAMA_FOLDER ${RHIZOME_SETUP_CACHE}/llama-v0.5.0-${LLAMA_FROM})
else()
  message(FATAL_ERROR "LLAMA_FROM is '${LLAMA_FROM}'; it may be prebuilt, source or system")
endif()
if(NOT EXISTS ${LLAMA_FOLDER}/lib OR NOT EXISTS ${LLAMA_FOLDER}/src/include/llama.h)
  message(FATAL_ERROR "llama.cpp is not in ${LLAMA_FOLDER}: run tools/setup first")
endif()

# The soname carries the release in the prebuilt set (libllama.v0.5.0.so) and not in one built from source.
function(llama_library out stem)
  file(GLOB found ${LLAMA_FOLDER}/lib/lib${stem}.v*.so ${LLAMA_FOLDER}/lib/lib${stem}.so)
  list(LENGTH found count)
  if(count EQUAL 0)
    message(FATAL_ERROR "lib${stem} is not in ${LLAMA_FOLDER}/lib: run tools/setup again")
  endif()
  list(GET found 0 first)
  set(${out} ${first} PARENT_SCOPE)
endfunction()

llama_library(llama_so llama)
llama_library(ggml_so ggml)
llama_library(ggml_base_so ggml-base)

# Programs that link this find it by RUNPATH; CPU back ends are plug-ins that ggml_backend_load_all_from_path() wants to
# be told the folder of.
set(LLAMA_BACKEND_DIR ${LLAMA_FOLDER}/lib)
add_library(llama SHARED IMPORTED GLOBAL)
set_target_properties(llama PROPERTIES
  IMPORTED_LOCATION ${llama_so}
  INTERFACE_INCLUDE_DIRECTORIES "${LLAMA_FOLDER}/src/include;${LLAMA_FOLDER}/src/ggml/include"
  INTERFACE_LINK_LIBRARIES "${ggml_so};${ggml_base_so}")

# Headers only: for what is loaded into a program that brings its own libllama.
add_library(llama_headers INTERFACE)
target_include_directories(llama_headers SYSTEM INTERFACE
  ${LLAMA_FOLDER}/src/include ${LLAMA_FOLDER}/src/ggml/include)
