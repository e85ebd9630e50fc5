/* Who a SAML response is about: its NameID, and attributes under the names that providers give
 * them. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/rules.h"
#include "services/identity/saml_internal.h"
#include "services/identity/sign_in_words.h"

#include <string.h>

#define CLAIM(name)     ("http://schemas.xmlsoap.org/ws/2005/05/identity/claims/" name)
#define MICROSOFT(name) ("http://schemas.microsoft.com/" name)

/* Names of attributes: of people as LDAP has them (RFC 2798, and as OIDs in the X.500/LDAP
 * attribute profile), of WS-Federation's claims, and short ones. The first that is there counts. */
static const char *const emails[] = {
    "email", "mail", "emailAddress", "urn:oid:0.9.2342.19200300.100.1.3", CLAIM("emailaddress"),
    NULL};
static const char *const names[] = {"displayName",
                                    "name",
                                    "cn",
                                    "urn:oid:2.16.840.1.113730.3.1.241",
                                    "urn:oid:2.5.4.3",
                                    MICROSOFT("identity/claims/displayname"),
                                    CLAIM("name"),
                                    NULL};
static const char *const usernames[] = {
    "username",   "uid", "urn:oid:0.9.2342.19200300.100.1.1", "urn:oid:1.3.6.1.4.1.5923.1.1.1.6",
    CLAIM("upn"), NULL};
/* Of these all count. */
static const char *const groups[] = {"groups",
                                     "group",
                                     "Groups",
                                     "Group",
                                     "memberOf",
                                     "isMemberOf",
                                     "urn:oid:1.3.6.1.4.1.5923.1.5.1.1",
                                     "urn:oid:1.2.840.113556.1.2.102",
                                     "http://schemas.xmlsoap.org/claims/Group",
                                     MICROSOFT("ws/2008/06/identity/claims/groups"),
                                     MICROSOFT("ws/2008/06/identity/claims/role"),
                                     NULL};

static bool is_text(const char *text)
{
    if (!text || !*text || strlen(text) > SAML_TEXT_MAX)
        return false;
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static const char *first_of(const json_t *attributes, const char *const *list)
{
    for (; *list; list++) {
        const char *text = json_string_value(json_array_get(json_object_get(attributes, *list), 0));

        if (is_text(text))
            return text;
    }
    return NULL;
}

static char *copy_of(const char *text)
{
    return text ? memory_copy(text, "what is known of a person") : NULL;
}

static json_t *groups_of(const json_t *attributes)
{
    json_t *out = json_array(), *value;
    size_t i;

    for (const char *const *name = groups; *name; name++)
        json_array_foreach(json_object_get(attributes, *name), i, value)
        {
            if (is_text(json_string_value(value)) && json_array_size(out) < SAML_GROUPS)
                json_array_append(out, value);
        }
    return out;
}

/* What a logout of the provider names, and one of ours has to (SAML core 3.7.1), and the key that
 * the provider signed with. */
static char *session_of(const json_t *said)
{
    json_t *all = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s}", "name_id", text_of(said, "name_id"), "name_id_format",
        text_of(said, "name_id_format"), "name_qualifier", text_of(said, "name_qualifier"),
        "sp_name_qualifier", text_of(said, "sp_name_qualifier"), "session_index",
        text_of(said, "session_index"), "signed_by", text_of(said, "signed_by"));
    char *text = memory_need(json_dumps(all, JSON_COMPACT), "what is known of a person");

    json_decref(all);
    return text;
}

/* Assertions of one provider have IDs of their own (SAML core 1.3.4); a provider is the
 * account's. */
static char *once_of(const json_t *said, const char *account)
{
    json_t *all =
        json_pack("[s, s, s]", account, text_of(said, "issuer"), text_of(said, "assertion_id"));
    _cleanup_(free_mem) char *text =
        memory_need(json_dumps(all, JSON_COMPACT), "what is known of a person");
    char hex[WORDS_HEX_SIZE];

    json_decref(all);
    words_hex(text, hex);
    return memory_copy(hex, "what is known of a person");
}

static void set_names(const json_t *said, person_t *out)
{
    const json_t *attributes = json_object_get(said, "attributes");
    const char *id = text_of(said, "name_id"), *format = text_of(said, "name_id_format"), *domain;
    const char *email = first_of(attributes, emails), *username = first_of(attributes, usernames);
    bool is_address = !strcmp(format, SAML_FORMAT_EMAIL) && email_is_plain(id, &domain);

    if (!email && is_address)
        email = id;
    if (!username && (is_address || !strcmp(format, SAML_FORMAT_UNSPECIFIED)) && is_text(id))
        username = id;
    out->email = copy_of(email);
    out->email_verified = email != NULL; /* what the provider signs it vouches for */
    out->username = copy_of(username);
    out->name = copy_of(first_of(attributes, names));
    out->groups = groups_of(attributes);
}

bool saml_key_is_known(const json_t *metadata, bool *ret_known, const char *session)
{
    _cleanup_(json_clear_ref) json_t *kept = session ? json_loads(session, 0, NULL) : NULL;
    const char *signed_by = text_of(kept, "signed_by");
    const json_t *one;
    size_t i;

    *ret_known = false;
    json_array_foreach(json_object_get(metadata, "certificates"), i, one)
    {
        const char *key = text_of(one, "key_sha256");

        if (!*key)
            return false;
        *ret_known = *ret_known || !strcmp(key, signed_by);
    }
    return true;
}

static void put_part(const char *text, const char *meant, const char *absent, char out[65])
{
    if (!*text)
        snprintf(out, 65, "%s", absent);
    else if (!strcmp(text, meant))
        snprintf(out, 65, "-");
    else
        words_hex(text, out);
}

void saml_name_form(const json_t *said, const char *entity_id, const char *absent,
                    char out[SAML_NAME_FORM_SIZE])
{
    const char *format = text_of(said, "name_id_format");
    char parts[3][WORDS_HEX_SIZE];

    if (!strcmp(format, SAML_FORMAT_UNSPECIFIED)) /* postern-saml says so where there is none */
        format = "";
    put_part(format, "", absent, parts[0]);
    put_part(text_of(said, "name_qualifier"), text_of(said, "issuer"), absent, parts[1]);
    put_part(text_of(said, "sp_name_qualifier"), entity_id ? entity_id : "", absent, parts[2]);
    snprintf(out, SAML_NAME_FORM_SIZE, "%s %s %s", parts[0], parts[1], parts[2]);
}

const char *saml_person(const json_t *said, const char *account, const char *entity_id,
                        int64_t now_s, person_t *out)
{
    char form[SAML_NAME_FORM_SIZE];
    int64_t until = json_integer_value(json_object_get(said, "not_on_or_after_ms")) / 1000;
    int64_t issued_ms = json_integer_value(json_object_get(said, "issued_ms"));

    *out = (person_t){0};
    if (!*text_of(said, "name_id") || !*text_of(said, "issuer") || !*text_of(said, "assertion_id")
        || until <= 0 /* how long its use must be remembered */ || issued_ms <= 0)
        return "the answer about it says too little";
    if (until > now_s + SAML_LIFE_MAX_S)
        return "its assertion is valid for more than a day";
    if (issued_ms + SAML_SKEW_MS + 1000 * (int64_t)SAML_LIFE_MAX_S < 1000 * now_s)
        return "its assertion was made more than a day ago"; /* as long ends are remembered */
    out->provider_name = copy_of("saml");
    out->provider_url = copy_of(text_of(said, "issuer"));
    out->id = copy_of(text_of(said, "name_id"));
    saml_name_form(said, entity_id, "-", form);
    out->name_form = copy_of(form);
    set_names(said, out);
    out->session_at_provider = session_of(said);
    out->vouched_ms = issued_ms;
    out->session_until_s =
        json_integer_value(json_object_get(said, "session_not_on_or_after_ms")) / 1000;
    out->once = once_of(said, account);
    out->once_until_s = until + SAML_SKEW_MS / 1000 + 1;
    return NULL;
}
