/* Texts that clients, operators and peers write, each with a parser of its own; the first byte
 * chooses: certificates and keys, SSH keys, traffic policies, hosts of requests, addresses, what is
 * quoted, and the numbers of events. */
#include "common/base/address.h"
#include "common/base/quote.h"
#include "common/schema/policy.h"
#include "services/cli/gaps.h"
#include "services/edge/http/authority.h"
#include "services/edge/http/forwarded.h"
#include "services/events/batch.h"
#include "services/events/topics.h"
#include "services/identity/ssh.h"
#include "services/routes/x509.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* The text behind the one at text, within size bytes with a NUL behind them. */
static const char *second_of(const char *text, size_t size)
{
    size_t len = strlen(text);

    return len < size ? text + len + 1 : text + len;
}

static void try_certificate(const char *text, size_t size)
{
    const char *key = second_of(text, size);
    json_t *pair = json_object(), *authority = json_object();
    problem_t problem = {0};

    check(x509_describe(text, key, pair, &problem) >= 0);
    problem_done(&problem);
    problem = (problem_t){0};
    check(x509_describe_authority(text, authority, &problem) >= 0);
    problem_done(&problem);
    (void)x509_is_due(text);
    json_decref(pair);
    json_decref(authority);
}

static void try_ssh(const char *text, size_t size)
{
    static char *public_key, *private_key;
    const char *type = ssh_key_type(text);
    const char *id = second_of(text, size);
    json_t *principals = json_array();
    ssh_certificate_t certificate = {.public_key = text,
                                     .key_id = id,
                                     .principals = principals,
                                     .host = size % 2,
                                     .valid_until = (int64_t)size};
    char *line = NULL;
    int r;

    if (!private_key)
        check(!ssh_make_key("ed25519", NULL, 0, &public_key, &private_key));
    json_array_append_new(principals, json_stringn_nocheck(id, strlen(id)));
    r = ssh_certify(private_key, &certificate, &line);
    check(r ? r == -EINVAL && !line : type && line && !strchr(line, '\n'));
    free(line);
    json_decref(principals);
}

static void try_host(const char *text, size_t size)
{
    size_t len = 0;
    unsigned port = 0;
    char *lower = malloc(size + 1);

    if (!authority_split(text, size, &len, &port)) {
        check(len && len <= size && len <= 254 && port <= UINT16_MAX);
        for (size_t i = 0; i < len; i++)
            check(text[i] > ' ' && !strchr("/\\@?#\"<>;,", text[i]));
    }
    for (size_t i = 0; i < size; i++)
        lower[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] | 0x20 : text[i]);
    check(forwarded_of((unsigned char *)lower, size) <= FORWARDED_HOST);
    free(lower);
}

static void try_addresses(const char *text, size_t size)
{
    const char *denied = second_of(text, size);
    struct sockaddr_storage address;
    address_rules_t *rules = NULL;
    char *bad = NULL;
    int r = address_rules_new(&rules, text, denied, second_of(denied, 0), &bad);

    check(r ? r == -EINVAL && bad && !rules : rules && !bad);
    if (address_parse(denied, 80, &address) && rules)
        (void)address_fault(rules, (struct sockaddr *)&address);
    address_rules_destroy(&rules);
    free(bad);
}

static void try_quote(const char *text)
{
    quote_t quoted = quote(text);
    json_t *is_text = json_string(quoted.text);

    check(is_text && strlen(quoted.text) < sizeof(quoted.text));
    for (const char *at = quoted.text; *at; at++)
        check((unsigned char)*at >= ' ' && *at != 0x7f);
    json_decref(is_text);
}

/* What a subscriber is told: no number is missing twice, and one that came is not missing. */
static void try_gaps(const uint8_t *data, size_t size)
{
    gaps_t *gaps = calloc(1, sizeof(*gaps));
    int64_t now = 1;

    for (size_t i = 0; i + 2 < size; i += 3) {
        char type[2] = {(char)('a' + data[i] % 4), '\0'};
        int64_t number = data[i + 1] == 0xff ? INT64_MAX - data[i + 2] : data[i + 1];
        gap_t *gap;

        now += data[i + 2] * 16;
        if (data[i] & 0x40)
            gaps_head(gaps, type, number, data[i] & 0x20, now);
        else
            (void)gaps_seen(gaps, type, number, now);
        while (data[i] & 0x80 && (gap = gaps_due(gaps, now))) {
            check(gap->first <= gap->last && !gap->told);
            gaps_told(gap, data[i] & 0x10);
        }
        check(gaps->count >= 0 && gaps->count <= GAPS_MAX && gaps->type_count <= GAP_TYPES_MAX);
    }
    free(gaps);
}

static void try_topics(const uint8_t *data, size_t size)
{
    topics_t *topics = calloc(1, sizeof(*topics));
    size_t offset = 0, events = 0;
    record_t record;
    int64_t *numbers;

    while (batch_next(data, size, &offset, &record) == 1)
        events += record.kind != RECORD_LAYOUT;
    if (!batch_check(data, size, (int64_t)events)) {
        numbers = malloc(sizeof(*numbers) * (events + 1));
        for (size_t i = 0; i < events; i++)
            numbers[i] = i % 3 ? NUMBER_NONE : NUMBER_NOT_PUBLISHED;
        topics_gather(topics, data, size);
        topics_number(topics, data, size, numbers);
        check(topics->n >= 0 && topics->n <= TOPICS_MAX);
        for (size_t i = 0; i < events; i++)
            check(i % 3 ? numbers[i] == NUMBER_NONE || numbers[i] > 0
                        : numbers[i] == NUMBER_NOT_PUBLISHED);
        free(numbers);
    }
    free(topics);
}

static void try_text(unsigned which, const char *text, size_t size)
{
    switch (which % 6) {
    case 0:
        try_certificate(text, size);
        break;
    case 1:
        try_ssh(text, size);
        break;
    case 2:
        (void)policy_fault(text);
        break;
    case 3:
        try_host(text, size);
        break;
    case 4:
        try_addresses(text, size);
        break;
    default:
        try_quote(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size == 0)
        return 0;
    if (*data % 8 == 6) {
        try_gaps(data + 1, size - 1);
    } else if (*data % 8 == 7) {
        try_topics(data + 1, size - 1);
    } else {
        text = malloc(size);
        check(text != NULL);
        memcpy(text, data + 1, size - 1);
        text[size - 1] = '\0';
        try_text(*data % 8, text, size - 1);
        free(text);
    }
    return 0;
}
