/* Inside src/model: what config.json says of rotary frequencies, and the rules
 * that scale them. */
#ifndef TW_MODEL_ROPE_INTERNAL_H
#define TW_MODEL_ROPE_INTERNAL_H

#include "model/family.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One set of frequencies being made. */
struct twp_scaling {
    struct tw_model *model;
    const char *object; /* where its fields stand: "rope_scaling" */
    double theta;
    struct tw_rope *rope; /* dims given; scale is filled */
    float *inv_freq;      /* [dims/2] plain ones, changed in place */
    double factor;        /* 0: none was read; for the text */
};

/* The number OBJECT.FIELD, more than 0; fallback 0: it must be there. */
TW_MUST_USE enum tw_status twp_rope_number(const struct twp_scaling *s,
                                           const char *field, double fallback,
                                           double *value, struct tw_error *err);

/* Scales as the rule `kind` says; TW_ERR_UNSUPPORTED lists the rules. */
TW_MUST_USE enum tw_status
twp_rope_scale(struct twp_scaling *s, const char *kind, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
