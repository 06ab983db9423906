# Compiler settings that every nearfield target shares, and helper functions that declare targets.
include_guard(GLOBAL)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
# Objects and programs do not depend on the folder of the checkout: a test whose program has not
# changed is not run again (scripts/lib/ctest_cases.py). Objects of CUDA have no debug information, and
# ccache, which makes their paths relative, would take this option of nvcc for another command line.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.>")
if(NEARFIELD_TESTS)
  find_program(NEARFIELD_MOLD mold)
  if(NEARFIELD_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()
find_program(NEARFIELD_CCACHE ccache)
if(NEARFIELD_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${NEARFIELD_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${NEARFIELD_CCACHE})
endif()

# The CPU backend of the engine needs Highway.
set(NEARFIELD_WITH_ENGINE OFF)
if(NEARFIELD_SERVER OR NEARFIELD_ENGINE STREQUAL "ON")
  find_package(hwy REQUIRED)
  set(NEARFIELD_WITH_ENGINE ON)
elseif(NEARFIELD_ENGINE STREQUAL "AUTO")
  find_package(hwy QUIET)
  set(NEARFIELD_WITH_ENGINE ${hwy_FOUND})
endif()
if(NOT NEARFIELD_WITH_ENGINE)
  message(STATUS "nearfield: without the engine: NEARFIELD_SERVER=OFF, and NEARFIELD_ENGINE=OFF or Highway is not installed")
endif()

# Accepts an nvcc of CUDA 13 or newer.
function(nearfield_check_nvcc VALID NVCC)
  execute_process(COMMAND ${NVCC} --version OUTPUT_VARIABLE text ERROR_QUIET)
  if(NOT text MATCHES "release (1[3-9]|[2-9][0-9])[.]")
    set(${VALID} FALSE PARENT_SCOPE)
  endif()
endfunction()

# Searches for nvcc where scripts/setup installs it, where the toolkit's packages do, and on PATH.
set(NEARFIELD_WITH_CUDA OFF)
if(NOT NEARFIELD_WITH_ENGINE)
  # Only the engine uses CUDA.
elseif(NOT NEARFIELD_CUDA STREQUAL "OFF")
  # CMake cannot change the compiler of a build folder.
  if(NEARFIELD_NVCC AND NOT EXISTS ${NEARFIELD_NVCC})
    message(FATAL_ERROR "the nvcc of this build folder, ${NEARFIELD_NVCC}, is gone: configure again with cmake --fresh")
  endif()
  find_program(NEARFIELD_NVCC nvcc VALIDATOR nearfield_check_nvcc
    HINTS ${PROJECT_SOURCE_DIR}/build/cuda/bin $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(NEARFIELD_NVCC)
    set(CMAKE_CUDA_COMPILER ${NEARFIELD_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES ${NEARFIELD_CUDA_ARCHITECTURES})
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc has C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    # CMake 3.25 sets a property of this target for CUDA 10 or newer, but CUDA 13 no longer has the
    # library.
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
    find_package(CUDAToolkit REQUIRED)
    set(NEARFIELD_WITH_CUDA ON)
    message(STATUS "nearfield: GPU backend for sm_${NEARFIELD_CUDA_ARCHITECTURES}, CUDA ${CUDAToolkit_VERSION}")
  elseif(NEARFIELD_CUDA STREQUAL "ON")
    message(FATAL_ERROR "NEARFIELD_CUDA=ON, but no nvcc of CUDA 13 or newer in build/cuda, CUDA_HOME, /usr/local/cuda or PATH; "
      "scripts/setup --cuda installs one")
  else()
    message(STATUS "nearfield: no nvcc of CUDA 13 or newer: CPU-only build (same answers, the CPU backend serves them)")
  endif()
else()
  message(STATUS "nearfield: NEARFIELD_CUDA=OFF: CPU-only build (same answers, the CPU backend serves them)")
endif()

# Release builds are hardened: canaries in stack frames, checked calls of the C library, programs that
# are loaded at a random address, and address tables that are read-only once a program runs.
# tests/container reads this from the finished programs.
add_compile_options(
  "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-fstack-protector-strong;-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fstack-protector-strong>")
add_link_options($<$<CONFIG:Release>:LINKER:-z,relro,-z,now,-z,noexecstack>
  $<$<AND:$<CONFIG:Release>,$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>>:-pie>)

find_package(absl REQUIRED)
find_package(Threads REQUIRED)
include(GNUInstallDirs)
include(GoogleTest)

# Scores are bit-exact by contract (engine/score): no flag here may relax IEEE arithmetic.
add_library(nearfield_flags INTERFACE)
target_include_directories(nearfield_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(nearfield_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-missing-field-initializers -Werror -fno-fast-math -ffp-contract=off>
  # At -O3, g++-12 reports a std::variant that holds a vector as uninitialized. At -O2 it does not.
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<CONFIG:Release>>:-Wno-maybe-uninitialized>
  $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -ftz=false -prec-div=true -prec-sqrt=true --expt-relaxed-constexpr
    -Xcompiler=-Wall,-Wextra,-Wshadow,-Wno-missing-field-initializers,-ffp-contract=off>)
if(NEARFIELD_SANITIZE)
  # In instrumented builds g++-12 reports a std::variant that holds a string as uninitialized. The
  # other builds keep the warning. clang's check vptr needs a free descriptor, and its check function
  # refuses calls of libraries whose types are declared here.
  target_compile_options(nearfield_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${NEARFIELD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1
      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function,vptr>>)
  target_compile_definitions(nearfield_flags INTERFACE NEARFIELD_SANITIZED)
  target_link_options(nearfield_flags INTERFACE -fsanitize=${NEARFIELD_SANITIZE})
endif()

# nearfield_sanitized_optimisation(LEVEL): sets the level for the C++ of a folder in sanitizer builds.
# Code that calls, copies and converts runs so little there that the optimiser would take longer than
# it saves.
macro(nearfield_sanitized_optimisation LEVEL)
  if(NEARFIELD_SANITIZE)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-O${LEVEL}>)
  endif()
endmacro()

# nearfield_library(NAME SOURCES a.cc b.cu [DEPS targets...]): declares a static library with the
# project's flags.
function(nearfield_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${NAME} STATIC ${ARG_SOURCES})
  target_link_libraries(${NAME} PUBLIC nearfield_flags ${ARG_DEPS})
endfunction()

# nearfield_ctest_entries(PREFIX_VAR PROPERTIES_VAR [TIMEOUT s] [LABELS ...] [ENVIRONMENT ...] [COST
# n] [RESOURCE_LOCK r] [RUN_SERIAL b] [REQUIRED_FILES ...]): sets the prefix of this folder's ctest
# entries (the folder below tests/ and a dot) and their properties. A sanitizer slows a program
# several times, so with one the time limit is four times as long.
function(nearfield_ctest_entries PREFIX_VAR PROPERTIES_VAR)
  cmake_parse_arguments(ARG "" "TIMEOUT;COST;RESOURCE_LOCK;RUN_SERIAL" "SOURCES;DEPS;COMMAND;LABELS;ENVIRONMENT;REQUIRED_FILES" ${ARGN})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX REPLACE "/.*" "" folder ${folder})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NEARFIELD_SANITIZE)
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")
  endif()
  set(properties)
  foreach(property TIMEOUT LABELS ENVIRONMENT COST RESOURCE_LOCK RUN_SERIAL REQUIRED_FILES)
    if(DEFINED ARG_${property})
      string(REPLACE ";" "\\;" value "${ARG_${property}}")  # one element of the list
      list(APPEND properties ${property} "${value}")
    endif()
  endforeach()
  set(${PREFIX_VAR} "${folder}." PARENT_SCOPE)
  set(${PROPERTIES_VAR} "${properties}" PARENT_SCOPE)
endfunction()

# nearfield_test(NAME SOURCES x_test.cc [DEPS ...] [properties as above]): adds sources to the
# GoogleTest program NAME, which several folders share; only the first call may give properties. Each
# case is a ctest entry, FOLDER.NAME.Suite.Case. ctest lists the cases when it starts, if the program
# has changed. The label host: no case depends on the optimiser, so the sources of the test are not
# optimised, and NEARFIELD_HOST_TESTS=OFF leaves the program out. The label threads: TSan runs it, and
# no program without it.
function(nearfield_test NAME)
  cmake_parse_arguments(ENTRY "" "TIMEOUT;COST;RESOURCE_LOCK;RUN_SERIAL" "SOURCES;DEPS;LABELS;ENVIRONMENT" ${ARGN})
  nearfield_ctest_entries(prefix properties ${ARGN})
  if(NOT TARGET ${NAME})
    add_executable(${NAME})
    target_link_libraries(${NAME} PRIVATE nearfield_flags nearfield_test_main)
    if(host IN_LIST ENTRY_LABELS)
      target_compile_options(${NAME} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
    endif()
    if((host IN_LIST ENTRY_LABELS AND NOT NEARFIELD_HOST_TESTS)
       OR (NEARFIELD_SANITIZE STREQUAL "thread" AND NOT threads IN_LIST ENTRY_LABELS))
      set_target_properties(${NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
    else()
      gtest_discover_tests(${NAME} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 NO_PRETTY_TYPES NO_PRETTY_VALUES
        TEST_PREFIX ${prefix}${NAME}. PROPERTIES ${properties})
      add_dependencies(nearfield_tests ${NAME})
    endif()
  else()
    foreach(property TIMEOUT COST RESOURCE_LOCK RUN_SERIAL LABELS ENVIRONMENT)
      if(DEFINED ENTRY_${property})
        message(FATAL_ERROR "nearfield_test(${NAME}): only the first call gives properties, such as ${property}")
      endif()
    endforeach()
  endif()
  target_sources(${NAME} PRIVATE ${ENTRY_SOURCES})
  target_link_libraries(${NAME} PRIVATE ${ENTRY_DEPS})
endfunction()

# nearfield_command_test(NAME COMMAND program arguments... [properties as above]): declares any
# other program as one ctest entry, FOLDER.NAME. REQUIRED_FILES: the files and folders that it reads,
# besides those that its command names and the folder of a script.
function(nearfield_command_test NAME)
  cmake_parse_arguments(ENTRY "" "TIMEOUT;COST;RESOURCE_LOCK;RUN_SERIAL" "COMMAND;LABELS;ENVIRONMENT;REQUIRED_FILES" ${ARGN})
  nearfield_ctest_entries(prefix properties ${ARGN})
  add_test(NAME ${prefix}${NAME} COMMAND ${ENTRY_COMMAND})
  set_tests_properties(${prefix}${NAME} PROPERTIES ${properties})
endfunction()

# nearfield_program_docs(PROGRAM SECTION COMPONENT component MAN arguments... COMPLETION arguments...):
# lets the program write its manual page and its shell completions into doc/ of the build folder, as
# it declares them, and installs them. MAN makes it print the page, COMPLETION and the name of a shell
# the script for it. Target PROGRAM_docs.
function(nearfield_program_docs PROGRAM SECTION)
  cmake_parse_arguments(ARG "" "COMPONENT" "MAN;COMPLETION" ${ARGN})
  set(folder ${PROJECT_BINARY_DIR}/doc)
  set(page ${folder}/man/${PROGRAM}.${SECTION})
  set(bash ${folder}/bash-completion/${PROGRAM})
  set(zsh ${folder}/zsh/_${PROGRAM})
  set(fish ${folder}/fish/${PROGRAM}.fish)
  add_custom_command(OUTPUT ${page} ${bash} ${zsh} ${fish}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}/man ${folder}/bash-completion ${folder}/zsh ${folder}/fish
    COMMAND ${PROGRAM} ${ARG_MAN} > ${page}
    COMMAND ${PROGRAM} ${ARG_COMPLETION} bash > ${bash}
    COMMAND ${PROGRAM} ${ARG_COMPLETION} zsh > ${zsh}
    COMMAND ${PROGRAM} ${ARG_COMPLETION} fish > ${fish}
    DEPENDS ${PROGRAM} COMMENT "Writing the manual page and the completions of ${PROGRAM}" VERBATIM)
  add_custom_target(${PROGRAM}_docs ALL DEPENDS ${page} ${bash} ${zsh} ${fish})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${SECTION} COMPONENT ${ARG_COMPONENT})
  install(FILES ${bash} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT ${ARG_COMPONENT})
  install(FILES ${zsh} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT ${ARG_COMPONENT})
  install(FILES ${fish} DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT ${ARG_COMPONENT})
endfunction()
