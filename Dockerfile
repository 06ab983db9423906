# Container image of nearfield. Both images must belong to the same distribution release, because
# the server links that release's libraries.
#   docker build -t nearfield .
#   docker build -t nearfield --build-arg BUILD_IMAGE=debian:12 \
#     --build-arg RUNTIME_IMAGE=debian:12 .                       # CPU only
ARG BUILD_IMAGE=nvidia/cuda:13.0.2-devel-ubuntu24.04
ARG RUNTIME_IMAGE=nvidia/cuda:13.0.2-base-ubuntu24.04

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY scripts/setup scripts/setup
RUN scripts/setup --build-only
COPY CMakeLists.txt CMakePresets.json ./
COPY scripts/cmake scripts/cmake
COPY scripts/lib/runtime_packages scripts/lib/runtime_packages
COPY proto proto
COPY engine engine
COPY client client
COPY server server
ENV CCACHE_BASEDIR=/src CCACHE_NOHASHDIR=1
# AUTO builds the GPU backend if the build image has the CUDA toolkit; ON makes its absence an
# error.
ARG NEARFIELD_CUDA=AUTO
ARG NEARFIELD_CUDA_ARCHITECTURES=90
RUN cmake --preset release -D NEARFIELD_CUDA=${NEARFIELD_CUDA} \
      -D NEARFIELD_CUDA_ARCHITECTURES=${NEARFIELD_CUDA_ARCHITECTURES} \
    && cmake --build build/release --target nearfield-server nearfield \
    && mkdir -p /out/bin \
    && strip -o /out/bin/nearfield-server build/release/bin/nearfield-server \
    && strip -o /out/bin/nearfield build/release/bin/nearfield \
    && scripts/lib/runtime_packages /out/bin/nearfield-server /out/bin/nearfield > /out/packages

FROM ${RUNTIME_IMAGE}
COPY --from=build /out/packages /usr/share/nearfield/packages
RUN apt-get -qq update \
    && DEBIAN_FRONTEND=noninteractive xargs apt-get -qq install --no-install-recommends -y \
         < /usr/share/nearfield/packages > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/* \
    && mkdir -p /var/lib/nearfield && chown 65532:65532 /var/lib/nearfield
COPY --from=build /out/bin/ /usr/local/bin/
COPY LICENSE /usr/share/nearfield/LICENSE

ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="nearfield" \
      org.opencontainers.image.description="Exact vector retrieval on the GPU, over gRPC" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"

# Loopback inside a container cannot be reached from outside: listen on all of the container's
# addresses, and publish the port with care.
ENV NEARFIELD_LISTEN=0.0.0.0:50051 \
    NEARFIELD_DATA_DIR=/var/lib/nearfield/data \
    NEARFIELD_LOG_FORMAT=json \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
WORKDIR /var/lib/nearfield
VOLUME /var/lib/nearfield
EXPOSE 50051
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["nearfield", "health"]
ENTRYPOINT ["nearfield-server"]
