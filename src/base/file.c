/* Read-only maps and small whole-file reads. */
#include <config.h>

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static enum tw_status open_regular(const char *path, int *fd, size_t *size,
                                   struct tw_error *err)
{
    struct stat status;
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        return tw_error_errno(err, errno, "%s", path);
    enum tw_status result = TW_OK;
    if (fstat(*fd, &status) != 0)
        result = tw_error_errno(err, errno, "%s", path);
    else if (!S_ISREG(status.st_mode))
        result = tw_error_set(err, TW_ERR_IO, "%s: not a regular file", path);
    if (result != TW_OK)
        close(*fd);
    else
        *size = (size_t)status.st_size;
    return result;
}

enum tw_status tw_file_map(const char *path, struct tw_file *file,
                           struct tw_error *err)
{
    int fd;
    size_t size;
    enum tw_status status = open_regular(path, &fd, &size, err);
    if (status != TW_OK)
        return status;
    void *data = NULL;
    if (size > 0) {
        data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            status = tw_error_errno(err, errno, "%s: cannot map", path);
    }
    close(fd);
    if (status == TW_OK)
        *file = (struct tw_file){.data = data, .size = size};
    return status;
}

void tw_file_unmap(struct tw_file *file)
{
    if (file->data)
        munmap((void *)(uintptr_t)file->data, file->size);
    *file = (struct tw_file){0};
}

static enum tw_status read_all(int fd, char *text, size_t size,
                               const char *path, struct tw_error *err)
{
    size_t have = 0;
    while (have < size) {
        ssize_t got = read(fd, text + have, size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return tw_error_errno(err, errno, "%s", path);
        if (got == 0)
            return tw_error_set(err, TW_ERR_IO, "%s: became shorter", path);
        have += (size_t)got;
    }
    return TW_OK;
}

enum tw_status tw_file_read(const char *path, size_t limit, char **out,
                            size_t *out_size, struct tw_error *err)
{
    int fd;
    size_t size;
    enum tw_status status = open_regular(path, &fd, &size, err);
    if (status != TW_OK)
        return status;
    char *text = NULL;
    if (size > limit)
        status = tw_error_set(err, TW_ERR_FORMAT,
                              "%s: %zu bytes, more than the %zu allowed", path,
                              size, limit);
    else if (!(text = tw_alloc(size + 1, 1)))
        status = tw_error_set(err, TW_ERR_NOMEM, "%s: out of memory", path);
    else
        status = read_all(fd, text, size, path, err);
    close(fd);
    if (status != TW_OK) {
        tw_free(text);
        return status;
    }
    text[size] = '\0';
    *out = text;
    *out_size = size;
    return TW_OK;
}

char *tw_path_join(const char *directory, const char *name)
{
    size_t a = strlen(directory), b = strlen(name);
    while (a > 1 && directory[a - 1] == '/')
        a--;
    char *path = tw_alloc(a + b + 2, 1);
    if (!path)
        return NULL;
    memcpy(path, directory, a);
    path[a] = '/';
    memcpy(path + a + 1, name, b + 1);
    return path;
}

const char *tw_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
