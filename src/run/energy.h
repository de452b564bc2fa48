/* Energy that a GPU has used, by NVML's total-energy counter. The library is
 * opened at run time: nothing links against it.
 *
 *     struct tw_energy *energy;
 *     if (tw_energy_open(NULL, "0000:65:00.0", &energy, &err) == TW_OK)
 *         tw_energy_read(energy, &millijoules, &err);
 *     tw_energy_close(energy);
 */
#ifndef TW_RUN_ENERGY_H
#define TW_RUN_ENERGY_H

#include <stdint.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TW_ENERGY_METHOD "nvml total energy"

struct tw_energy;

/* library NULL: "libnvidia-ml.so.1"; pci: the device's bus id. Returns TW_OK,
 * or TW_ERR_UNSUPPORTED saying what is missing: the library, one of its
 * functions, the device, or its counter. */
TW_MUST_USE enum tw_status tw_energy_open(const char *library, const char *pci,
                                          struct tw_energy **energy,
                                          struct tw_error *err);
/* Millijoules since the driver was loaded. The counter moves in steps of some
 * tens of milliseconds: differences over a second or more are meaningful. */
TW_MUST_USE enum tw_status tw_energy_read(const struct tw_energy *energy,
                                          uint64_t *millijoules,
                                          struct tw_error *err);
/* NULL is allowed. */
void tw_energy_close(struct tw_energy *energy);

#ifdef __cplusplus
}
#endif
#endif
