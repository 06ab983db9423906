#include "tests/server/fake_nvml.h"

#include <unistd.h>

#include <cstdlib>

// Names, signatures and structures are NVML's. The first event is an Xid 79 ("GPU has fallen off
// the bus"), at once or, if the variable FAKE_NVML_XID_FILE is set, when that file exists.
extern "C" {

using NvmlDevice = void*;
constexpr int kNvmlOk = 0;
constexpr int kNvmlNotFound = 6;
constexpr int kNvmlTimeout = 10;

static int fake_device;
static bool fake_event_sent = false;

int nvmlInit_v2() { return kNvmlOk; }
int nvmlShutdown() { return kNvmlOk; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice* device) {
  if (index >= nearfield::server::kFakeNvmlDevices) return kNvmlNotFound;
  *device = &fake_device;
  return kNvmlOk;
}
int nvmlDeviceGetUtilizationRates(NvmlDevice /*device*/, unsigned* rates) {
  rates[0] = 37;
  rates[1] = 11;
  return kNvmlOk;
}
int nvmlDeviceGetMemoryInfo(NvmlDevice /*device*/, unsigned long long* memory) {
  memory[0] = 4096;  // total
  memory[1] = 3072;  // free
  memory[2] = 1024;  // used
  return kNvmlOk;
}
int nvmlDeviceGetPowerUsage(NvmlDevice /*device*/, unsigned* milliwatts) {
  *milliwatts = 123456;
  return kNvmlOk;
}
int nvmlDeviceGetEnforcedPowerLimit(NvmlDevice /*device*/, unsigned* milliwatts) {
  *milliwatts = 700000;
  return kNvmlOk;
}
int nvmlDeviceGetTemperature(NvmlDevice /*device*/, unsigned /*sensor*/, unsigned* celsius) {
  *celsius = 55;
  return kNvmlOk;
}
int nvmlDeviceGetTotalEccErrors(NvmlDevice /*device*/, unsigned type, unsigned /*counter*/,
                                unsigned long long* errors) {
  *errors = type == 0 ? 5 : 2;
  return kNvmlOk;
}
int nvmlEventSetCreate(void** set) {
  *set = &fake_device;
  return kNvmlOk;
}
int nvmlEventSetFree(void* /*set*/) { return kNvmlOk; }
int nvmlDeviceRegisterEvents(NvmlDevice /*device*/, unsigned long long types, void* /*set*/) {
  return types == 8 ? kNvmlOk : kNvmlNotFound;
}

struct NvmlEvent {
  NvmlDevice device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};
int nvmlEventSetWait_v2(void* /*set*/, NvmlEvent* event, unsigned /*milliseconds*/) {
  const char* const file = std::getenv("FAKE_NVML_XID_FILE");
  if (fake_event_sent || (file != nullptr && access(file, F_OK) != 0)) return kNvmlTimeout;
  fake_event_sent = true;
  *event = {
      .device = &fake_device, .type = 8, .data = 79, .gpu_instance = 0, .compute_instance = 0};
  return kNvmlOk;
}

}  // extern "C"
