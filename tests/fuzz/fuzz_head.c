/* What an upstream answers: whole or in pieces it is judged alike, and the fields of what was let
 * through are clean. */
#include "services/edge/http/head.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_fields(const char *text, size_t len)
{
    head_field_t field, folded;
    size_t at = 0, folded_at = head_status_len(text, len), fields = 0;
    char *lower = malloc(len);
    uintptr_t hash;

    while (head_next(text, len, &at, &field)) {
        if (!field.name_len || memchr(field.name, ':', field.name_len)
            || memchr(field.value, '\r', field.value_len)
            || memchr(field.value, '\0', field.value_len)
            || memchr(field.value, '\n', field.value_len))
            abort();
        if (!head_next_folded(text, len, &folded_at, &folded, lower, &hash)
            || memcmp(&field, &folded, sizeof(field)) != 0 || folded_at != at)
            abort();
        (void)head_field_passes(&field);
        fields++;
    }
    if (fields > HEAD_FIELDS_MAX || at > len
        || head_next_folded(text, len, &folded_at, &folded, lower, &hash))
        abort();
    free(lower);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *why = NULL, *other = NULL;
    head_t head, pieces;
    head_verdict_t verdict, next = HEAD_MORE;

    head_begin(&head);
    verdict = head_scan(&head, text, size, &why);
    head_begin(&pieces);
    for (size_t n = 0; n <= size && next == HEAD_MORE; n += 1 + n % 3) {
        char *copy = malloc(n); /* of that size, so that a byte behind it is seen */

        memcpy(copy, text, n);
        next = head_scan(&pieces, copy, n, &other);
        free(copy);
        if (next == HEAD_MORE && n < size && n + 1 + n % 3 > size)
            next = head_scan(&pieces, text, size, &other);
    }
    if (verdict == HEAD_WHOLE) {
        if (next != HEAD_WHOLE || pieces.len != head.len || pieces.status != head.status
            || pieces.length != head.length || pieces.chunked != head.chunked || head.len > size
            || head.status < 100 || head.status > 599 || (head.chunked && head.length >= 0))
            abort();
        check_fields(text, head.len);
    }
    if (verdict == HEAD_MORE ? next != HEAD_MORE : next == HEAD_MORE)
        abort();
    return 0;
}
