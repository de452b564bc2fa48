/* Documents in ascending order, and the corpus clock that their lengths make:
 * clock(document, row) = rows of all documents with a smaller number + row. */
#include <config.h>

#include <assert.h>
#include <string.h>

#include "analysis/profile_internal.h"
#include "base/memory.h"

/* First index whose document is not below `document`. */
static size_t find_place(const struct tw_profile *p, int64_t document)
{
    size_t low = 0, high = p->documents;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->document[middle].document < document)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

enum tw_status twp_document_add(struct tw_profile *p, int64_t document,
                                int64_t rows, int64_t sequences,
                                struct tw_error *err)
{
    size_t n = p->documents, at = n;
    if (n > 0 && p->document[n - 1].document >= document)
        at = p->document[n - 1].document == document
                 ? n - 1
                 : find_place(p, document);
    if (at < n && p->document[at].document == document) {
        p->document[at].rows += rows;
        p->document[at].sequences += sequences;
        return TW_OK;
    }
    if (tw_grow((void **)&p->document, &p->documents_room, n + 1,
                sizeof *p->document))
        return tw_error_set(err, TW_ERR_NOMEM,
                            "out of memory for %zu documents", n + 1);
    memmove(p->document + at + 1, p->document + at,
            (n - at) * sizeof *p->document);
    p->document[at] = (struct twp_document){document, rows, sequences};
    p->documents++;
    return TW_OK;
}

int twp_document_is_known(const struct tw_profile *p, int64_t document)
{
    size_t at = find_place(p, document);
    return at < p->documents && p->document[at].document == document;
}

int64_t twp_clock_make(const struct tw_profile *p, int64_t *clock)
{
    int64_t rows = 0;
    for (size_t i = 0; i < p->documents; i++) {
        clock[i] = rows;
        rows += p->document[i].rows;
    }
    return rows;
}

int64_t twp_clock_at(const struct tw_profile *p, const int64_t *clock,
                     struct twp_place place)
{
    size_t at = find_place(p, place.document);
    assert(at < p->documents && p->document[at].document == place.document);
    return clock[at] + place.row;
}
