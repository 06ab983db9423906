# shellcheck shell=bash
# The Debian root file systems that scripts/container and scripts/packages start from. The caller
# defines say and fail, and its working folder is the root of the repository.

readonly debian_cache=$PWD/.cache/container
readonly debian_tar=$debian_cache/debian-bookworm-slim.tar

# make_root_tar RELEASE TAR [options of mmdebstrap...]: makes a root file system of a release of Debian,
# if it does not exist, without documentation and translations. It is larger than one of debootstrap.
make_root_tar() {
  local release=$1 tar=$2 mirror=${NEARFIELD_DEBIAN_MIRROR:-http://deb.debian.org/debian} folder
  local options=(--mode=root --format=tar --variant=minbase "${@:3}" --aptopt="$tar.apt" --dpkgopt=force-unsafe-io)
  [ ! -f "$tar" ] || return 0
  say "making a root file system of Debian $release from $mirror"
  write_apt_conf "$tar.apt"
  for folder in doc info locale man; do
    options+=(--dpkgopt="path-exclude=/usr/share/$folder/*")
  done
  # The settings of this machine do not stay in the root file system. mmdebstrap sets $1 of a hook.
  # shellcheck disable=SC2016
  options+=(--customize-hook='rm "$1/etc/apt/apt.conf.d/99mmdebstrap"'
    --customize-hook='sed -i /force-unsafe-io/d "$1/etc/dpkg/dpkg.cfg.d/99mmdebstrap"')
  mmdebstrap "${options[@]}" "$release" "$tar.new" "$mirror" >"$tar.log" 2>&1 || {
    tail -n 20 "$tar.log" >&2
    fail "mmdebstrap failed"
  }
  mv "$tar.new" "$tar"
}

# Makes $debian_tar with debootstrap, if it does not exist: like the image debian:12-slim, without
# documentation and translations. WORK is a folder for temporary files.
make_debian_tar() {
  local work=$1 mirror=${NEARFIELD_DEBIAN_MIRROR:-http://deb.debian.org/debian}
  local folder left_out=(/usr/share/doc /usr/share/info /usr/share/locale /usr/share/man)
  [ ! -f "$debian_tar" ] || return 0
  say "making a Debian 12 root file system from $mirror"
  debootstrap --variant=minbase bookworm "$work/base" "$mirror" >"$work/debootstrap.log" 2>&1 || {
    tail -n 20 "$work/debootstrap.log" >&2
    fail "debootstrap failed"
  }
  for folder in "${left_out[@]}"; do
    rm -rf "$work/base$folder"/*
    printf 'path-exclude %s/*\n' "$folder" >>"$work/base/etc/dpkg/dpkg.cfg.d/slim"
  done
  rm -rf "$work/base/var/cache/apt/archives"/*.deb "$work/base/var/lib/apt/lists"/*
  tar -C "$work/base" -cf "$debian_tar.new" .
  mv "$debian_tar.new" "$debian_tar"
  rm -rf "$work/base"
}

# Writes this machine's access to its packages (proxies, certificates, clock checks) as a
# configuration file of apt.
write_apt_conf() { apt-config dump | grep -E '^Acquire::(http|https|Check-|Retries|ForceIPv)' >"$1" || true; }
