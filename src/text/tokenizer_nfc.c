/* Unicode normalization form C: decompose, order marks, compose (Unicode
 * Standard Annex 15). Hangul by arithmetic, all else from the table. */
#include <config.h>

#include <stdlib.h>

#include "base/memory.h"
#include "text/tokenizer_internal.h"
#include "text/tokenizer_nfc_table.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

enum {
    S_BASE = 0xac00,
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11a7,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28,
    S_COUNT = L_COUNT * V_COUNT * T_COUNT
};

/* Characters of the text in form D, with their classes. */
struct marks {
    struct mark {
        uint32_t code;
        uint8_t class;
    } *at;
    size_t count, capacity;
};

bool twp_nfc_is_needed(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] >= 0xcc) /* U+0300 and above */
            return true;
    return false;
}

/* The row of a table of ranges {first, last, ...} or {first, count, ...}. */
static const uint32_t *find_range(const uint32_t table[][3], size_t rows,
                                  uint32_t code, bool has_count)
{
    size_t low = 0, high = rows;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const uint32_t *row = table[middle];
        uint32_t last = has_count ? row[0] + row[1] - 1 : row[1];
        if (code < row[0])
            high = middle;
        else if (code > last)
            low = middle + 1;
        else
            return row;
    }
    return NULL;
}

static int compare_pair(const void *key, const void *row)
{
    uint32_t a = *(const uint32_t *)key, b = *(const uint32_t *)row;
    return (a > b) - (a < b);
}

static int push(struct marks *marks, uint32_t code)
{
    const uint32_t *row =
        code < 0x300 ? NULL
                     : find_range(nfc_class, LENGTH(nfc_class), code, false);
    if (tw_grow((void **)&marks->at, &marks->capacity, marks->count + 1,
                sizeof *marks->at) != 0)
        return -1;
    marks->at[marks->count++] =
        (struct mark){code, (uint8_t)(row ? row[2] : 0)};
    return 0;
}

static int push_hangul(struct marks *marks, uint32_t code)
{
    uint32_t index = code - S_BASE, tail = index % T_COUNT;
    if (push(marks, L_BASE + index / (V_COUNT * T_COUNT)) != 0 ||
        push(marks, V_BASE + index % (V_COUNT * T_COUNT) / T_COUNT) != 0)
        return -1;
    return tail ? push(marks, T_BASE + tail) : 0;
}

/* First parts decompose further, at most four times in all of Unicode. */
static int decompose(struct marks *marks, uint32_t code)
{
    if (code < 0xc0)
        return push(marks, code);
    if (code - S_BASE < S_COUNT)
        return push_hangul(marks, code);
    const uint32_t *run = find_range(nfc_run, LENGTH(nfc_run), code, true);
    if (run)
        return decompose(marks, nfc_single[run[2] + code - run[0]]);
    const uint32_t *pair = bsearch(&code, nfc_pair, LENGTH(nfc_pair),
                                   sizeof nfc_pair[0], compare_pair);
    if (!pair)
        return push(marks, code);
    return decompose(marks, pair[1]) != 0 ? -1 : decompose(marks, pair[2]);
}

static int by_class(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;
    return x->class - y->class;
}

/* Stable order by class within each run of marks. Runs are short but in
 * hostile text: insertion for those, a counting sort for the long ones. */
static void order_run(struct mark *run, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct mark mark = run[i];
        size_t at = i;
        while (at > 0 && by_class(&run[at - 1], &mark) > 0) {
            run[at] = run[at - 1];
            at--;
        }
        run[at] = mark;
    }
}

static int order_long_run(struct mark *run, size_t count)
{
    size_t start[257] = {0};
    struct mark *sorted = tw_alloc(count, sizeof *sorted);
    if (!sorted)
        return -1;
    for (size_t i = 0; i < count; i++)
        start[run[i].class + 1]++;
    for (int class = 0; class < 256; class++)
        start[class + 1] += start[class];
    for (size_t i = 0; i < count; i++)
        sorted[start[run[i].class]++] = run[i];
    for (size_t i = 0; i < count; i++)
        run[i] = sorted[i];
    tw_free(sorted);
    return 0;
}

static int order(struct marks *marks)
{
    for (size_t i = 0; i < marks->count;) {
        size_t end = i + 1;
        while (end < marks->count && marks->at[i].class &&
               marks->at[end].class)
            end++;
        if (end - i > 64) {
            if (order_long_run(marks->at + i, end - i) != 0)
                return -1;
        } else {
            order_run(marks->at + i, end - i);
        }
        i = end;
    }
    return 0;
}

static uint32_t compose_hangul(uint32_t a, uint32_t b)
{
    if (a - L_BASE < L_COUNT && b - V_BASE < V_COUNT)
        return S_BASE + ((a - L_BASE) * V_COUNT + b - V_BASE) * T_COUNT;
    if (a - S_BASE < S_COUNT && (a - S_BASE) % T_COUNT == 0 &&
        b - T_BASE - 1 < T_COUNT - 1)
        return a + b - T_BASE;
    return 0;
}

/* The character that stands for the two, 0: none. */
static uint32_t compose_pair(uint32_t a, uint32_t b)
{
    uint32_t hangul = compose_hangul(a, b);
    size_t low = 0, high = LENGTH(nfc_compose);
    while (!hangul && low < high) {
        size_t middle = (low + high) / 2;
        const uint32_t *pair = nfc_pair[nfc_compose[middle]];
        if (pair[1] == a && pair[2] == b)
            return pair[0];
        if (pair[1] < a || (pair[1] == a && pair[2] < b))
            low = middle + 1;
        else
            high = middle;
    }
    return hangul;
}

/* A mark joins the last starter unless one of its class or above stands
 * between. */
static void compose(struct marks *marks)
{
    size_t out = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < marks->count; i++) {
        struct mark mark = marks->at[i];
        bool is_blocked = starter == SIZE_MAX ||
                          (out > starter + 1 &&
                           (mark.class == 0 ||
                            marks->at[out - 1].class >= mark.class));
        uint32_t code =
            is_blocked ? 0 : compose_pair(marks->at[starter].code, mark.code);
        if (code) {
            marks->at[starter].code = code;
            continue;
        }
        if (mark.class == 0)
            starter = out;
        marks->at[out++] = mark;
    }
    marks->count = out;
}

int twp_nfc_append(const char *text, size_t size, struct tw_strbuf *out)
{
    struct marks marks = {0};
    size_t length;
    int result = 0;
    for (size_t i = 0; result == 0 && i < size; i += length)
        result = decompose(&marks, twp_utf8_get(text + i, &length));
    if (result == 0)
        result = order(&marks);
    if (result == 0)
        compose(&marks);
    for (size_t i = 0; result == 0 && i < marks.count; i++) {
        char bytes[4];
        tw_strbuf_append(out, bytes, twp_utf8_put(marks.at[i].code, bytes));
    }
    tw_free(marks.at);
    return result == 0 && !out->is_failed ? 0 : -1;
}
