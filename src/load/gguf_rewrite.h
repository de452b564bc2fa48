/* Inside src/load: stored tensors rewritten as they are used: blocks turned
 * into floats, llama.cpp's changes undone, by several threads. */
#ifndef TW_LOAD_GGUF_REWRITE_H
#define TW_LOAD_GGUF_REWRITE_H

#include "load/gguf_arch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All rewriting of one model: zero-initialise. */
struct twp_rewrite {
    int64_t q_heads, kv_heads; /* for the orders of rows */
    struct twp_rewrite_job *job;
    size_t jobs;
    uint8_t *row; /* [threads][row_bytes]: a row before it is scattered */
    size_t row_bytes;
};

/* Room for `tensors` jobs. */
TW_MUST_USE enum tw_status twp_rewrite_init(struct twp_rewrite *rewrite,
                                            struct tw_gguf *gguf,
                                            const struct twp_gguf_arch *arch,
                                            size_t tensors,
                                            struct tw_error *err);
void twp_rewrite_fini(struct twp_rewrite *rewrite);

/* Gives `to` memory of its own (to->owned, the caller's), to be filled from a
 * tensor of the file. */
TW_MUST_USE enum tw_status
twp_rewrite_add(struct twp_rewrite *rewrite, const struct twp_gguf_file *file,
                const struct twp_gguf_tensor *from, enum twp_gguf_undo undo,
                struct tw_tensor *to, struct tw_error *err);
/* Fills them all. */
TW_MUST_USE enum tw_status twp_rewrite_run(struct twp_rewrite *rewrite,
                                           int threads, struct tw_error *err);

/* "FILE: tensor 'NAME' CAUSE", TW_ERR_FORMAT. */
enum tw_status twp_gguf_misfit(const struct twp_gguf_file *file,
                               const struct twp_gguf_tensor *tensor,
                               const char *cause, struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
