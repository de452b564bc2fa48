/* Documents of a .jsonl file: one field of each line's object. */
#include <config.h>

#include <jansson.h>
#include <string.h>

#include "text/documents_internal.h"
#include "text/tokenizer_internal.h"

static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!strchr(" \t\r\n", line[i]) || line[i] == '\0')
            return false;
    return true;
}

static enum tw_status line_error(const struct twp_reader *reader,
                                 const char *what, const char *name,
                                 struct tw_error *err)
{
    return tw_error_set(err, TW_ERR_FORMAT, "%s:%lld: %s%.200s%s",
                        reader->path, (long long)reader->line, what, name,
                        *name ? "'" : "");
}

static enum tw_status parse_line(struct twp_reader *reader,
                                 struct tw_error *err)
{
    const struct tw_strbuf *text = &reader->text;
    json_error_t error;
    size_t valid = twp_utf8_check(text->data, text->length);
    if (valid < text->length)
        return tw_error_set(
            err, TW_ERR_FORMAT, "%s:%lld: invalid UTF-8 at byte %lld",
            reader->path, (long long)reader->line,
            (long long)(reader->offset - (int64_t)(text->length - valid)));
    reader->json =
        json_loadb(text->data, text->length, JSON_ALLOW_NUL, &error);
    if (reader->json)
        return TW_OK;
    if (json_error_code(&error) == json_error_out_of_memory)
        return tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory",
                            reader->path);
    return tw_error_set(err, TW_ERR_FORMAT, "%s:%lld: not JSON: %.160s",
                        reader->path, (long long)reader->line, error.text);
}

static enum tw_status read_object(struct twp_reader *reader, const char *field,
                                  struct tw_document *document,
                                  struct tw_error *err)
{
    enum tw_status status = parse_line(reader, err);
    if (status != TW_OK)
        return status;
    if (!json_is_object(reader->json))
        return line_error(reader, "not a JSON object", "", err);
    const json_t *text = json_object_get(reader->json, field);
    if (!text)
        return line_error(reader, "no field '", field, err);
    if (!json_is_string(text))
        return line_error(reader, "no string in field '", field, err);
    if (json_string_length(text) > TWP_DOCUMENT_LIMIT)
        return line_error(reader, "a document of more than 1 GiB", "", err);
    *document = (struct tw_document){.text = json_string_value(text),
                                     .size = json_string_length(text)};
    return TW_OK;
}

enum tw_status twp_jsonl_next(struct twp_reader *reader, const char *field,
                              struct tw_document *document, bool *has_document,
                              struct tw_error *err)
{
    enum tw_status status = TW_OK;
    *has_document = false;
    while (status == TW_OK && !*has_document) {
        size_t length = 0;
        json_decref(reader->json);
        reader->json = NULL;
        tw_strbuf_clear(&reader->text);
        status = twp_read_line(reader, TWP_LINE_LIMIT, &length, err);
        if (status != TW_OK || length == 0)
            break;
        if (is_blank(reader->text.data, length))
            continue;
        status = read_object(reader, field, document, err);
        *has_document = status == TW_OK && document->size > 0;
    }
    return status;
}
