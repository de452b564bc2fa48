/* Backends by name. cpu is part of the program; cuda is a module, a shared
 * object opened at run time, so that one binary runs with and without a GPU. */
#include <config.h>

#include "kernels/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODULE     "twellscope-cuda.so"
#define PLACES     4
#define PATH_BYTES 4096

/* The folder of the running program, without its last slash; "" if unknown. */
static void program_folder(char folder[PATH_BYTES])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_BYTES - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    folder[slash ? slash - folder : 0] = '\0';
}

/* Where the module may stand, in the order tried. Returns their number. */
static int module_places(char place[PLACES][PATH_BYTES + 64])
{
    char folder[PATH_BYTES];
    const char *named = getenv("TWELLSCOPE_LIBDIR");
    int places = 0;
    program_folder(folder);
    if (named && strlen(named) < PATH_BYTES)
        snprintf(place[places++], sizeof place[0], "%s/" MODULE, named);
    if (folder[0]) {
        snprintf(place[places++], sizeof place[0], "%s/" MODULE, folder);
        snprintf(place[places++], sizeof place[0], "%s/.libs/" MODULE, folder);
    }
    snprintf(place[places++], sizeof place[0], "%s/" MODULE, TW_PKGLIBDIR);
    return places;
}

/* The file's backend. It stays open: the table is its memory. */
static enum tw_status module_open(const char *file, const struct tw_ops **ops,
                                  struct tw_error *err)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return tw_error_set(err, TW_ERR_UNSUPPORTED, "backend 'cuda': %s",
                            dlerror());
    const struct tw_ops_module *module = dlsym(handle, TW_OPS_MODULE_SYMBOL);
    if (!module || module->ops_bytes != sizeof(struct tw_ops) ||
        strcmp(module->version, PACKAGE_VERSION) != 0) {
        dlclose(handle);
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda': %s is not of version %s", file,
                            PACKAGE_VERSION);
    }
    *ops = module->ops;
    return TW_OK;
}

static enum tw_status cuda_find(const struct tw_ops **ops, struct tw_error *err)
{
    char place[PLACES][PATH_BYTES + 64];
    int places = module_places(place);
    const struct tw_ops *found = NULL;
    for (int i = 0; i < places && !found; i++) {
        if (access(place[i], F_OK) != 0)
            continue;
        enum tw_status status = module_open(place[i], &found, err);
        if (status != TW_OK)
            return status;
    }
    if (!found)
        return tw_error_set(err, TW_ERR_UNSUPPORTED,
                            "backend 'cuda': no " MODULE " in "
                            "$TWELLSCOPE_LIBDIR, beside the program or in %s",
                            TW_PKGLIBDIR);
    enum tw_status status = found->probe(err);
    if (status == TW_OK)
        *ops = found;
    return status;
}

/* Has every slot that some model's forward pass needs? */
static bool is_whole(const struct tw_ops *ops)
{
    return ops->weight_load && ops->embed && ops->positions && ops->norm &&
           ops->matmul && ops->rope && ops->attention && ops->add &&
           ops->act_mul && ops->ffn && ops->head_nll;
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
    const struct tw_ops *cuda;
    if (is_auto && cuda_find(&cuda, NULL) == TW_OK && is_whole(cuda)) {
        *ops = cuda;
        return TW_OK;
    }
    enum tw_status status = tw_ops_cpu.probe(err);
    if (status == TW_OK)
        *ops = &tw_ops_cpu;
    return status;
}
