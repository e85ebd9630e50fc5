/* Numbers of events. */
#include "services/events/topics.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define HTTP "http_request_complete.v0"
#define TCP  "tcp_connection_closed.v0"

static size_t put(unsigned char *out, int kind, const char *topic, const char *body)
{
    size_t topic_len = strlen(topic), len = strlen(body);

    out[0] = (unsigned char)kind;
    out[1] = out[2] = out[3] = 0;
    out[4] = (unsigned char)len;
    memcpy(out + 5, topic, topic_len);
    memcpy(out + 5 + topic_len, body, len);
    return 5 + topic_len + len;
}

static size_t event(unsigned char *out, const char *topic)
{
    return put(out, (int)strlen(topic), topic, "x");
}

Test(topics, each_counts_its_own_and_values_count_for_their_layout)
{
    topics_t *self = calloc(1, sizeof(*self));
    unsigned char body[1024];
    int64_t numbers[6] = {-1, -1, -1, -1, -1, -1};
    size_t n = 0;

    n += put(body + n, 0, "", HTTP "\nfield STR ");
    n += put(body + n, 255, "", "v");
    n += event(body + n, TCP);
    n += put(body + n, 255, "", "v");
    n += put(body + n, 0, "", TCP "\nfield STR ");
    n += put(body + n, 255, "", "v");
    n += event(body + n, "nobody_knows_this.v0");
    n += event(body + n, HTTP);
    topics_gather(self, body, n);
    cr_assert_eq(self->n, 2);
    topics_find(self, HTTP, strlen(HTTP))->last = 10;
    topics_number(self, body, n, numbers);
    cr_assert_eq(numbers[0], 11);
    cr_assert_eq(numbers[1], 1);
    cr_assert_eq(numbers[2], 12);
    cr_assert_eq(numbers[3], 2);
    cr_assert_eq(numbers[4], NUMBER_NONE, "published without one");
    cr_assert_eq(numbers[5], 13);
    cr_assert_eq(topics_find(self, HTTP, strlen(HTTP))->last, 13);
    free(self);
}

Test(topics, what_is_not_published_gets_no_number)
{
    topics_t *self = calloc(1, sizeof(*self));
    unsigned char body[256];
    int64_t numbers[3] = {-1, NUMBER_NOT_PUBLISHED, -1};
    size_t n = event(body, "vault_created.v0");

    n += event(body + n, "vault_created.v0");
    n += event(body + n, "vault_created.v0");
    topics_number(self, body, n, numbers);
    cr_assert_eq(numbers[0], 1);
    cr_assert_eq(numbers[1], NUMBER_NOT_PUBLISHED);
    cr_assert_eq(numbers[2], 2);
    free(self);
}
