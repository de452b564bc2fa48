/* NVML's counter, through the five functions that are needed. Their types are
 * declared here, as NVML's manual gives them: its header may be absent. */
#include <config.h>

#include "run/energy.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"

struct tw_energy {
    void *library, *device;
    bool is_on; /* init was called */
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*text)(int);
    int (*find)(const char *, void **);
    int (*total)(void *, unsigned long long *);
};

/* A function pointer is not an object pointer: the bytes are copied. */
static enum tw_status bind(struct tw_energy *e, const char *name,
                           void *function, struct tw_error *err)
{
    void *found = dlsym(e->library, name);
    if (!found)
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "NVML has no %s", name);
    memcpy(function, &found, sizeof found);
    return TW_OK;
}

static enum tw_status bind_all(struct tw_energy *e, struct tw_error *err)
{
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        {"nvmlInit_v2", &e->init},
        {"nvmlShutdown", &e->shutdown},
        {"nvmlErrorString", &e->text},
        {"nvmlDeviceGetHandleByPciBusId_v2", &e->find},
        {"nvmlDeviceGetTotalEnergyConsumption", &e->total},
    };
    enum tw_status status = TW_OK;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (status == TW_OK)
            status = bind(e, wanted[i].name, wanted[i].function, err);
    return status;
}

static enum tw_status check(const struct tw_energy *e, int result,
                            const char *what, struct tw_error *err)
{
    if (result == 0)
        return TW_OK;
    return tw_error_set(err, TW_ERR_UNSUPPORTED, "NVML: %s: %s", what,
                        e->text(result));
}

static enum tw_status start(struct tw_energy *e, const char *pci,
                            struct tw_error *err)
{
    uint64_t first;
    enum tw_status status = bind_all(e, err);
    if (status == TW_OK)
        status = check(e, e->init(), "start", err);
    if (status != TW_OK)
        return status;
    e->is_on = true;
    status = check(e, e->find(pci, &e->device), pci, err);
    return status == TW_OK ? tw_energy_read(e, &first, err) : status;
}

enum tw_status tw_energy_open(const char *library, const char *pci,
                              struct tw_energy **out, struct tw_error *err)
{
    struct tw_energy *e = tw_calloc(1, sizeof *e);
    if (!e)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    e->library =
        dlopen(library ? library : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    enum tw_status status =
        e->library ? start(e, pci, err)
                   : tw_error_set(err, TW_ERR_UNSUPPORTED, "%s", dlerror());
    if (status == TW_OK)
        *out = e;
    else
        tw_energy_close(e);
    return status;
}

enum tw_status tw_energy_read(const struct tw_energy *e, uint64_t *millijoules,
                              struct tw_error *err)
{
    unsigned long long total = 0;
    enum tw_status status =
        check(e, e->total(e->device, &total), "energy counter", err);
    if (status == TW_OK)
        *millijoules = total;
    return status;
}

void tw_energy_close(struct tw_energy *e)
{
    if (!e)
        return;
    if (e->is_on)
        e->shutdown();
    if (e->library)
        dlclose(e->library);
    tw_free(e);
}
