# Installs the libraries: one static library for each of the components client, engine and topk, the
# public headers, the CMake package "nearfield" and .pc files. In a build that contains this one the
# same targets exist: nearfield::client, nearfield::engine, nearfield::topk.
include_guard(GLOBAL)
include(CMakePackageConfigHelpers)
set(NEARFIELD_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/nearfield)

# nearfield_link_closure(PARTS_VAR LIBRARIES_VAR TARGET): sets the static libraries of this project
# that TARGET consists of, and the other libraries that they link.
function(nearfield_link_closure PARTS_VAR LIBRARIES_VAR TARGET)
  set(pending ${TARGET})
  set(seen)
  set(parts)
  set(libraries)
  while(pending)
    list(POP_FRONT pending target)
    if(target IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${target})
    if(NOT target MATCHES "^nearfield_")
      list(APPEND libraries ${target})
      continue()
    endif()
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND parts ${target})
    endif()
    get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
    if(links)
      list(TRANSFORM links REPLACE "^\\$<LINK_ONLY:(.+)>$" "\\1")  # of a private dependency
      list(APPEND pending ${links})
    endif()
  endwhile()
  set(${PARTS_VAR} ${parts} PARENT_SCOPE)
  set(${LIBRARIES_VAR} ${libraries} PARENT_SCOPE)
endfunction()

# nearfield_found_by(PACKAGE_VAR MODULE_VAR FLAGS_VAR LIBRARY): sets the CMake package that defines an
# imported target, and its pkg-config module or, if it has none, its linker flags.
function(nearfield_found_by PACKAGE_VAR MODULE_VAR FLAGS_VAR LIBRARY)
  set(module)
  set(flags)
  if(LIBRARY MATCHES "^absl::(.+)$")
    set(package absl)
    set(module absl_${CMAKE_MATCH_1})
  elseif(LIBRARY STREQUAL "gRPC::grpc++")
    set(package gRPC)
    set(module grpc++)
  elseif(LIBRARY STREQUAL "protobuf::libprotobuf")
    set(package Protobuf)
    set(module protobuf)
  elseif(LIBRARY STREQUAL "OpenSSL::Crypto")
    set(package OpenSSL)
    set(module libcrypto)
  elseif(LIBRARY STREQUAL "hwy::hwy")
    set(package hwy)
    set(module libhwy)
  elseif(LIBRARY STREQUAL "Threads::Threads")
    set(package Threads)
    set(flags -pthread)
  elseif(LIBRARY STREQUAL "CUDA::cudart_static")
    set(package CUDAToolkit)
    set(flags "-L\${cuda_home}/lib64" -lcudart_static -lrt -ldl -pthread)
  else()
    message(FATAL_ERROR "${LIBRARY}: name its CMake package and pkg-config module in ${CMAKE_CURRENT_FUNCTION_LIST_FILE}")
  endif()
  set(${PACKAGE_VAR} ${package} PARENT_SCOPE)
  set(${MODULE_VAR} ${module} PARENT_SCOPE)
  set(${FLAGS_VAR} ${flags} PARENT_SCOPE)
endfunction()

# nearfield_component(NAME TARGET HEADERS DESCRIPTION): declares the library nearfield::NAME, which
# has all objects of TARGET, and installs it. A component contains all parts that it needs. So two
# components may contain the same object; the linker takes the first one.
function(nearfield_component NAME TARGET HEADERS DESCRIPTION)
  nearfield_link_closure(parts libraries ${TARGET})
  list(TRANSFORM parts REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  set(library nearfield_component_${NAME})
  add_library(${library} STATIC ${objects})
  add_library(nearfield::${NAME} ALIAS ${library})
  set_target_properties(${library} PROPERTIES
    OUTPUT_NAME nearfield_${NAME} EXPORT_NAME ${NAME} LINKER_LANGUAGE CXX ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${HEADERS}>)
  target_compile_features(${library} INTERFACE cxx_std_20)
  target_link_libraries(${library} PUBLIC ${libraries})

  set(packages)
  set(modules)
  set(flags)
  foreach(found IN LISTS libraries)
    nearfield_found_by(package module library_flags ${found})
    list(APPEND packages ${package})
    list(APPEND modules ${module})
    list(APPEND flags ${library_flags})
  endforeach()
  foreach(list packages modules flags)
    list(REMOVE_DUPLICATES ${list})
    list(JOIN ${list} " " ${list}_text)
  endforeach()
  file(RELATIVE_PATH to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" to_prefix ${to_prefix})
  configure_file(${PROJECT_SOURCE_DIR}/scripts/cmake/nearfield.pc.in ${PROJECT_BINARY_DIR}/nearfield-${NAME}.pc @ONLY)
  set_property(GLOBAL APPEND PROPERTY NEARFIELD_COMPONENTS ${NAME})
  set_property(GLOBAL APPEND_STRING PROPERTY NEARFIELD_COMPONENT_PACKAGES
    "set(nearfield_packages_${NAME} ${packages_text})\n")

  install(TARGETS ${library} EXPORT nearfield-${NAME} ARCHIVE COMPONENT development
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT nearfield-${NAME} NAMESPACE nearfield:: DESTINATION ${NEARFIELD_PACKAGE_DIR} COMPONENT development)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${HEADERS}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
    FILES_MATCHING PATTERN "*.h")
  install(FILES ${PROJECT_BINARY_DIR}/nearfield-${NAME}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()

if(NEARFIELD_GRPC)
  nearfield_component(client nearfield_client client/cpp/include "Client of the nearfield retrieval service")
endif()
if(NEARFIELD_WITH_ENGINE)
  nearfield_component(engine nearfield_engine engine/include "Exact vector retrieval on a GPU or CPU")
  nearfield_component(topk nearfield_topk_c engine/include "Selection of the k highest of many scores on a GPU")
endif()

get_property(NEARFIELD_COMPONENTS GLOBAL PROPERTY NEARFIELD_COMPONENTS)
get_property(NEARFIELD_COMPONENT_PACKAGES GLOBAL PROPERTY NEARFIELD_COMPONENT_PACKAGES)
configure_package_config_file(${PROJECT_SOURCE_DIR}/scripts/cmake/nearfieldConfig.cmake.in
  ${PROJECT_BINARY_DIR}/nearfieldConfig.cmake INSTALL_DESTINATION ${NEARFIELD_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nearfieldConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/nearfieldConfig.cmake ${PROJECT_BINARY_DIR}/nearfieldConfigVersion.cmake
  DESTINATION ${NEARFIELD_PACKAGE_DIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/proto/nearfield DESTINATION ${CMAKE_INSTALL_DATADIR}/nearfield/proto
  COMPONENT development FILES_MATCHING PATTERN "*.proto")
