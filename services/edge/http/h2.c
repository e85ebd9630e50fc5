#include "services/edge/http/h2.h"
#include "services/edge/http/head.h"

#include <string.h>

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, CONTINUATION = 9, PADDED = 0x8, LENGTH_DIGITS = 18 };

void h2_begin(h2_scan_t *self)
{
    memset(self, 0, sizeof(*self));
}

static unsigned type_of(const h2_scan_t *self)
{
    return self->head[3];
}

/* A frame's header is complete. */
static const char *begin_frame(h2_scan_t *self, size_t block_max)
{
    self->left = (uint32_t)(self->head[0] << 16 | self->head[1] << 8 | self->head[2]);
    if (self->left > H2_FRAME_MAX)
        return "no HTTP/2, or a frame of more than 16384 bytes";
    self->padded = false;
    self->code = 0;
    switch (type_of(self)) {
    case DATA:
        self->overhead += H2_FRAME_HEAD;
        self->body += self->left;
        self->padded = self->left && self->head[4] & PADDED;
        break;
    case HEADERS:
        self->block = 0;
        /* fall through */
    case CONTINUATION:
        self->block += H2_FRAME_HEAD + self->left;
        if (self->block > block_max)
            return "a head larger than postern_response_header_size";
        break;
    default:
        self->overhead += H2_FRAME_HEAD + self->left;
        break;
    }
    return NULL;
}

/* The first byte of a padded frame (RFC 9113 6.1). More padding than the frame has is nginx's to
 * refuse. */
static void take_padding(h2_scan_t *self, unsigned char padding)
{
    uint32_t none = 1 + (uint32_t)padding;

    if (none > self->left)
        none = self->left;
    self->body -= none;
    self->overhead += none;
    self->padded = false;
}

/* Takes bytes of the payload; returns how many. */
static size_t take_payload(h2_scan_t *self, const unsigned char *at, size_t len)
{
    size_t i, n = len < self->left ? len : self->left;

    if (self->padded && n)
        take_padding(self, *at);
    if (type_of(self) == RST_STREAM)
        for (i = 0; i < n; i++)
            self->code = self->code << 8 | at[i];
    self->left -= (uint32_t)n;
    if (self->left == 0 && type_of(self) == RST_STREAM)
        self->reset = true;
    return n;
}

/* Takes bytes of a frame's header; returns how many. */
static size_t take_head(h2_scan_t *self, const unsigned char *at, size_t len)
{
    size_t n = H2_FRAME_HEAD - self->have;

    if (n > len)
        n = len;
    memcpy(self->head + self->have, at, n);
    self->have += (unsigned)n;
    return n;
}

const char *h2_scan(h2_scan_t *self, const void *data, size_t len, size_t block_max, uint64_t sent)
{
    const unsigned char *at = data, *end = at + len;
    const char *why;

    while (at < end) {
        if (self->have < H2_FRAME_HEAD) {
            at += take_head(self, at, (size_t)(end - at));
            if (self->have < H2_FRAME_HEAD)
                break;
            why = begin_frame(self, block_max);
            if (why)
                return why;
            self->spoken = true;
        }
        at += take_payload(self, at, (size_t)(end - at));
        if (self->left)
            break;
        self->have = 0;
    }
    return self->overhead > H2_OVERHEAD_FREE + H2_OVERHEAD_RATIO * (self->body + sent)
               ? "frames without end that carry nothing"
               : NULL;
}

/* ---- fields ---- */

/* Fields of one connection make a message of HTTP/2 malformed (RFC 9113 8.2.2). */
static bool is_of_connection(const head_field_t *field)
{
    static const char *const names[] = {"Connection", "Keep-Alive", "Proxy-Connection",
                                        "Transfer-Encoding", "Upgrade"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (head_field_is(field, names[i]))
            return true;
    return false;
}

static bool is_length(const head_field_t *field)
{
    for (size_t i = 0; i < field->value_len; i++)
        if (field->value[i] < '0' || field->value[i] > '9')
            return false;
    return field->value_len > 0 && field->value_len <= LENGTH_DIGITS;
}

static void count_field(h2_fields_t *self, size_t name_len, size_t value_len)
{
    size_t larger = name_len > value_len ? name_len : value_len;

    self->count++;
    self->bytes += name_len + value_len;
    if (larger > self->largest)
        self->largest = larger;
}

const char *h2_judge_field(h2_fields_t *self, const char *name, size_t name_len, const char *value,
                           size_t value_len)
{
    head_field_t field = {name, value, name_len, value_len};

    count_field(self, name_len, value_len);
    if (self->count > HEAD_FIELDS_MAX)
        return "too many fields";
    if (!head_is_token(name, name_len))
        return "a field whose name is no token";
    if (head_has_control(value, value_len))
        return "a control character in a field";
    if (is_of_connection(&field))
        return "a field of HTTP/1.1's connections";
    if (!head_field_is(&field, "Content-Length"))
        return NULL;
    if (self->length)
        return "two Content-Length";
    self->length = true;
    return is_length(&field) ? NULL : "a Content-Length that is no number";
}
