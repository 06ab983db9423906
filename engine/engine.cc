#include "nearfield/engine/engine.h"
