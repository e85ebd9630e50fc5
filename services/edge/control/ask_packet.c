#include "services/edge/control/ask_packet.h"

#include <string.h>

bool ask_head_init(ask_head_t *self, uint64_t number, const char *verb, const char *account,
                   size_t account_len, size_t total)
{
    size_t verb_len = strlen(verb);

    memset(self, 0, sizeof(*self));
    if (verb_len >= sizeof(self->verb) || account_len >= sizeof(self->account)
        || total > ASK_BODY_MAX)
        return false;
    self->number = number;
    self->total = (uint32_t)total;
    memcpy(self->verb, verb, verb_len);
    if (account_len)
        memcpy(self->account, account, account_len);
    return true;
}

static bool has_end(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

bool ask_head_read(ask_head_t *out, const void *frame, size_t len, size_t part_len)
{
    if (len != sizeof(*out))
        return false;
    memcpy(out, frame, len);
    return out->number && out->total <= ASK_BODY_MAX && out->offset <= out->total
           && part_len <= out->total - out->offset && has_end(out->verb, sizeof(out->verb))
           && has_end(out->account, sizeof(out->account))
           && has_end(out->request, sizeof(out->request));
}

bool ask_told_read(ask_told_t *out, const void *frame, size_t len)
{
    if (len != sizeof(*out))
        return false;
    memcpy(out, frame, len);
    return has_end(out->msg, sizeof(out->msg));
}

/* UTF-8: bytes 10xxxxxx go on with the character before them. */
static size_t cut_text(const char *text, size_t len, size_t room)
{
    if (len < room)
        return len;
    len = room - 1;
    while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
        len--;
    return len;
}

void ask_told_init(ask_told_t *self, uint64_t number, int code, const char *msg, size_t msg_len)
{
    memset(self, 0, sizeof(*self));
    self->number = number;
    self->code = code;
    msg_len = cut_text(msg, msg_len, sizeof(self->msg));
    if (msg_len)
        memcpy(self->msg, msg, msg_len);
}
