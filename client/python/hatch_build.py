"""Generates the messages of proto/ into nearfield/_proto, and reads the version of the project.

The protos are compiled under other file and package names, so that this package neither installs
nor registers anything named google.*, grpc.* or nearfield.v1: programs may use the packages
googleapis-common-protos and grpcio-health-checking, and their own stubs of nearfield, next to it.
The wire format contains no package names. The names of the calls are in nearfield/_methods.py.

Each protoc compiles for its own release of protobuf and later ones. So protoc makes only
descriptors and types here, which every release makes alike, and the modules build their classes
from the descriptors. A source distribution has these modules: only a build in a checkout needs
protoc.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
# The metadata that only a source distribution has.
PKG_INFO = HERE / "PKG-INFO"
PROTOC = "grpcio-tools>=1.64"  # any protoc; earlier releases need setuptools
# The proto of each module, and the package that its messages get.
SOURCES = {
    "common": ("nearfield/v1/common.proto", "nearfield_python.v1"),
    "terms": ("nearfield/v1/terms.proto", "nearfield_python.v1"),
    "facets": ("nearfield/v1/facets.proto", "nearfield_python.v1"),
    "retrieval": ("nearfield/v1/retrieval.proto", "nearfield_python.v1"),
    "ingest": ("nearfield/v1/ingest.proto", "nearfield_python.v1"),
    "admin": ("nearfield/v1/admin.proto", "nearfield_python.v1"),
    "health": ("grpc/health/v1/health.proto", "nearfield_python.health"),
    "status": ("google/rpc/status.proto", "nearfield_python.rpc"),
    "error_details": ("google/rpc/error_details.proto", "nearfield_python.rpc"),
}
# The code that protoc 4.25 writes; protobuf 4.25 to 7 run it.
MODULE = """# Generated from proto/ by hatch_build.py.
from google.protobuf import descriptor_pool
from google.protobuf.internal import builder
{imports}
DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(
    {descriptor!r}
)
builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
"""


def version() -> str:
    """Returns the version of PKG-INFO, else of the CMake project of the checkout."""
    for path, pattern in (
        (PKG_INFO, r"^Version: (\S+)"),
        (CHECKOUT / "CMakeLists.txt", r"project\(nearfield VERSION (\S+)"),
    ):
        if path.is_file() and (found := re.search(pattern, path.read_text("utf-8"), re.MULTILINE)):
            return found[1]
    raise FileNotFoundError(
        f"{HERE}: neither a source distribution (PKG-INFO) nor in a checkout of nearfield"
        f" ({CHECKOUT / 'CMakeLists.txt'}): a copy of this folder alone cannot be installed"
    )


def generate(out: Path) -> None:
    """Writes the modules NAME_pb2.py and NAME_pb2.pyi to the folder nearfield/_proto of `out`."""
    try:
        import grpc_tools
        from google.protobuf import descriptor_pb2
        from grpc_tools import protoc
    except ImportError as error:
        raise ImportError(
            f"{error}: in a checkout the messages are generated from proto/, with {PROTOC}. pip"
            " installs it, except with --no-build-isolation: then install it first"
        ) from None

    package = out / "nearfield" / "_proto"
    with tempfile.TemporaryDirectory() as scratch:
        renamed = Path(scratch, "nearfield", "_proto")
        renamed.mkdir(parents=True)
        for name, (source, proto_package) in SOURCES.items():
            text = (CHECKOUT / "proto" / source).read_text("utf-8")
            text = re.sub(r"^package .*;", f"package {proto_package};", text, flags=re.MULTILINE)
            text = re.sub(r'^import "nearfield/v1/', 'import "nearfield/_proto/', text, flags=re.M)
            (renamed / f"{name}.proto").write_text(text, "utf-8")
        shutil.rmtree(package, ignore_errors=True)
        package.mkdir(parents=True)
        (package / "__init__.py").write_text('"""Generated from proto/ by hatch_build.py."""\n')
        well_known = Path(grpc_tools.__file__).parent / "_proto"
        compiled = Path(scratch, "descriptors")
        options = [f"-I{scratch}", f"-I{well_known}", f"--pyi_out={out}"]
        options.append(f"--descriptor_set_out={compiled}")
        files = [f"nearfield/_proto/{name}.proto" for name in SOURCES]
        if protoc.main(["protoc", *options, *files]) != 0:
            raise RuntimeError("protoc failed; its errors are above")
        described = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes())
        for file in described.file:
            path = out / file.name.replace(".proto", "_pb2.py")
            path.write_text(module_of(file), "utf-8")


def module_of(file: Any) -> str:
    """Returns the text of the module of a FileDescriptorProto."""
    modules = [path.removesuffix(".proto").replace("/", ".") + "_pb2" for path in file.dependency]
    imports = "".join(f"import {module}  # noqa: F401\n" for module in modules)
    return MODULE.format(imports=imports, descriptor=file.SerializeToString())


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before every build: source distribution, wheel and editable installation."""

    def dependencies(self) -> list[str]:
        return [] if PKG_INFO.is_file() else [PROTOC]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not PKG_INFO.is_file():
            generate(HERE)
        build_data["pure_python"] = True


if __name__ == "__main__":
    generate(HERE)
