/* Documents of a text file: what stands between separator lines. */
#include <config.h>

#include <string.h>

#include "text/documents_internal.h"
#include "text/tokenizer_internal.h"

enum tw_status twp_read_line(struct twp_reader *reader, size_t limit,
                             size_t *length, struct tw_error *err)
{
    size_t before = reader->text.length;
    bool is_whole = false;
    while (!is_whole) {
        const char *bytes;
        size_t size;
        enum tw_status status =
            twp_input_peek(reader->input, &bytes, &size, err);
        if (status != TW_OK)
            return status;
        if (size == 0)
            break;
        const char *end = memchr(bytes, '\n', size);
        size_t part = end ? (size_t)(end - bytes) + 1 : size;
        is_whole = end != NULL;
        if (reader->text.length + part > limit)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "%s: a document of more than %zu bytes",
                                reader->path, limit);
        tw_strbuf_append(&reader->text, bytes, part);
        if (reader->text.is_failed)
            return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory",
                                reader->path);
        twp_input_take(reader->input, part);
        reader->offset += (int64_t)part;
    }
    *length = reader->text.length - before;
    reader->line += *length > 0;
    return TW_OK;
}

/* Bytes of the line's ending: "\r\n", "\n" or none. */
static size_t ending(const char *line, size_t length)
{
    if (length == 0 || line[length - 1] != '\n')
        return 0;
    return length > 1 && line[length - 2] == '\r' ? 2 : 1;
}

static bool is_separator(const char *line, size_t length,
                         const char *separator)
{
    size_t size = length - ending(line, length);
    return separator && strlen(separator) == size &&
           memcmp(line, separator, size) == 0;
}

static void cut(struct tw_strbuf *text, size_t length)
{
    text->length = length;
    text->data[length] = '\0';
}

/* Reads up to a separator line, which goes with the newline before it. */
static enum tw_status read_part(struct twp_reader *reader,
                                const char *separator, bool *at_end,
                                struct tw_error *err)
{
    struct tw_strbuf *text = &reader->text;
    size_t length;
    tw_strbuf_clear(text);
    for (;;) {
        size_t before = text->length;
        enum tw_status status =
            twp_read_line(reader, TWP_DOCUMENT_LIMIT, &length, err);
        if (status != TW_OK)
            return status;
        *at_end = length == 0;
        if (*at_end)
            return TW_OK;
        const char *line = text->data + before;
        if (is_separator(line, length, separator)) {
            size_t both = ending(text->data, before);
            if (both == 2 && ending(line, length) == 1)
                both = 1; /* the \r is the text's */
            cut(text, before - both);
            return TW_OK;
        }
    }
}

enum tw_status twp_text_next(struct twp_reader *reader, const char *separator,
                             struct tw_document *document, bool *has_document,
                             struct tw_error *err)
{
    const struct tw_strbuf *text = &reader->text;
    bool at_end = false;
    int64_t start = 0;
    do {
        start = reader->offset;
        enum tw_status status = read_part(reader, separator, &at_end, err);
        if (status != TW_OK)
            return status;
    } while (!at_end && text->length == 0);
    *has_document = text->length > 0;
    if (!*has_document)
        return TW_OK;
    size_t valid = twp_utf8_check(text->data, text->length);
    if (valid < text->length)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: invalid UTF-8 at byte "
                            "%lld", reader->path,
                            (long long)(start + (int64_t)valid));
    *document = (struct tw_document){.text = text->data,
                                     .size = text->length};
    return TW_OK;
}
