/* Sources of documents: files one after the other, or a text from memory. */
#include <config.h>

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "text/documents_internal.h"
#include "text/tokenizer_internal.h"

struct source {
    char **path;
    int count, at; /* files; the one that is read */
    char *separator, *field;
    struct tw_document_file *files; /* the caller's */
    struct twp_reader reader;
    bool is_failed;
};

static bool is_jsonl(const char *path)
{
    static const char *const suffixes[] = {".jsonl", ".jsonl.gz"};
    for (int i = 0; i < 2; i++) {
        size_t a = strlen(path), b = strlen(suffixes[i]);
        if (a > b && strcmp(path + a - b, suffixes[i]) == 0)
            return true;
    }
    return false;
}

static void close_reader(struct twp_reader *reader)
{
    twp_input_close(reader->input);
    json_decref(reader->json);
    tw_strbuf_fini(&reader->text);
    *reader = (struct twp_reader){0};
}

static void name_file(struct tw_document_file *file, const char *name)
{
    size_t length = strlen(name);
    if (length > sizeof file->name - 1)
        length = sizeof file->name - 1;
    memcpy(file->name, name, length);
    file->name[length] = '\0';
}

/* The file at hand is at its end: its hash is known, the next one's turn. */
static enum tw_status end_file(struct source *source, struct tw_error *err)
{
    struct tw_document_file *file = &source->files[source->at];
    if (file->documents == 0)
        return tw_error_set(err, TW_ERR_FORMAT, "%s: no text",
                            source->path[source->at]);
    if (!twp_input_hash(source->reader.input, file->sha256))
        return tw_error_set(err, TW_ERR_IO, "%s: cannot be read to its end",
                            source->path[source->at]);
    file->is_done = true;
    close_reader(&source->reader);
    source->at++;
    return TW_OK;
}

static enum tw_status read_next(struct source *source,
                                struct tw_document *document,
                                bool *has_document, struct tw_error *err)
{
    struct twp_reader *reader = &source->reader;
    const char *path = source->path[source->at];
    enum tw_status status = TW_OK;
    if (!reader->input) {
        reader->path = path;
        status = twp_input_open(path, &reader->input, err);
    }
    if (status != TW_OK)
        return status;
    if (is_jsonl(path))
        return twp_jsonl_next(reader, source->field, document, has_document,
                              err);
    return twp_text_next(reader, source->separator, document, has_document,
                         err);
}

static enum tw_status next(void *state, struct tw_document *document,
                           bool *has_document, struct tw_error *err)
{
    struct source *source = state;
    enum tw_status status = TW_OK;
    *has_document = false;
    while (status == TW_OK && source->at < source->count) {
        status = read_next(source, document, has_document, err);
        if (status != TW_OK)
            break;
        if (*has_document) {
            document->file = source->at;
            source->files[source->at].documents++;
            source->files[source->at].bytes += (int64_t)document->size;
            return TW_OK;
        }
        status = end_file(source, err);
    }
    source->is_failed = status != TW_OK;
    return status;
}

static bool is_regular(const char *path)
{
    struct stat info;
    return strcmp(path, "-") != 0 && stat(path, &info) == 0 &&
           S_ISREG(info.st_mode);
}

/* A source that is closed early still says which files it is made of. */
static void hash_rest(struct source *source)
{
    for (; source->at < source->count; source->at++) {
        const char *path = source->path[source->at];
        struct twp_reader *reader = &source->reader;
        if (!reader->input && is_regular(path) &&
            twp_input_open(path, &reader->input, NULL) != TW_OK)
            reader->input = NULL;
        if (reader->input)
            twp_input_hash(reader->input, source->files[source->at].sha256);
        close_reader(reader);
    }
}

static void close_source(void *state)
{
    struct source *source = state;
    if (!source)
        return;
    if (!source->is_failed)
        hash_rest(source);
    close_reader(&source->reader);
    for (int i = 0; source->path && i < source->count; i++)
        tw_free(source->path[i]);
    tw_free(source->path);
    tw_free(source->separator);
    tw_free(source->field);
    tw_free(source);
}

static enum tw_status check_path(const char *path, struct tw_error *err)
{
    struct stat info;
    if (strcmp(path, "-") == 0)
        return TW_OK;
    if (stat(path, &info) != 0 || access(path, R_OK) != 0)
        return tw_error_errno(err, errno, "%s", path);
    if (S_ISDIR(info.st_mode))
        return tw_error_set(err, TW_ERR_IO, "%s: is a directory", path);
    return TW_OK;
}

/* Copies what the caller need not keep; -1 without memory. */
static int copy_options(struct source *source, const char *const *paths,
                        int count, const struct tw_document_options *options)
{
    const char *field = options->field ? options->field : "text";
    source->path = tw_calloc((size_t)count, sizeof *source->path);
    source->field = tw_strdup(field);
    if (options->separator)
        source->separator = tw_strdup(options->separator);
    if (!source->path || !source->field ||
        (options->separator && !source->separator))
        return -1;
    for (; source->count < count; source->count++)
        if (!(source->path[source->count] = tw_strdup(paths[source->count])))
            return -1;
    return 0;
}

enum tw_status tw_documents_open(const char *const *paths, int count,
                                 const struct tw_document_options *options,
                                 struct tw_document_file *files,
                                 struct tw_documents *documents,
                                 struct tw_error *err)
{
    struct source *source;
    for (int i = 0; i < count; i++) {
        enum tw_status status = check_path(paths[i], err);
        if (status != TW_OK)
            return status;
    }
    source = tw_calloc(1, sizeof *source);
    if (!source || copy_options(source, paths, count, options) != 0) {
        if (source)
            source->is_failed = true;
        close_source(source);
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    }
    for (int i = 0; i < count; i++)
        name_file(&files[i], paths[i]);
    source->files = files;
    *documents = (struct tw_documents){
        .state = source, .next = next, .close = close_source};
    return TW_OK;
}

/* --- One text from memory --- */

struct memory {
    struct tw_document document;
    bool is_given;
};

static enum tw_status next_text(void *state, struct tw_document *document,
                                bool *has_document, struct tw_error *err)
{
    struct memory *memory = state;
    (void)err;
    *has_document = !memory->is_given;
    *document = memory->document;
    memory->is_given = true;
    return TW_OK;
}

enum tw_status tw_documents_from_text(const char *text, size_t size,
                                      struct tw_document_file *file,
                                      struct tw_documents *documents,
                                      struct tw_error *err)
{
    struct tw_sha256 hash;
    size_t valid = twp_utf8_check(text, size);
    if (size == 0)
        return tw_error_set(err, TW_ERR_FORMAT, "prompt: no text");
    if (valid < size)
        return tw_error_set(err, TW_ERR_FORMAT,
                            "prompt: invalid UTF-8 at byte %zu", valid);
    struct memory *memory = tw_calloc(1, sizeof *memory);
    if (!memory)
        return tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    memory->document = (struct tw_document){.text = text, .size = size};
    name_file(file, "prompt");
    tw_sha256_init(&hash);
    tw_sha256_update(&hash, text, size);
    tw_sha256_hex(&hash, file->sha256);
    file->documents = 1;
    file->bytes = (int64_t)size;
    file->is_done = true;
    *documents = (struct tw_documents){
        .state = memory, .next = next_text, .close = tw_free};
    return TW_OK;
}
