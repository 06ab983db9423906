"""nearfield on Ray: knn_join, an exact join by nearest neighbors over data sets, and Cluster, a
service of several machines.

Needs the packages nearfield-native and ray: pip install 'ray[data]' xxhash obstore. Client needs
only pyarrow, xxhash and obstore.
"""

import importlib
from typing import TYPE_CHECKING, Any

from nearfield.ray._client import Client
from nearfield.ray._collection import ClusterCollection, ClusterSearch

if TYPE_CHECKING:
    from nearfield.ray._cluster import Cluster
    from nearfield.ray._join import knn_join

__all__ = ["Client", "Cluster", "ClusterCollection", "ClusterSearch", "knn_join"]


def __getattr__(name: str) -> Any:
    """Imports Ray only where it is needed."""
    module = {"Cluster": "_cluster", "knn_join": "_join"}.get(name)
    if module is None:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"nearfield.ray.{module}"), name)
