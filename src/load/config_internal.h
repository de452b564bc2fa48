/* Inside src/load: a config made from something else than config.json. */
#ifndef TW_LOAD_CONFIG_INTERNAL_H
#define TW_LOAD_CONFIG_INTERNAL_H

#include <jansson.h>

#include "load/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_config {
    char *file;      /* base name */
    json_t *root;    /* an object */
    json_t *used;    /* the top-level names looked up */
    json_t *origins; /* field: where it came from; NULL for config.json */
    json_t *entered; /* the object that names are looked up in, or NULL */
    char *entered_name;
    json_t *entered_used; /* its names looked up */
    json_t *overridden;   /* name -> why, of the innermost object */
};

/* An empty config that messages call `file`. */
TW_MUST_USE enum tw_status twp_config_create(const char *file,
                                             struct tw_config **config,
                                             struct tw_error *err);
/* Sets a field ("a", or "a.b" in an object), taking the value (NULL: out of
 * memory). origin: where it came from; an object's field names each once. */
TW_MUST_USE enum tw_status twp_config_put(struct tw_config *config,
                                          const char *field, json_t *value,
                                          const char *origin,
                                          struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
