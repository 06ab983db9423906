# Debian packages: the target "packages" builds the programs and libraries and writes PACKAGE.deb files
# to packages/ of the build folder. Each package is a group of install components.
#   nearfield-server   the server; its systemd unit, configuration and user
#   nearfield          the command and the corpus of its demo
#   libnearfield-dev   static libraries, headers, CMake package, .pc files, proto files
include_guard(GLOBAL)

# Files outside the prefix belong to the Debian package only; "cmake --install" leaves them out.
install(FILES deploy/systemd/nearfield-server.service deploy/systemd/nearfield-gpu.service DESTINATION /usr/lib/systemd/system
  COMPONENT service EXCLUDE_FROM_ALL)
install(FILES deploy/systemd/server.conf DESTINATION /etc/nearfield COMPONENT service EXCLUDE_FROM_ALL)
install(FILES deploy/README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/nearfield-server COMPONENT server)

set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_VENDOR nearfield)
set(CPACK_PACKAGE_CONTACT "The nearfield maintainers <maintainers@nearfield.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)

# nearfield_package(NAME COMPONENTS components... SECTION section SUMMARY line TEXT description):
# declares the package NAME. Its other fields are CPACK_DEBIAN_<NAME>_..., in capitals.
macro(nearfield_package NAME)
  cmake_parse_arguments(ARG "" "SECTION;SUMMARY;TEXT" "COMPONENTS" ${ARGN})
  string(TOUPPER ${NAME} group)
  foreach(component IN LISTS ARG_COMPONENTS)
    list(APPEND CPACK_COMPONENTS_ALL ${component})
    string(TOUPPER ${component} upper)
    set(CPACK_COMPONENT_${upper}_GROUP ${NAME})
  endforeach()
  set(CPACK_DEBIAN_${group}_PACKAGE_NAME ${NAME})
  set(CPACK_DEBIAN_${group}_PACKAGE_SECTION ${ARG_SECTION})
  set(CPACK_COMPONENT_GROUP_${group}_DESCRIPTION "${ARG_SUMMARY}\n${ARG_TEXT}")
  set(CPACK_DEBIAN_${group}_DESCRIPTION "${ARG_SUMMARY}\n${ARG_TEXT}")
  list(GET ARG_COMPONENTS 0 component)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${NAME} RENAME copyright COMPONENT ${component})
endmacro()

if(TARGET nearfield-server)
  nearfield_package(nearfield-server COMPONENTS server service SECTION database
    SUMMARY "exact vector retrieval on a GPU or CPU: the server"
    TEXT "nearfield-server holds collections of vectors in GPU memory and answers searches exactly, over gRPC. Without a GPU it serves the same answers from the CPU.")
  set(CPACK_DEBIAN_NEARFIELD-SERVER_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_NEARFIELD-SERVER_PACKAGE_DEPENDS "adduser, init-system-helpers (>= 1.52)")
  set(CPACK_DEBIAN_NEARFIELD-SERVER_PACKAGE_RECOMMENDS nearfield)
  set(CPACK_DEBIAN_NEARFIELD-SERVER_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  set(CPACK_DEBIAN_NEARFIELD-SERVER_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/deploy/packages/conffiles ${PROJECT_SOURCE_DIR}/deploy/packages/postinst
    ${PROJECT_SOURCE_DIR}/deploy/packages/prerm ${PROJECT_SOURCE_DIR}/deploy/packages/postrm)
endif()
if(TARGET nearfield)
  nearfield_package(nearfield COMPONENTS command SECTION database
    SUMMARY "exact vector retrieval: the command"
    TEXT "nearfield uploads vectors to a nearfield server, searches them and checks the answers.")
  set(CPACK_DEBIAN_NEARFIELD_PACKAGE_SHLIBDEPS ON)
endif()
# Static libraries: a program that links them needs the development packages of their dependencies.
# Debian's CMake package of gRPC needs protobuf-compiler-grpc.
nearfield_package(libnearfield-dev COMPONENTS development SECTION libdevel
  SUMMARY "exact vector retrieval: C++ libraries"
  TEXT "Static libraries and headers of the client, the engine and the selection library, with a CMake package and pkg-config files. With CUDA they need the CUDA toolkit to link.")
set(CPACK_DEBIAN_LIBNEARFIELD-DEV_PACKAGE_DEPENDS "libabsl-dev, libgrpc++-dev, libhwy-dev, libprotobuf-dev, libssl-dev, protobuf-compiler-grpc")

include(CPack)
get_property(components GLOBAL PROPERTY NEARFIELD_COMPONENTS)
list(TRANSFORM components PREPEND nearfield_component_)
# CPack makes the folders of a package with the umask of its caller.
add_custom_target(packages
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CPACK_PACKAGE_DIRECTORY}
  COMMAND sh -c "umask 022; exec \"$@\"" sh ${CMAKE_CPACK_COMMAND} --config ${PROJECT_BINARY_DIR}/CPackConfig.cmake
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR} USES_TERMINAL VERBATIM)
foreach(target IN LISTS components ITEMS nearfield nearfield_docs nearfield-server nearfield-server_docs)
  if(TARGET ${target})
    add_dependencies(packages ${target})
  endif()
endforeach()
