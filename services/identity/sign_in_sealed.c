#include "services/identity/sign_in_sealed.h"
#include "services/identity/engines.h"
#include "services/identity/rules_newest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* All but the config. */
static int open_text(sealed_t *self, const secret_key_t *key, const char *name, const json_t *body,
                     problem_t *problem)
{
    const char *sealed = text_of(body, name);
    char *text = NULL;
    size_t len = 0;
    int r;

    *self = (sealed_t){0};
    if (!sealed)
        return problem_add(problem, ERR_REQUIRED_MISSING, name, "is required");
    r = strnlen(sealed, SEALED_MAX + 1) > SEALED_MAX
            ? -EBADMSG
            : secret_open_for(key, SIGN_IN_SEALED, sealed, &text, &len);
    if (r == -ENOMEM)
        return r;
    if (!r)
        self->all = json_loadb(text, len, 0, NULL);
    secret_free(&text, len);
    self->route = text_of(self->all, "route");
    self->account = text_of(self->all, "account");
    self->edge = text_of(self->all, "edge");
    self->module = text_of(self->all, "module");
    self->config = json_object_get(self->all, "config");
    if (!self->route || !self->account || !self->edge || !self->module)
        return problem_add(problem, ERR_INVALID_FIELD, name,
                           "is nothing that postern-routes sealed under this master key");
    self->engine = engine_find(self->module);
    return 0;
}

int sealed_open(sealed_t *self, const secret_key_t *key, const json_t *body, problem_t *problem)
{
    int r = sealed_open_any(self, key, body, problem);

    if (r || !json_is_false(json_object_get(self->config, "enabled")))
        return r;
    return problem_add(problem, ERR_INVALID_FIELD, "sealed", "is a module that is off");
}

int sealed_open_any(sealed_t *self, const secret_key_t *key, const json_t *body, problem_t *problem)
{
    char place[SEALED_PLACE_SIZE];
    int r = open_text(self, key, "sealed", body, problem);

    if (r)
        return r;
    if (!json_is_object(self->config))
        return problem_add(problem, ERR_INVALID_FIELD, "sealed",
                           "is not a module that postern-routes sealed under this master key");
    self->revision = sealed_number(self, "revision");
    if (self->revision < 0)
        self->revision = 0; /* no module has one */
    sealed_place(self, place);
    rules_newest_note(place, self->revision);
    return sign_in_digest(key, self->module, self->config, self->digest);
}

int sealed_open_place(sealed_t *self, const secret_key_t *key, const json_t *body,
                      problem_t *problem)
{
    return open_text(self, key, json_object_get(body, "place") ? "place" : "sealed", body, problem);
}

int sealed_check_engine(const sealed_t *self, problem_t *problem)
{
    if (self->engine)
        return 0;
    return problem_add(problem, ERR_SIGN_IN_UNAVAILABLE, NULL,
                       "this version of postern-identity cannot sign anybody in by the module %s",
                       self->module);
}

void sealed_place(const sealed_t *self, char out[SEALED_PLACE_SIZE])
{
    const char *made = text_of(self->config, "made_id");

    snprintf(out, SEALED_PLACE_SIZE, "%s %s %s", self->route, self->module, made ? made : "");
}

int64_t sealed_number(const sealed_t *self, const char *field)
{
    return json_integer_value(json_object_get(self->config, field));
}

void sealed_done(sealed_t *self)
{
    secret_wipe_json(self->all);
    json_decref(self->all);
    *self = (sealed_t){0};
}
