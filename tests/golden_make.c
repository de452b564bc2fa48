#include <config.h>

#include "golden_make.h"

#include <math.h>

#include "tw_files.h"

static uint64_t fnv1a(const char *name)
{
    uint64_t value = 0xcbf29ce484222325u;
    for (; *name; name++)
        value = (value ^ (uint8_t)*name) * 0x100000001b3u;
    return value;
}

static uint64_t splitmix64(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* The upper half, to nearest, ties to even; the values are finite. */
static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* IEEE half, to nearest, ties to even; the values stay far below 65504. */
static uint16_t to_f16(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    int exponent;
    float magnitude = fabsf(value);
    frexpf(magnitude, &exponent);
    if (magnitude < 0x1p-14f) /* subnormal: in units of 2^-24 */
        return (uint16_t)(sign + lrintf(magnitude * 0x1p24f));
    /* 1024 to 2048 units; 2048 carries into the exponent, as it should */
    long units = lrintf(ldexpf(magnitude, 11 - exponent));
    return (uint16_t)(sign + ((exponent + 14 - 1) << 10) + units);
}

struct part {
    const char *name, *from, *dtype, *file;
    json_t *shape;
    double scale, offset;
    size_t elements, size; /* size of one */
};

static struct part part_of(json_t *entry)
{
    struct part p = {0};
    size_t i;
    json_t *dim;
    ck_assert_int_eq(json_unpack(entry, "{s:s,s:s,s:s,s:o,s:F,s:F}", "name",
                                 &p.name, "dtype", &p.dtype, "file", &p.file,
                                 "shape", &p.shape, "scale", &p.scale, "offset",
                                 &p.offset),
                     0);
    json_t *from = json_object_get(entry, "from");
    p.from = from ? json_string_value(from) : p.name;
    p.elements = 1;
    json_array_foreach(p.shape, i, dim) p.elements *=
        (size_t)json_integer_value(dim);
    p.size = strcmp(p.dtype, "F32") == 0 ? 4 : strcmp(p.dtype, "BOOL") ? 2 : 1;
    return p;
}

static void fill(const struct part *p, uint8_t *out)
{
    uint64_t start = fnv1a(p->from);
    for (size_t i = 0; i < p->elements; i++, out += p->size) {
        double k = (double)(splitmix64(start + i) >> 40);
        float value = (float)((p->offset + p->scale * (k / 0x1p23 - 1)) / 1024);
        uint16_t half =
            strcmp(p->dtype, "BF16") == 0 ? to_bf16(value) : to_f16(value);
        if (p->size == 4)
            memcpy(out, &value, 4);
        else if (p->size == 2)
            memcpy(out, &half, 2);
        else
            *out = value != 0;
    }
}

/* A file in the making. */
struct output {
    const char *file;
    json_t *header;
    uint8_t *data;
    size_t used;
};

/* Its tensors with elements of `size` bytes, in the list's order. */
static void append(struct output *out, json_t *list, size_t size)
{
    json_t *entry;
    size_t i;
    json_array_foreach(list, i, entry)
    {
        struct part p = part_of(entry);
        if (strcmp(p.file, out->file) != 0 || p.size != size)
            continue;
        size_t begin = out->used;
        out->used += p.elements * p.size;
        out->data = realloc(out->data, out->used);
        ck_assert_ptr_nonnull(out->data);
        fill(&p, out->data + begin);
        json_object_set_new(out->header, p.name,
                            json_pack("{s:s,s:O,s:[I,I]}", "dtype", p.dtype,
                                      "shape", p.shape, "data_offsets",
                                      (json_int_t)begin,
                                      (json_int_t)out->used));
    }
}

/* The widest first, as others' writers do: all are then aligned. */
static void write_file(json_t *list, const char *file, const char *folder)
{
    struct output out = {.file = file, .header = json_object()};
    append(&out, list, 4);
    append(&out, list, 2);
    append(&out, list, 1);
    char *text = json_dumps(out.header, JSON_COMPACT);
    tw_write_safetensors(folder, file, text, out.data, out.used);
    free(text);
    free(out.data);
    json_decref(out.header);
}

json_t *golden_read(const char *from, const char *name)
{
    json_error_t error;
    json_t *json = json_load_file(tw_in(from, name), 0, &error);
    ck_assert_msg(json != NULL, "%s/%s: %s", from, name, error.text);
    return json;
}

void golden_config(json_t *config, const char *folder)
{
    ck_assert_int_eq(json_dump_file(config, tw_in(folder, "config.json"), 0),
                     0);
}

void golden_weights(json_t *list, const char *folder)
{
    json_t *map = json_object(), *entry;
    const char *last = "";
    size_t i, files = 0;
    json_array_foreach(list, i, entry)
    {
        struct part p = part_of(entry);
        json_object_set_new(map, p.name, json_string(p.file));
        if (strcmp(p.file, last) == 0)
            continue;
        last = p.file;
        files++;
        write_file(list, p.file, folder);
    }
    json_t *index = json_pack("{s:{},s:O}", "metadata", "weight_map", map);
    if (files > 1)
        ck_assert_int_eq(
            json_dump_file(index, tw_in(folder, "model.safetensors.index.json"),
                           0),
            0);
    json_decref(index);
    json_decref(map);
}

void golden_make(const char *from, const char *folder)
{
    json_t *config = golden_read(from, "config.json");
    json_t *list = golden_read(from, "tensors.json");
    golden_config(config, folder);
    golden_weights(list, folder);
    json_decref(config);
    json_decref(list);
}
