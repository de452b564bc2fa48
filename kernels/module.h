/* What a backend module (a shared object opened at run time) exports under the
 * name TW_OPS_MODULE_SYMBOL. */
#ifndef TW_KERNELS_MODULE_H
#define TW_KERNELS_MODULE_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TW_OPS_MODULE_SYMBOL "tw_ops_module"

/* Refused where version or size differ from the program's own. */
struct tw_ops_module {
    const char *version; /* PACKAGE_VERSION */
    size_t ops_bytes;    /* sizeof(struct tw_ops) */
    const struct tw_ops *ops;
};

#ifdef __cplusplus
}
#endif
#endif
