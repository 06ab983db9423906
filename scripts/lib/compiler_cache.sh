# Sourced by the scripts that build: lets checkouts, and the container's build, share ccache results.
# shellcheck shell=bash
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
