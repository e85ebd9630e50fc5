/* The gateway's HTTP framing: whatever comes, in whatever pieces, it stays within the bytes that
 * came, and what is taken has one host, one length and nothing that a line could hide in. */
#include "services/gateway/framing.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const head_t *head)
{
    size_t hosts = 0, lengths = 0;

    for (size_t i = 0; i < head->header_count; i++) {
        hosts += !strcasecmp(head->headers[i].name, "Host");
        lengths += !strcasecmp(head->headers[i].name, "Content-Length");
        lengths += !strcasecmp(head->headers[i].name, "Transfer-Encoding");
        if (strpbrk(head->headers[i].value, "\r\n") || !*head->headers[i].name)
            abort();
    }
    if (hosts > 1 || lengths > 1 || (head->minor && !hosts))
        abort();
    if (*head->target != '/' && strcmp(head->target, "*"))
        abort();
}

/* The same text, whole and by pieces, ends at the same place with the same outcome. */
static int scan(const char *text, size_t size, size_t piece, size_t *ret_len)
{
    const char *why;
    size_t at = 0;
    int r = 0;

    *ret_len = 0;
    for (size_t len = piece; !r && !*ret_len; len += piece) {
        r = framing_scan(text, len < size ? len : size, &at, ret_len, &why);
        if (len >= size)
            break;
    }
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    size_t len, other, used, body;
    chunks_t chunks = {0};
    const char *why;
    head_t head;
    bool done;
    int r;

    memcpy(text, data, size);
    text[size] = '\0';
    r = scan(text, size, size + 1, &len);
    if (r != scan(text, size, 1, &other) || len != other)
        abort();
    if (!r && len) {
        char *copy = malloc(len);

        memcpy(copy, text, len);
        if (!framing_parse(copy, len, &head, &why))
            check(&head);
        free(copy);
    }
    if (!chunks_take(&chunks, text + len, size - len, &used, &body, &done, &why)
        && (used > size - len || body > used))
        abort();
    free(text);
    return 0;
}
