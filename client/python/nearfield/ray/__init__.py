"""nearfield on Ray: exact joins by nearest neighbors over data sets that exceed one process.

Needs the packages nearfield-native and ray: pip install 'nearfield[ray,local]'.
"""

from nearfield.ray._join import knn_join

__all__ = ["knn_join"]
