#include "services/edge/modules/session_texts.h"

#include "services/edge/table/document.h"

#include <string.h>

static void text_of(const msgpack_object *map, const char *key, const char **text, size_t *len)
{
    const msgpack_object *value = document_get(map, key);

    *len = 0;
    if (value && value->type == MSGPACK_OBJECT_STR) {
        *text = value->via.str.ptr;
        *len = value->via.str.size;
    }
}

/* All groups, each with a NUL behind it, in at most size bytes; nothing where they take more, or
 * one of them has a NUL: half a list says something else. */
static size_t read_groups(const msgpack_object *map, char *out, size_t size)
{
    size_t used = 0;
    const msgpack_object *value = document_get(map, "groups");
    const msgpack_object_str *one;

    if (!value || value->type != MSGPACK_OBJECT_ARRAY)
        return 0;
    for (uint32_t i = 0; i < value->via.array.size; i++) {
        one = &value->via.array.ptr[i].via.str;
        if (value->via.array.ptr[i].type != MSGPACK_OBJECT_STR || one->size >= size - used
            || memchr(one->ptr, '\0', one->size))
            return 0;
        memcpy(out + used, one->ptr, one->size);
        used += one->size;
        out[used++] = '\0';
    }
    return used;
}

bool session_read_texts(const msgpack_object *map, session_t *out)
{
    char groups[SESSION_TEXT_MAX];
    size_t left = SESSION_TEXT_MAX, lens[SESSION_TEXTS];
    const char *texts[SESSION_TEXTS] = {"", "", "", "", "", groups};
    static const struct {
        session_text_t which;
        const char *key;
    } order[] = {{SESSION_USER, "user"},
                 {SESSION_PROVIDER_ID, "provider_user_id"},
                 {SESSION_EMAIL, "email"},
                 {SESSION_EMAIL_UNVERIFIED, "email_unverified"},
                 {SESSION_NAME, "name"}};

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        text_of(map, order[i].key, &texts[order[i].which], &lens[order[i].which]);
        if (lens[order[i].which] > left) {
            if (order[i].which <= SESSION_PROVIDER_ID)
                return false;
            lens[order[i].which] = 0;
        }
        left -= lens[order[i].which];
    }
    lens[SESSION_GROUPS] = read_groups(map, groups, left);
    return lens[SESSION_USER] && session_set_texts(out, texts, lens);
}

/* ---- of a session that is there ---- */

const char *session_text(const session_t *session, session_text_t which, size_t *len)
{
    size_t at = 0;

    for (int i = 0; i < (int)which; i++)
        at += session->lens[i];
    *len = session->lens[which];
    return session->text + at;
}

bool session_set_texts(session_t *session, const char *const *texts, const size_t *lens)
{
    size_t at = 0;

    for (int i = 0; i < SESSION_TEXTS; i++) {
        if (lens[i] > SESSION_TEXT_MAX - at)
            return false;
        memcpy(session->text + at, lens[i] ? texts[i] : "", lens[i]);
        session->lens[i] = (uint16_t)lens[i];
        at += lens[i];
    }
    return true;
}
