# rhizome_layer(<folder under src>
#   USES <layers>                what it may include, beside contract
#   HEADERS <public .h>          what others may include; each must compile alone
#   PRIVATE <own .h>             what only this layer includes
#   SOURCES <.cc>                none of them: a header-only layer
#   LIBS <libraries>             third parties that its public headers show
#   PRIVATE_LIBS <libraries>     third parties that only its sources name
#   TESTS <_test.cc and .h>      one program, rhizome_<layer>_test
#   TEST_HEADERS <.h>            for the tests of this layer and of those that name it
#   TEST_USES <layers>           what a test may include beside that
#   TEST_LIBS <libraries>
#   LABELS <ctest labels>        'concurrency': the thread sanitizer runs it; 'system': runs alone, without sanitizers
#   PROGRAM <name> <main .cc>)   a program made of the layer and one file of its own
#
# One folder is one layer is one static library. A layer must be declared before another names it, so the order of
# add_subdirectory() in src/CMakeLists.txt is the architecture, bottom first, and a cycle cannot be configured.

function(rhizome_layer_target out name)
  string(REPLACE "/" "_" target "rhizome_${name}")
  set(${out} ${target} PARENT_SCOPE)
endfunction()

function(rhizome_layer_links out name)
  set(links)
  foreach(dep IN LISTS ARGN)
    rhizome_layer_target(dep_target ${dep})
    if(NOT TARGET ${dep_target})
      message(FATAL_ERROR "layer '${name}' names '${dep}', which is not declared above it")
    endif()
    list(APPEND links ${dep_target})
  endforeach()
  set(${out} ${links} PARENT_SCOPE)
endfunction()

function(rhizome_layer name)
  cmake_parse_arguments(L "" ""
    "USES;HEADERS;PRIVATE;SOURCES;LIBS;PRIVATE_LIBS;TESTS;TEST_HEADERS;TEST_USES;TEST_LIBS;LABELS;PROGRAM" ${ARGN})
  if(L_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "layer '${name}': what is '${L_UNPARSED_ARGUMENTS}'?")
  endif()
  if(NOT name STREQUAL "contract")
    list(PREPEND L_USES contract)
  endif()
  rhizome_layer_target(target ${name})
  rhizome_layer_links(links ${name} ${L_USES})

  if(L_SOURCES)
    set(scope PUBLIC)
    add_library(${target} STATIC ${L_SOURCES})
    target_link_libraries(${target} PRIVATE ${L_PRIVATE_LIBS})
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR}/src FILES ${L_HEADERS})
  target_link_libraries(${target} ${scope} ${links} ${L_LIBS})
  add_dependencies(${target} layering)

  if(L_SOURCES)
    # Pulls in every object against only what is named: a smuggled symbol of a higher layer fails to link here.
    add_executable(${target}_links ${CMAKE_SOURCE_DIR}/tools/empty_main.cc)
    target_link_libraries(${target}_links PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${target}>")
    set_target_properties(${target}_links PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/links)
  endif()
  if(L_PROGRAM)
    list(POP_FRONT L_PROGRAM program)
    add_executable(${program} ${L_PROGRAM})
    target_link_libraries(${program} PRIVATE ${target})
    add_dependencies(${program} layering)
  endif()
  if(L_TESTS AND BUILD_TESTING)
    rhizome_layer_links(test_links ${name} ${L_TEST_USES})
    rhizome_test(${target}_test SOURCES ${L_TESTS} LABELS ${L_LABELS} LIBS ${target} ${test_links} ${L_TEST_LIBS})
  endif()

  set(own ${L_PRIVATE} ${L_SOURCES} ${L_PROGRAM})
  set_property(GLOBAL APPEND_STRING PROPERTY RHIZOME_LAYERS
    "${name}|${L_USES}|${L_HEADERS}|${own}|${L_TESTS}|${L_TEST_USES}|${L_TEST_HEADERS}\n")
endfunction()

# One gtest program, registered with ctest as one test. Its cases are counted from the XML that tools/run_tests.py asks
# gtest for; a process a case would start an engine hundreds of times.
function(rhizome_test target)
  cmake_parse_arguments(T "" "" "SOURCES;LABELS;LIBS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${target} ${T_SOURCES})
  target_link_libraries(${target} PRIVATE ${T_LIBS} GTest::gtest_main)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(${target} layering)
  add_test(NAME ${target} COMMAND ${target})
  set_tests_properties(${target} PROPERTIES LABELS "${T_LABELS}" TIMEOUT 900)
  target_compile_definitions(${target} PRIVATE
    LLAMA_BACKEND_DIR="${LLAMA_BACKEND_DIR}" RHIZOME_MODELS_DIR="${RHIZOME_SETUP_CACHE}/models")
  if("system" IN_LIST T_LABELS)
    set_tests_properties(${target} PROPERTIES RUN_SERIAL TRUE)
  endif()
  if("concurrency" IN_LIST T_LABELS)
    set_property(GLOBAL APPEND PROPERTY RHIZOME_CONCURRENCY_TESTS ${target})
  endif()
endfunction()

# After the last layer: writes what was declared for tools/layering.py, and names what the thread sanitizer runs.
function(rhizome_layers_done)
  get_property(layers GLOBAL PROPERTY RHIZOME_LAYERS)
  file(WRITE ${CMAKE_BINARY_DIR}/layers.txt "${layers}")
  get_property(tests GLOBAL PROPERTY RHIZOME_CONCURRENCY_TESTS)
  add_custom_target(concurrency_tests DEPENDS ${tests})
endfunction()
