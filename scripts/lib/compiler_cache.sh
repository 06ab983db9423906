# Sourced by the scripts that build: what ccache compiled in one checkout serves every other, the container's build included.
# shellcheck shell=bash
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
