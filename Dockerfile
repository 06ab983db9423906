# Container image of nearfield: the server and the command on Debian 12. The CUDA runtime is linked
# statically; the NVIDIA Container Toolkit brings the driver when a container starts.
#   docker build -t nearfield .                                            # every GPU of CUDA 13
#   docker build -t nearfield --build-arg NEARFIELD_CUDA_ARCHITECTURES=89 .        # builds faster
#   docker build -t nearfield:cpu --build-arg NEARFIELD_CUDA=OFF .                 # CPU only
# Both images must belong to the same distribution release, because the server links that release's
# libraries. The digest is that of the list for all architectures; the packages of the image are
# upgraded when it is built. A newer one: docker buildx imagetools inspect debian:12-slim
ARG BUILD_IMAGE=debian:12-slim@sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587
ARG RUNTIME_IMAGE=debian:12-slim@sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587

FROM ${BUILD_IMAGE} AS tools
WORKDIR /src
COPY scripts/setup scripts/setup
RUN scripts/setup --build-only

FROM tools AS build
# ON: with the GPU backend, built by the build image's nvcc or by one from PyPI; OFF: CPU only.
ARG NEARFIELD_CUDA=ON
RUN [ "${NEARFIELD_CUDA}" = OFF ] || [ -x /usr/local/cuda/bin/nvcc ] || scripts/setup --build-only --cuda
COPY CMakeLists.txt CMakePresets.json ./
COPY scripts/cmake scripts/cmake
COPY scripts/lib/runtime_packages scripts/lib/runtime_packages
COPY proto proto
COPY engine engine
COPY client client
COPY server server
ENV CCACHE_BASEDIR=/src CCACHE_NOHASHDIR=1
# Empty: every architecture of the preset.
ARG NEARFIELD_CUDA_ARCHITECTURES=
RUN cmake --preset release-all-gpus -B build/release -D NEARFIELD_CUDA=${NEARFIELD_CUDA} \
      ${NEARFIELD_CUDA_ARCHITECTURES:+-D "NEARFIELD_CUDA_ARCHITECTURES=${NEARFIELD_CUDA_ARCHITECTURES}"} \
    && cmake --build build/release --target nearfield-server nearfield \
    && mkdir -p /out/bin \
    && strip -o /out/bin/nearfield-server build/release/bin/nearfield-server \
    && strip -o /out/bin/nearfield build/release/bin/nearfield \
    && scripts/lib/runtime_packages /out/bin/nearfield-server /out/bin/nearfield > /out/packages

# The edge (deploy/haproxy): the HAProxy of Debian 12, which the tests run.
#   docker build -t nearfield-edge --target edge .
FROM ${RUNTIME_IMAGE} AS edge
RUN apt-get -qq update && apt-get -qq upgrade -y > /dev/null \
    && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y haproxy > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/*
USER haproxy
# Takes no new connection and ends when the open streams have ended.
STOPSIGNAL SIGUSR1
ENTRYPOINT ["haproxy", "-W", "-db", "-f", "/etc/nearfield/haproxy.cfg"]

FROM ${RUNTIME_IMAGE}
COPY --from=build /out/packages /usr/share/nearfield/packages
RUN apt-get -qq update && apt-get -qq upgrade -y > /dev/null \
    && DEBIAN_FRONTEND=noninteractive xargs apt-get -qq install --no-install-recommends -y \
         < /usr/share/nearfield/packages > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/* \
    && mkdir -p /var/lib/nearfield && chown 65532:65532 /var/lib/nearfield
COPY --from=build /out/bin/ /usr/local/bin/
# The corpus of nearfield demo, which the command finds at ../share/nearfield/demo.
COPY scripts/data/packages.fp16.npy scripts/data/packages.jsonl scripts/data/queries.f32.npy scripts/data/queries.json \
     /usr/local/share/nearfield/demo/
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
