#include "services/identity/person.h"
#include "common/base/memory.h"
#include "common/base/secret.h"

#include <string.h>

/* The texts, by their names in JSON. */
typedef struct text_row {
    const char *name;
    size_t offset;
    bool is_token;
} text_row_t;

static const text_row_t texts[] = {
    {"provider_name", offsetof(person_t, provider_name), false},
    {"provider_url", offsetof(person_t, provider_url), false},
    {"id", offsetof(person_t, id), false},
    {"name_form", offsetof(person_t, name_form), false},
    {"username", offsetof(person_t, username), false},
    {"name", offsetof(person_t, name), false},
    {"email", offsetof(person_t, email), false},
    {"refresh_token", offsetof(person_t, refresh_token), true},
    {"access_token", offsetof(person_t, access_token), true},
    {"id_token", offsetof(person_t, id_token), true},
    {"session_at_provider", offsetof(person_t, session_at_provider), true},
    {"once", offsetof(person_t, once), false},
};

enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };

static char **text_of(const person_t *self, const text_row_t *row)
{
    return (char **)((char *)self + row->offset);
}

static void write_texts(const person_t *self, json_t *out, bool only_tokens)
{
    for (int i = 0; i < TEXTS; i++)
        if (*text_of(self, &texts[i]) && (texts[i].is_token || !only_tokens))
            json_object_set_new(out, texts[i].name, json_string(*text_of(self, &texts[i])));
    json_object_set_new(out, "access_expires_s", json_integer(self->access_expires_s));
}

/* Take what the person has not. */
static void read_texts(person_t *self, const json_t *value, bool only_tokens)
{
    for (int i = 0; i < TEXTS; i++) {
        const char *text = json_string_value(json_object_get(value, texts[i].name));

        if (text && !*text_of(self, &texts[i]) && (texts[i].is_token || !only_tokens))
            *text_of(self, &texts[i]) = memory_copy(text, "what is known of a person");
    }
}

json_t *person_json(const person_t *self)
{
    json_t *out = json_object();

    write_texts(self, out, false);
    json_object_set_new(out, "email_verified", json_boolean(self->email_verified));
    json_object_set_new(out, "vouched_ms", json_integer(self->vouched_ms));
    json_object_set_new(out, "session_until_s", json_integer(self->session_until_s));
    json_object_set(out, "groups", self->groups);
    return out;
}

bool person_read(person_t *self, const json_t *value)
{
    json_t *groups = json_object_get(value, "groups");

    *self = (person_t){0};
    read_texts(self, value, false);
    self->email_verified = json_is_true(json_object_get(value, "email_verified"));
    self->access_expires_s = json_integer_value(json_object_get(value, "access_expires_s"));
    self->vouched_ms = json_integer_value(json_object_get(value, "vouched_ms"));
    self->session_until_s = json_integer_value(json_object_get(value, "session_until_s"));
    self->groups = json_is_array(groups) ? json_deep_copy(groups) : json_array();
    return self->id && self->provider_name && self->provider_url;
}

const char *person_vouched_email(const person_t *self)
{
    return self->email_verified ? self->email : NULL;
}

const char *person_unverified_email(const person_t *self)
{
    return self->email_verified ? NULL : self->email;
}

int64_t person_proven_ms(const person_t *self, int64_t asked_ms, int64_t came_ms)
{
    int64_t proven = self->vouched_ms ? self->vouched_ms - PERSON_SKEW_MS : came_ms;

    proven = proven < asked_ms ? asked_ms : proven;
    return proven < came_ms ? proven : came_ms;
}

json_t *person_tokens(const person_t *self)
{
    json_t *out = json_object();

    write_texts(self, out, true);
    return out;
}

void person_add_tokens(person_t *self, const json_t *tokens)
{
    if (!self->access_token)
        self->access_expires_s = json_integer_value(json_object_get(tokens, "access_expires_s"));
    read_texts(self, tokens, true);
}

void person_done(person_t *self)
{
    for (int i = 0; i < TEXTS; i++)
        if (*text_of(self, &texts[i]))
            secret_free(text_of(self, &texts[i]), strlen(*text_of(self, &texts[i])));
    json_decref(self->groups);
    *self = (person_t){0};
}
