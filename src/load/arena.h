/* Memory of one file's reader: pieces that are freed together, and a limit on
 * their sum, so that a hostile file cannot make the program ask for more than
 * its own size justifies. */
#ifndef TW_LOAD_ARENA_H
#define TW_LOAD_ARENA_H

#include <stddef.h>

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tw_arena_block; /* private */

/* Zero-initialise, then twp_arena_init. */
struct tw_arena {
    const char *name; /* the file's, for messages; borrowed */
    size_t left;      /* bytes that may still be asked for */
    struct tw_arena_block *block;
    size_t free_bytes; /* at the end of the newest block */
};

/* For a file of file_bytes: twice that, but at least 1 MiB, may be had. */
void twp_arena_init(struct tw_arena *arena, const char *name,
                    size_t file_bytes);
void twp_arena_fini(struct tw_arena *arena);

/* Zeroed memory for count items of size bytes, aligned to 16. Returns TW_OK,
 * TW_ERR_FORMAT past the limit, or TW_ERR_NOMEM. */
TW_MUST_USE enum tw_status twp_arena_get(struct tw_arena *arena, size_t count,
                                         size_t size, void *pointer,
                                         struct tw_error *err);
/* Counts memory that is had elsewhere against the limit. */
TW_MUST_USE enum tw_status twp_arena_claim(struct tw_arena *arena, size_t count,
                                           size_t size, struct tw_error *err);
/* bytes[size] as a string of its own. */
TW_MUST_USE enum tw_status twp_arena_text(struct tw_arena *arena,
                                          const void *bytes, size_t size,
                                          const char **text,
                                          struct tw_error *err);

#ifdef __cplusplus
}
#endif
#endif
