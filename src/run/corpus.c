/* Files of several kinds as one stream of documents. */
#include <config.h>

#include "run/corpus.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/sha256.h"
#include "load/npy.h"

/* A part: neighbouring text files, one .npy file, or ids in memory. */
struct part {
    bool is_ids;
    int first_file, files;
    const char *const *paths;
    struct tw_documents text; /* open where !is_ids */
    struct tw_npy npy;
    const int32_t *ids; /* in memory instead of npy */
    int64_t rows, cols, row;
};

struct chain {
    struct part *part;
    int parts, current;
    bool is_open; /* the current part's text source */
    struct tw_corpus *corpus;
    struct tw_document_options options;
    const char *prompt;
    struct tw_ids row_ids; /* one row of an .npy, narrowed */
};

static bool is_npy(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".npy") == 0;
}

static enum tw_status hash_file(struct tw_corpus_file *file,
                                struct tw_error *err)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0)
        return tw_error_errno(err, errno, "%s", file->path);
    enum tw_status status = TW_OK;
    unsigned char *buffer = tw_alloc(1 << 18, 1);
    if (!buffer)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    else if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        status =
            tw_error_set(err, TW_ERR_IO, "%s: not a regular file", file->path);
    struct tw_sha256 hash;
    tw_sha256_init(&hash);
    ssize_t got = 1;
    while (status == TW_OK && got > 0) {
        got = read(fd, buffer, 1 << 18);
        if (got < 0)
            status = tw_error_errno(err, errno, "%s", file->path);
        else
            tw_sha256_update(&hash, buffer, (size_t)got);
    }
    if (status == TW_OK) {
        tw_sha256_hex(&hash, file->sha256);
        file->stored_bytes = (int64_t)info.st_size;
    }
    tw_free(buffer);
    close(fd);
    return status;
}

/* The next row of ids as a document; an empty row is no document. */
static enum tw_status next_ids(struct chain *chain, struct part *part,
                               struct tw_document *document, bool *has_document,
                               struct tw_error *err)
{
    *has_document = false;
    if (part->row >= part->rows || part->cols == 0)
        return TW_OK;
    chain->row_ids.count = 0;
    for (int64_t c = 0; c < part->cols; c++) {
        int64_t id = part->ids ? part->ids[part->row * part->cols + c]
                               : tw_npy_at(&part->npy, part->row, c);
        if (id < INT32_MIN || id > INT32_MAX)
            return tw_error_set(err, TW_ERR_FORMAT,
                                "%s: row %lld: id %lld is out of range",
                                chain->corpus->file[part->first_file].path,
                                (long long)part->row, (long long)id);
        enum tw_status status = tw_ids_push(&chain->row_ids, (int32_t)id, err);
        if (status != TW_OK)
            return status;
    }
    *document = (struct tw_document){.ids = chain->row_ids.id,
                                     .count = part->cols,
                                     .file = part->first_file};
    chain->corpus->read[part->first_file].documents++;
    part->row++;
    *has_document = true;
    return TW_OK;
}

static enum tw_status open_text(struct chain *chain, struct part *part,
                                struct tw_error *err)
{
    struct tw_document_file *read = &chain->corpus->read[part->first_file];
    if (chain->prompt)
        return tw_documents_from_text(chain->prompt, strlen(chain->prompt),
                                      read, &part->text, err);
    return tw_documents_open(part->paths, part->files, &chain->options, read,
                             &part->text, err);
}

static enum tw_status chain_next(void *state, struct tw_document *document,
                                 bool *has_document, struct tw_error *err)
{
    struct chain *chain = state;
    *has_document = false;
    while (chain->current < chain->parts) {
        struct part *part = &chain->part[chain->current];
        enum tw_status status;
        if (part->is_ids)
            status = next_ids(chain, part, document, has_document, err);
        else
            status =
                part->text.next(part->text.state, document, has_document, err);
        if (status != TW_OK)
            return status;
        if (*has_document) {
            if (!part->is_ids)
                document->file += part->first_file;
            return TW_OK;
        }
        chain->corpus->read[part->first_file].is_done = true;
        chain->current++;
    }
    return TW_OK;
}

static void chain_close(void *state)
{
    struct chain *chain = state;
    if (!chain)
        return;
    for (int i = 0; i < chain->parts; i++) {
        struct part *part = &chain->part[i];
        if (part->is_ids && !part->ids)
            tw_npy_close(&part->npy);
        else if (part->text.close)
            part->text.close(part->text.state);
    }
    tw_ids_fini(&chain->row_ids);
    tw_free(chain->part);
    tw_free(chain);
}

/* Cuts the list of files into parts. */
static void make_parts(struct chain *chain,
                       const struct tw_corpus_options *options)
{
    for (int i = 0; i < options->count; i++) {
        bool ids = is_npy(options->paths[i]);
        struct part *last =
            chain->parts ? &chain->part[chain->parts - 1] : NULL;
        if (last && !ids && !last->is_ids) {
            last->files++;
            continue;
        }
        chain->part[chain->parts++] =
            (struct part){.is_ids = ids,
                          .first_file = i,
                          .files = 1,
                          .paths = options->paths + i};
    }
    if (options->count == 0)
        chain->part[chain->parts++] =
            (struct part){.is_ids = options->ids != NULL,
                          .files = 1,
                          .ids = options->ids,
                          .rows = options->ids_rows,
                          .cols = options->ids_cols};
}

static enum tw_status open_parts(struct chain *chain, struct tw_error *err)
{
    for (int i = 0; i < chain->parts; i++) {
        struct part *part = &chain->part[i];
        enum tw_status status = TW_OK;
        if (!part->is_ids) {
            status = open_text(chain, part, err);
        } else if (!part->ids) {
            status = tw_npy_open(part->paths[0], &part->npy, err);
            part->rows = part->npy.rows;
            part->cols = part->npy.cols;
        }
        if (status != TW_OK) {
            chain->parts = i; /* close only what is open */
            return status;
        }
        if (part->is_ids && (part->rows == 0 || part->cols == 0))
            return tw_error_set(err, TW_ERR_FORMAT, "%s: no ids",
                                chain->corpus->file[part->first_file].path);
    }
    return TW_OK;
}

static enum tw_status identify(struct tw_corpus *corpus,
                               const struct tw_corpus_options *options,
                               struct tw_error *err)
{
    for (int i = 0; i < options->count; i++) {
        struct tw_corpus_file *file = &corpus->file[i];
        file->path = options->paths[i];
        file->is_ids = is_npy(file->path);
        corpus->has_text |= !file->is_ids;
        if (strcmp(file->path, "-") == 0) {
            corpus->has_stdin = true;
            continue;
        }
        enum tw_status status = hash_file(file, err);
        if (status != TW_OK)
            return status;
    }
    if (options->count > 0)
        return TW_OK;
    struct tw_sha256 hash;
    tw_sha256_init(&hash);
    if (options->prompt)
        tw_sha256_update(&hash, options->prompt, strlen(options->prompt));
    else
        tw_sha256_update(&hash, options->ids,
                         (size_t)(options->ids_rows * options->ids_cols) *
                             sizeof *options->ids);
    tw_sha256_hex(&hash, corpus->file[0].sha256);
    corpus->file[0].path = options->prompt ? "prompt" : options->ids_name;
    corpus->file[0].is_ids = !options->prompt;
    corpus->has_text = options->prompt != NULL;
    return TW_OK;
}

enum tw_status tw_corpus_open(const struct tw_corpus_options *options,
                              struct tw_corpus *corpus, struct tw_error *err)
{
    *corpus =
        (struct tw_corpus){.files = options->count > 0 ? options->count : 1};
    size_t files = (size_t)corpus->files;
    struct chain *chain = tw_calloc(1, sizeof *chain);
    corpus->file = tw_calloc(files, sizeof *corpus->file);
    corpus->read = tw_calloc(files, sizeof *corpus->read);
    enum tw_status status = TW_OK;
    if (chain)
        chain->part = tw_calloc(files, sizeof *chain->part);
    if (!chain || !chain->part || !corpus->file || !corpus->read)
        status = tw_error_set(err, TW_ERR_NOMEM, "out of memory");
    if (status == TW_OK)
        status = identify(corpus, options, err);
    if (status == TW_OK) {
        chain->corpus = corpus;
        chain->options = options->text;
        chain->prompt = options->prompt;
        make_parts(chain, options);
        status = open_parts(chain, err);
    }
    if (status != TW_OK) {
        chain_close(chain);
        tw_corpus_close(corpus);
        return status;
    }
    corpus->documents = (struct tw_documents){
        .state = chain, .next = chain_next, .close = chain_close};
    return TW_OK;
}

void tw_corpus_close(struct tw_corpus *corpus)
{
    if (corpus->documents.close)
        corpus->documents.close(corpus->documents.state);
    tw_free(corpus->file);
    tw_free(corpus->read);
    *corpus = (struct tw_corpus){0};
}

double tw_corpus_fraction(const struct tw_corpus *corpus)
{
    double total = 0, done = 0;
    for (int i = 0; i < corpus->files; i++) {
        const struct tw_corpus_file *file = &corpus->file[i];
        const char *dot = strrchr(file->path, '.');
        if (file->stored_bytes == 0 || file->is_ids ||
            (dot && strcmp(dot, ".gz") == 0))
            return -1;
        total += (double)file->stored_bytes;
        done += corpus->read[i].is_done ? (double)file->stored_bytes
                                        : (double)corpus->read[i].bytes;
    }
    return total > 0 ? (done < total ? done / total : 1) : -1;
}
