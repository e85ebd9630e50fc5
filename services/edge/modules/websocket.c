#include "services/edge/modules/websocket.h"
#include "common/base/utf8.h"

#include <openssl/evp.h>
#include <string.h>

enum { CONTINUATION = 0, TEXT = 1, CONTROL = 8 /* the bit that control frames have */ };
enum { FIN = 0x80, RSV = 0x70, OPCODE = 0x0f, MASKED = 0x80, LENGTH = 0x7f };
enum { LENGTH_16 = 126, LENGTH_64 = 127 };

/* ---- the handshake ---- */

static bool is_base64(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+'
           || c == '/';
}

/* 16 bytes are 22 characters and two that fill up. Bits that stand for nothing may be set. */
bool websocket_key_is_valid(const char *key, size_t len)
{
    if (len != 24 || key[22] != '=' || key[23] != '=')
        return false;
    for (size_t i = 0; i < 22; i++)
        if (!is_base64(key[i]))
            return false;
    return true;
}

bool websocket_accept(const char *key, size_t len, char out[WEBSOCKET_ACCEPT_LEN])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    char text[24 + sizeof(guid)];
    unsigned char digest[EVP_MAX_MD_SIZE], base64[WEBSOCKET_ACCEPT_LEN + 1];
    unsigned digest_len;

    if (len > 24)
        return false;
    memcpy(text, key, len);
    memcpy(text + len, guid, sizeof(guid) - 1);
    if (EVP_Digest(text, len + sizeof(guid) - 1, digest, &digest_len, EVP_sha1(), NULL) != 1
        || EVP_EncodeBlock(base64, digest, (int)digest_len) != WEBSOCKET_ACCEPT_LEN)
        return false;
    memcpy(out, base64, WEBSOCKET_ACCEPT_LEN);
    return true;
}

/* ---- from the client ---- */

static bool is_control(const websocket_t *self)
{
    return self->head[0] & CONTROL;
}

/* What the first two bytes of a frame say: 0, or the code with which the connection fails. */
static uint16_t head_fault(const websocket_t *self)
{
    unsigned opcode = self->head[0] & OPCODE, length = self->head[1] & LENGTH;

    if (self->head[0] & RSV || !(self->head[1] & MASKED))
        return WEBSOCKET_PROTOCOL_ERROR;
    switch (opcode) {
    case CONTINUATION:
        return self->in_message ? 0 : WEBSOCKET_PROTOCOL_ERROR;
    case TEXT:
        return self->in_message ? WEBSOCKET_PROTOCOL_ERROR : WEBSOCKET_UNSUPPORTED;
    case WEBSOCKET_BINARY:
        return self->in_message ? WEBSOCKET_PROTOCOL_ERROR : 0;
    case WEBSOCKET_IS_CLOSE:
    case WEBSOCKET_IS_PING:
    case WEBSOCKET_IS_PONG:
        return self->head[0] & FIN && length <= WEBSOCKET_CONTROL_MAX ? 0
                                                                      : WEBSOCKET_PROTOCOL_ERROR;
    default:
        return WEBSOCKET_PROTOCOL_ERROR;
    }
}

static unsigned length_bytes(const websocket_t *self)
{
    unsigned length = self->head[1] & LENGTH;

    return length == LENGTH_16 ? 2 : length == LENGTH_64 ? 8 : 0;
}

/* The payload's length: it is written in as few bytes as it can be, and has 63 bits (RFC 6455
 * 5.2). */
static bool read_length(const websocket_t *self, uint64_t *ret_length)
{
    unsigned bytes = length_bytes(self);
    uint64_t length = 0;

    if (!bytes) {
        *ret_length = self->head[1] & LENGTH;
        return true;
    }
    for (unsigned i = 0; i < bytes; i++)
        length = length << 8 | self->head[2 + i];
    *ret_length = length;
    return bytes == 2 ? length > WEBSOCKET_SHORT_MAX
                      : length > WEBSOCKET_MIDDLE_MAX && length >> 63 == 0;
}

static websocket_event_t break_off(websocket_t *self, uint16_t code)
{
    self->code = code;
    self->end = WEBSOCKET_BROKEN;
    return self->end;
}

/* Collects the head. True: it is whole, or wrong (end). */
static bool collect_head(websocket_t *self, websocket_input_t *input)
{
    uint16_t fault;

    while (input->in < input->end) {
        self->head[self->head_len++] = *input->in++;
        if (self->head_len == 2) {
            fault = head_fault(self);
            if (fault) {
                break_off(self, fault);
                return true;
            }
        }
        if (self->head_len > 2 && self->head_len == 6 + length_bytes(self))
            return true;
    }
    return false;
}

static bool begin_frame(websocket_t *self)
{
    if (!read_length(self, &self->left)) {
        break_off(self, WEBSOCKET_PROTOCOL_ERROR);
        return false;
    }
    memcpy(self->mask, self->head + 2 + length_bytes(self), sizeof(self->mask));
    self->in_payload = true;
    if (is_control(self))
        self->control_len = 0;
    else
        self->in_message = !(self->head[0] & FIN);
    return true;
}

/* Each word is read before it is written, so that out may stand anywhere up to in. */
static void unmask(uint8_t *out, const uint8_t *in, size_t len, const uint8_t mask[4])
{
    uint8_t twice[8];
    uint64_t wide, word;
    size_t i = 0;

    memcpy(twice, mask, 4);
    memcpy(twice + 4, mask, 4);
    memcpy(&wide, twice, sizeof(wide));
    for (; len - i >= sizeof(word); i += sizeof(word)) {
        memcpy(&word, in + i, sizeof(word));
        word ^= wide;
        memcpy(out + i, &word, sizeof(word));
    }
    for (; i < len; i++)
        out[i] = in[i] ^ mask[i & 3];
}

static void turn_mask(uint8_t mask[4], size_t by)
{
    uint8_t old[4];

    memcpy(old, mask, 4);
    for (size_t i = 0; i < 4; i++)
        mask[i] = old[(i + by) & 3];
}

static void take_payload(websocket_t *self, websocket_input_t *input)
{
    size_t there = (size_t)(input->end - input->in);
    size_t len = self->left < there ? (size_t)self->left : there;

    if (is_control(self)) {
        unmask(self->control + self->control_len, input->in, len, self->mask);
        self->control_len += (uint8_t)len;
    } else {
        unmask(input->out, input->in, len, self->mask);
        input->out += len;
    }
    turn_mask(self->mask, len);
    input->in += len;
    self->left -= len;
}

/* May a client send this code (RFC 6455 7.4.1, 7.4.2, and the registry)? */
static bool is_close_code(unsigned code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014)
           || (code >= 3000 && code <= 4999);
}

static bool is_utf8(const uint8_t *at, const uint8_t *end)
{
    size_t len;

    for (; at < end; at += len) {
        len = utf8_character(at, end);
        if (!len)
            return false;
    }
    return true;
}

static websocket_event_t end_of_close(websocket_t *self)
{
    unsigned code;

    if (self->control_len == 0) {
        self->code = 0;
        self->end = WEBSOCKET_CLOSE;
        return self->end;
    }
    code = self->control_len > 1 ? (unsigned)self->control[0] << 8 | self->control[1] : 0;
    if (!is_close_code(code))
        return break_off(self, WEBSOCKET_PROTOCOL_ERROR);
    if (!is_utf8(self->control + 2, self->control + self->control_len))
        return break_off(self, WEBSOCKET_BAD_TEXT);
    self->code = (uint16_t)code;
    self->end = WEBSOCKET_CLOSE;
    return self->end;
}

/* The payload is whole. A pong says nothing, asked for or not (RFC 6455 5.5.3). */
static websocket_event_t end_of_frame(websocket_t *self)
{
    self->in_payload = false;
    self->head_len = 0;
    switch (self->head[0] & OPCODE) {
    case WEBSOCKET_IS_PING:
        return WEBSOCKET_PING;
    case WEBSOCKET_IS_CLOSE:
        return end_of_close(self);
    default:
        return WEBSOCKET_MORE;
    }
}

websocket_event_t websocket_read(websocket_t *self, websocket_input_t *input)
{
    websocket_event_t event;

    while (!self->end) {
        if (!self->in_payload && (!collect_head(self, input) || self->end || !begin_frame(self)))
            break;
        take_payload(self, input);
        if (self->left)
            break;
        event = end_of_frame(self);
        if (event)
            return event;
    }
    return self->end;
}

/* ---- to the client ---- */

size_t websocket_write_head(uint8_t out[WEBSOCKET_HEAD_MAX], unsigned opcode, uint64_t len)
{
    unsigned bytes = len <= WEBSOCKET_SHORT_MAX ? 0 : len <= WEBSOCKET_MIDDLE_MAX ? 2 : 8;

    out[0] = (uint8_t)(FIN | opcode);
    out[1] = (uint8_t)(bytes == 0 ? len : bytes == 2 ? LENGTH_16 : LENGTH_64);
    for (unsigned i = 0; i < bytes; i++)
        out[2 + i] = (uint8_t)(len >> 8 * (bytes - 1 - i));
    return 2 + bytes;
}

size_t websocket_write_control(uint8_t out[WEBSOCKET_FRAME_MAX], unsigned opcode,
                               const void *payload, size_t len)
{
    uint8_t head[WEBSOCKET_HEAD_MAX];

    if (len > WEBSOCKET_CONTROL_MAX)
        len = WEBSOCKET_CONTROL_MAX;
    memcpy(out, head, websocket_write_head(head, opcode, len));
    if (len)
        memcpy(out + 2, payload, len);
    return 2 + len;
}

size_t websocket_write_close(uint8_t out[WEBSOCKET_FRAME_MAX], unsigned code, const char *reason)
{
    uint8_t payload[WEBSOCKET_CONTROL_MAX];
    size_t len = strlen(reason);

    if (!code)
        return websocket_write_control(out, WEBSOCKET_IS_CLOSE, NULL, 0);
    if (len > sizeof(payload) - 2)
        len = sizeof(payload) - 2;
    payload[0] = (uint8_t)(code >> 8);
    payload[1] = (uint8_t)code;
    memcpy(payload + 2, reason, len);
    return websocket_write_control(out, WEBSOCKET_IS_CLOSE, payload, 2 + len);
}
