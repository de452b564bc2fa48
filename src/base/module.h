/* Shared objects of ours that are opened at run time, so that one binary runs
 * with and without what they need (a GPU, MPI).
 *
 *     void *handle;
 *     if (tw_module_open("twellscope-mpi.so", &handle, &err) == TW_OK)
 *         wire = dlsym(handle, "tw_wire");
 */
#ifndef TW_BASE_MODULE_H
#define TW_BASE_MODULE_H

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first `file` that is in $TWELLSCOPE_LIBDIR, the program's folder, its
 * .libs, or pkglibdir; it stays open. Returns TW_OK, TW_ERR_NOT_FOUND naming
 * these places, or TW_ERR_UNSUPPORTED with the loader's words. */
TW_MUST_USE enum tw_status tw_module_open(const char *file, void **handle,
                                          struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
