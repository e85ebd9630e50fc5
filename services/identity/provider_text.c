#include "services/identity/provider_text.h"
#include "common/base/memory.h"

#include <sodium.h>
#include <string.h>

void provider_text_begin(provider_text_t *self, const char *text)
{
    provider_text_end(self);
    self->bytes = memory_new((size_t)PROVIDER_TEXT_MAX, "a request to a provider");
    self->size = PROVIDER_TEXT_MAX;
    provider_text_add(self, text);
}

void provider_text_end(provider_text_t *self)
{
    if (self->bytes)
        sodium_memzero(self->bytes, self->size);
    free(self->bytes);
    *self = (provider_text_t){0};
}

void provider_text_fit(provider_text_t *self)
{
    char *old = self->bytes;

    if (!old || self->size == self->len + 1)
        return;
    self->bytes = memory_copy(old, "a request to a provider");
    sodium_memzero(old, self->len);
    free(old);
    self->size = self->len + 1;
}

void provider_text_add_bytes(provider_text_t *self, const char *bytes, size_t len)
{
    if (len >= self->size - self->len) {
        self->is_full = true;
        return;
    }
    memcpy(self->bytes + self->len, bytes, len);
    self->len += len;
    self->bytes[self->len] = '\0';
}

void provider_text_add(provider_text_t *self, const char *text)
{
    provider_text_add_bytes(self, text, strlen(text));
}

/* A space is %20, which readers of queries and of forms both take. */
void provider_text_add_encoded(provider_text_t *self, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";

    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        char escape[] = {'%', hex[c >> 4], hex[c & 15]};
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
                        || strchr("-._~", c);

        provider_text_add_bytes(self, is_plain ? text : escape, is_plain ? 1 : sizeof(escape));
    }
}

/* A body has nothing before its first pair, a URL perhaps a query of its own. */
static const char *separator_of(const provider_text_t *self)
{
    bool is_url = self->len && !strncmp(self->bytes, "https://", strlen("https://"));

    if (!self->len || strchr("?&", self->bytes[self->len - 1]))
        return "";
    return is_url && !strchr(self->bytes, '?') ? "?" : "&";
}

void provider_text_pair(provider_text_t *self, const char *name, const char *value)
{
    provider_text_add(self, separator_of(self));
    provider_text_add(self, name);
    provider_text_add(self, "=");
    provider_text_add_encoded(self, value);
}
