// Changes every byte of a small data set, one at a time.
#pragma once

#include <cstdint>
#include <string>

namespace nearfield::fault {

// Makes a data set in `directory` as a killed process leaves it: with a log that is not yet moved
// into the database, and an open upload. Then changes every `stride`th byte of all files, from byte
// `first` on. The store must refuse to open or to load, or load exactly the same rows. Prints
// `flips= detected= harmless= undetected=` on stderr. Returns 0 if none is undetected.
int FlipEveryByte(const std::string& directory, int64_t first, int64_t stride);

}  // namespace nearfield::fault
