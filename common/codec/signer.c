#include "common/codec/signer.h"
#include "common/base/invariant.h"

#include <stdio.h>
#include <string.h>

/* Takes text off the front. */
static bool take_text(const char **at, size_t *len, const char *text)
{
    size_t n = strlen(text);

    if (*len < n || memcmp(*at, text, n) != 0)
        return false;
    *at += n;
    *len -= n;
    return true;
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* How many lower case letters are there. */
static size_t count_letters(const char *at, size_t len)
{
    size_t n = 0;

    while (n < len && is_lower(at[n]))
        n++;
    return n;
}

/* How long the name of a region is that the text begins with, as the provider has them: two
 * letters, words, a number (us-gov-west-1). Hosts of buckets, which anybody may have, have other
 * names: s3-us-west-2, s3-accelerate. 0: it begins with none. */
static size_t region_len(const char *at, size_t len)
{
    size_t n = 2, words = 0, word, digits = 0;

    if (count_letters(at, len) != 2)
        return 0;
    for (; n < len && at[n] == '-' && (word = count_letters(at + n + 1, len - n - 1)); words++)
        n += 1 + word;
    if (!words || n == len || at[n] != '-')
        return 0;
    for (n++; n + digits < len && is_digit(at[n + digits]); digits++)
        ;
    return digits == 1 || digits == 2 ? n + digits : 0;
}

static bool take_region(const char **at, size_t *len, char out[SIGNER_REGION_MAX + 1])
{
    size_t n = region_len(*at, *len);

    if (!n || n > SIGNER_REGION_MAX)
        return false;
    memcpy(out, *at, n);
    out[n] = '\0';
    *at += n;
    *len -= n;
    return true;
}

/* /SimpleNotificationService-<hexadecimal digits>.pem */
static bool is_path(const char *at, size_t len)
{
    size_t n = 0;

    if (!take_text(&at, &len, "/SimpleNotificationService-"))
        return false;
    while (n < len && (is_digit(at[n]) || (at[n] >= 'a' && at[n] <= 'f')))
        n++;
    at += n;
    len -= n;
    return n && take_text(&at, &len, ".pem") && !len;
}

bool signer_url_read(const char *text, size_t len, signer_url_t *out)
{
    if (len > SIGNER_URL_MAX || !take_text(&text, &len, "https://sns.")
        || !take_region(&text, &len, out->region) || !take_text(&text, &len, ".amazonaws.com"))
        return false;
    out->china = take_text(&text, &len, ".cn");
    return is_path(text, len);
}

bool signer_url_name(const signer_url_t *self, unsigned n, char *out, size_t size)
{
    const char *suffix = self->china ? "amazonaws.com.cn" : "amazonaws.com";
    /* the certificates of one partition with several regions have the name of its first */
    const char *region = strncmp(self->region, "us-gov-", 7) ? self->region : "us-gov-west-1";

    switch (n) {
    case 0:
        snprintf(out, size, "sns.%s.%s", self->region, suffix);
        return true;
    case 1:
        snprintf(out, size, "sns-signing.%s.%s", self->region, suffix);
        return true;
    case 2:
        snprintf(out, size, "sns-%s.%s", region, suffix);
        return true;
    case 3:
        snprintf(out, size, "sns.%s", suffix);
        return true;
    default:
        return false;
    }
}

void signer_ask_init(signer_ask_t *self, uint64_t number, const char *account, const char *url)
{
    memset(self, 0, sizeof(*self));
    self->form = SIGNER_FORM;
    self->number = number;
    INVARIANT(strlen(url) < sizeof(self->url));
    snprintf(self->account, sizeof(self->account), "%s", account);
    memcpy(self->url, url, strlen(url));
}

void signer_told_init(signer_told_t *self, uint64_t number, signer_outcome_t outcome,
                      const char *why)
{
    memset(self, 0, sizeof(*self));
    self->form = SIGNER_FORM;
    self->outcome = outcome;
    self->number = number;
    snprintf(self->why, sizeof(self->why), "%s", why);
}

static bool has_end(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

bool signer_ask_read(signer_ask_t *out, const void *packet, size_t len)
{
    if (len != sizeof(*out))
        return false;
    memcpy(out, packet, len);
    return out->form == SIGNER_FORM && out->number && has_end(out->account, sizeof(out->account))
           && has_end(out->url, sizeof(out->url));
}

bool signer_told_read(signer_told_t *out, const void *packet, size_t len)
{
    if (len != sizeof(*out))
        return false;
    memcpy(out, packet, len);
    return out->form == SIGNER_FORM && out->outcome <= SIGNER_LATER
           && has_end(out->why, sizeof(out->why)) && out->key_len <= sizeof(out->key)
           && (out->outcome != SIGNER_KEY || out->key_len);
}
