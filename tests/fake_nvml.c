/* A stand-in for NVML, for test_bench.c: one device whose counter moves by 250
 * J at each reading; device "broken" has none. */
#include <string.h>

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int result);
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device);
int nvmlDeviceGetTotalEnergyConsumption(void *device,
                                        unsigned long long *millijoules);

static unsigned long long counter = 1000000;
static int broken;

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int result)
{
    return result == 3 ? "Not Supported" : "Not Found";
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device)
{
    if (strcmp(id, "0000:01:00.0") != 0 && strcmp(id, "broken") != 0)
        return 6;
    broken = strcmp(id, "broken") == 0;
    *device = &counter;
    return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device,
                                        unsigned long long *millijoules)
{
    if (broken || device != &counter)
        return 3;
    *millijoules = counter += 250000;
    return 0;
}
