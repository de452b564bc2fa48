/* The wire format of protocol buffers, as much as reading needs: fields one
 * by one, each length checked against the message it stands in. */
#include <config.h>

#include "text/tokenizer_internal.h"

static bool read_varint(struct twp_wire *wire, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && wire->at < wire->end; shift += 7) {
        unsigned char byte = *wire->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool read_fixed(struct twp_wire *wire, size_t size, uint64_t *value)
{
    if ((size_t)(wire->end - wire->at) < size)
        return false;
    *value = 0;
    for (size_t i = 0; i < size; i++)
        *value |= (uint64_t)wire->at[i] << 8 * i;
    wire->at += size;
    return true;
}

static bool read_bytes(struct twp_wire *wire, struct twp_field *field)
{
    if (!read_varint(wire, &field->value) ||
        field->value > (uint64_t)(wire->end - wire->at))
        return false;
    field->bytes = (struct twp_wire){wire->at, wire->at + field->value};
    wire->at += field->value;
    return true;
}

/* Groups (types 3 and 4) are long out of use. */
static bool read_value(struct twp_wire *wire, struct twp_field *field)
{
    switch (field->type) {
    case TWP_WIRE_VARINT:
        return read_varint(wire, &field->value);
    case TWP_WIRE_FIXED64:
        return read_fixed(wire, 8, &field->value);
    case TWP_WIRE_BYTES:
        return read_bytes(wire, field);
    case TWP_WIRE_FIXED32:
        return read_fixed(wire, 4, &field->value);
    default:
        return false;
    }
}

enum tw_status twp_wire_next(struct twp_wire *wire, struct twp_field *field,
                             bool *is_there, struct tw_error *err)
{
    size_t left = (size_t)(wire->end - wire->at);
    uint64_t tag;
    *is_there = left > 0;
    *field = (struct twp_field){0};
    if (!*is_there)
        return TW_OK;
    if (read_varint(wire, &tag) && tag >> 3 > 0 && tag >> 3 <= UINT32_MAX) {
        field->number = (uint32_t)(tag >> 3);
        field->type = (unsigned)(tag & 7);
        if (read_value(wire, field))
            return TW_OK;
    }
    return tw_error_set(err, TW_ERR_FORMAT,
                        "not a protocol buffer: no field %zu bytes before a "
                        "message's end",
                        left);
}
