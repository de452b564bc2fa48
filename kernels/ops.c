/* Backends by name. cpu is part of the program; cuda is a module, a shared
 * object opened at run time, so that one binary runs with and without a GPU. */
#include <config.h>

#include "kernels/module.h"

#include <dlfcn.h>
#include <string.h>

#include "base/log.h"
#include "base/module.h"

#define MODULE "twellscope-cuda.so"

/* The module's backend. It stays open: the table is its memory. */
static enum tw_status module_ops(const struct tw_ops **ops,
                                 struct tw_error *err)
{
    void *handle = NULL;
    if (tw_module_open(MODULE, &handle, err) != TW_OK) {
        tw_error_prefix(err, "backend 'cuda'");
        return TW_ERR_UNSUPPORTED;
    }
    const struct tw_ops_module *module = dlsym(handle, TW_OPS_MODULE_SYMBOL);
    if (!module || module->ops_bytes != sizeof(struct tw_ops) ||
        strcmp(module->version, PACKAGE_VERSION) != 0) {
        dlclose(handle);
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda': " MODULE " is not of version %s",
                            PACKAGE_VERSION);
    }
    *ops = module->ops;
    return TW_OK;
}

static enum tw_status cuda_find(const struct tw_ops **ops, struct tw_error *err)
{
    const struct tw_ops *found = NULL;
    enum tw_status status = module_ops(&found, err);
    if (status == TW_OK)
        status = found->probe(err);
    if (status == TW_OK)
        *ops = found;
    return status;
}

enum tw_status tw_ops_find(const char *name, const struct tw_ops **ops,
                           struct tw_error *err)
{
    bool is_auto = strcmp(name, "auto") == 0;
    if (strcmp(name, "cuda") == 0)
        return cuda_find(ops, err);
    if (strcmp(name, "cpu") != 0 && !is_auto)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "unknown backend '%s': auto, cpu or cuda", name);
    struct tw_error own = {0};
    if (is_auto && cuda_find(ops, &own) == TW_OK)
        return TW_OK;
    if (is_auto)
        tw_log(TW_LOG_DEBUG, "%s: on the CPU then", own.text);
    enum tw_status status = tw_ops_cpu.probe(err);
    if (status == TW_OK)
        *ops = &tw_ops_cpu;
    return status;
}
