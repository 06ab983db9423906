// Extensions of the CPU that Highway 1.0 does not name.
#pragma once

namespace nearfield::cpu {

// Returns true if the CPU and the system let this process use the matrix unit for bytes (AMX). The
// first call asks the system for its registers: Linux grants them to a process that asks.
bool TilesAreUsable();

// Returns true if the CPU has VNNI for the vectors of AVX2.
bool HasVexVnni();

}  // namespace nearfield::cpu
