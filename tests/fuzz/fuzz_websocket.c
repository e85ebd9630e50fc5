/* Frames of a WebSocket's client. The first byte says how the rest is cut: what comes of it does not depend on that, and nothing is
 * written beyond what was read. */
#include "services/edge/modules/websocket.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    uint8_t out[4096];
    size_t len, pings;
    websocket_event_t end;
    uint16_t code;
} result_t;

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void check_end(const websocket_t *decoder, websocket_event_t event)
{
    uint16_t code = decoder->code;

    if (event == WEBSOCKET_BROKEN)
        check(code == WEBSOCKET_PROTOCOL_ERROR || code == WEBSOCKET_UNSUPPORTED
              || code == WEBSOCKET_BAD_TEXT);
    if (event == WEBSOCKET_CLOSE)
        check(code == 0 || (code >= 1000 && code <= 4999 && code != 1005 && code != 1006));
}

/* Each piece in memory of its own: ASan sees what is read or written beside it. */
static void read_in_pieces(const uint8_t *data, size_t size, size_t piece, result_t *result)
{
    websocket_t decoder = {0};
    websocket_event_t event = WEBSOCKET_MORE;

    memset(result, 0, sizeof(*result));
    for (size_t at = 0; at < size && event < WEBSOCKET_CLOSE; at += piece) {
        size_t part = size - at < piece ? size - at : piece;
        uint8_t *copy = malloc(part);
        websocket_input_t input = {copy, copy + part, copy};

        memcpy(copy, data + at, part);
        do {
            event = websocket_read(&decoder, &input);
            check(input.out <= input.in && input.in <= input.end);
            check(decoder.control_len <= WEBSOCKET_CONTROL_MAX);
            result->pings += event == WEBSOCKET_PING;
        } while (event == WEBSOCKET_PING);
        check(event != WEBSOCKET_MORE || input.in == input.end);
        memcpy(result->out + result->len, copy, (size_t)(input.out - copy));
        result->len += (size_t)(input.out - copy);
        free(copy);
    }
    check_end(&decoder, event);
    result->end = event;
    result->code = event < WEBSOCKET_CLOSE ? 0 : decoder.code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static result_t whole, pieces;

    if (size < 2 || size > 4096)
        return 0;
    websocket_key_is_valid((const char *)data, size);
    read_in_pieces(data + 1, size - 1, size, &whole);
    read_in_pieces(data + 1, size - 1, 1 + data[0] % 64, &pieces);
    check(whole.len == pieces.len && whole.pings == pieces.pings && whole.end == pieces.end
          && whole.code == pieces.code);
    check(memcmp(whole.out, pieces.out, whole.len) == 0);
    return 0;
}
