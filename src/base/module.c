/* Where our shared objects may stand, in the order tried. */
#include <config.h>

#include "base/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACES = 4, PATH_BYTES = 4096 };

/* The folder of the running program, without its last slash; "" if unknown. */
static void program_folder(char folder[PATH_BYTES])
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_BYTES - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    folder[slash ? slash - folder : 0] = '\0';
}

static int list_places(const char *file, char place[PLACES][PATH_BYTES + 64])
{
    char folder[PATH_BYTES];
    const char *named = getenv("TWELLSCOPE_LIBDIR");
    int places = 0;
    program_folder(folder);
    if (named && strlen(named) < PATH_BYTES)
        snprintf(place[places++], sizeof place[0], "%s/%s", named, file);
    if (folder[0]) {
        snprintf(place[places++], sizeof place[0], "%s/%s", folder, file);
        snprintf(place[places++], sizeof place[0], "%s/.libs/%s", folder, file);
    }
    snprintf(place[places++], sizeof place[0], "%s/%s", TW_PKGLIBDIR, file);
    return places;
}

enum tw_status tw_module_open(const char *file, void **handle,
                              struct tw_error *err)
{
    char place[PLACES][PATH_BYTES + 64];
    int places = list_places(file, place);
    for (int i = 0; i < places; i++) {
        if (access(place[i], F_OK) != 0)
            continue;
        void *found = dlopen(place[i], RTLD_NOW | RTLD_LOCAL);
        if (!found)
            return tw_error_set(err, TW_ERR_UNSUPPORTED, "%s", dlerror());
        *handle = found;
        return TW_OK;
    }
    return tw_error_set(err, TW_ERR_NOT_FOUND,
                        "no %s in $TWELLSCOPE_LIBDIR, beside the program or in "
                        "%s",
                        file, TW_PKGLIBDIR);
}
