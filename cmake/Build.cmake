# How everything is compiled: language, warnings, sanitizers, the compiler cache, where programs and libraries land.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)

# librhizome_llama.so is loaded into other people's programs: only what it says it exports may be seen there.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()

add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
                    -Wimplicit-fallthrough -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12's std::stable_sort calls what it has itself deprecated, and clang does not see that it is the system's.
  add_compile_options(-Wthread-safety -Wno-deprecated-declarations)
else()
  # g++ 12 at -O3 sees an overlap in std::string's own operator+ and an overflow in std::vector's own insert that are
  # not there (its bugs 105651 and 100366); clang compiles the tree with its own analysis in the other presets.
  add_compile_options(-Wno-restrict -Wno-stringop-overflow)
endif()

set(RHIZOME_SANITIZE "" CACHE STRING "Sanitizers to build with: 'address,undefined', 'thread' or none")
if(RHIZOME_SANITIZE)
  add_compile_options(-fsanitize=${RHIZOME_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${RHIZOME_SANITIZE})
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_options(-O1 -g1)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()

# What tools/setup fetches and builds once a machine. The environment variable of the same name moves it.
if(DEFINED ENV{RHIZOME_SETUP_CACHE})
  set(setup_cache_default $ENV{RHIZOME_SETUP_CACHE})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(setup_cache_default $ENV{XDG_CACHE_HOME}/rhizome-setup)
else()
  set(setup_cache_default $ENV{HOME}/.cache/rhizome-setup)
endif()
set(RHIZOME_SETUP_CACHE ${setup_cache_default} CACHE PATH "The folder that tools/setup fills")

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the tree, so that another clone of it finds the same objects.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1)
  if(NOT DEFINED ENV{CCACHE_DIR})
    list(APPEND launcher CCACHE_DIR=${RHIZOME_SETUP_CACHE}/ccache)
  endif()
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher} ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher} ${CCACHE})
endif()

find_package(Threads REQUIRED)
