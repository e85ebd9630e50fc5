#include "services/identity/rules.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    EMAIL_MAX = 254, /* RFC 5321 4.5.3.1.3, without its angle brackets */
    LOCAL_MAX = 64,  /* RFC 5321 4.5.3.1.1 */
    DOMAIN_MAX = 253,
    LABEL_MAX = 63
};

/* ---- e-mail addresses ---- */

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* atext of RFC 5322 3.2.3, and dots wherever they are: some providers gave out "a..b". */
static bool local_is_plain(const char *local, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!is_letter_or_digit(local[i]) && !strchr("!#$%&'*+-/=?^_`{|}~.", local[i]))
            return false;
    return true;
}

/* A quoted string with nothing outside of its quotes, and none in them but behind a backslash. */
static bool local_is_quoted(const char *local, size_t len)
{
    if (len < 3 || local[0] != '"' || local[len - 1] != '"')
        return false;
    for (size_t i = 1; i < len - 1; i++) {
        if (local[i] == '"' || (local[i] == '\\' && ++i == len - 1))
            return false;
    }
    return true;
}

static bool domain_is_plain(const char *domain)
{
    size_t len = strlen(domain), label = 0;

    if (!len || len > DOMAIN_MAX)
        return false;
    for (size_t i = 0; i <= len; i++) {
        char c = i < len ? domain[i] : '.';

        if (c == '.') {
            if (!label || label > LABEL_MAX || domain[i - 1] == '-')
                return false;
            label = 0;
            continue;
        }
        if (!is_letter_or_digit(c) && (c != '-' || !label))
            return false;
        label++;
    }
    return true;
}

bool email_is_plain(const char *text, const char **ret_domain)
{
    const char *at = strrchr(text, '@');
    size_t len = at ? (size_t)(at - text) : 0;

    *ret_domain = at ? at + 1 : NULL;
    if (!len || len > LOCAL_MAX || strlen(text) > EMAIL_MAX)
        return false;
    for (const char *c = text; *c; c++)
        if (*c < 0x21 || *c > 0x7e) /* also what is no ASCII, as char is signed or not */
            return false;
    return domain_is_plain(at + 1) && (local_is_plain(text, len) || local_is_quoted(text, len));
}

/* ---- what an item of a list is compared with ---- */

/* Both parts of an address are compared without case: that the local part has one (RFC 5321 2.4) no
 * provider that is known here makes use of, and the API takes addresses in lower case only. */
static bool address_matches(const person_t *who, const char *item)
{
    const char *domain;

    return who->email && who->email_verified && email_is_plain(who->email, &domain)
           && !strcasecmp(who->email, item);
}

/* The same domain, not one below it. */
static bool domain_matches(const person_t *who, const char *item)
{
    const char *domain;

    return who->email && who->email_verified && email_is_plain(who->email, &domain)
           && !strcasecmp(domain, item);
}

static bool has_group(const person_t *who, const char *name, bool exactly)
{
    const json_t *group;
    size_t i;

    json_array_foreach(who->groups, i, group)
    {
        const char *text = json_string_value(group);

        if (text && !(exactly ? strcmp(text, name) : strcasecmp(text, name)))
            return true;
    }
    return false;
}

/* "org/team", or the number of a team, which its provider's engine writes as "#12": a number alone
 * can be the name of an organization. */
static bool team_matches(const person_t *who, const char *item)
{
    char number[32];

    if (strchr(item, '/'))
        return has_group(who, item, false);
    return (size_t)snprintf(number, sizeof(number), "#%s", item) < sizeof(number)
           && has_group(who, number, true);
}

static bool organization_matches(const person_t *who, const char *item)
{
    return !strpbrk(item, "/#") && has_group(who, item, false);
}

static bool group_matches(const person_t *who, const char *item)
{
    return has_group(who, item, true);
}

/* ---- rules ---- */

/* A list of a module's document. Those that the document does not have, because the API does not
 * know them (yet), are empty. */
static const struct rule {
    const char *module, *key, *kind;
    bool needs_email;
    bool (*matches)(const person_t *who, const char *item);
} rules[] = {
    {"oauth", "email_addresses", "e-mail addresses", true, address_matches},
    {"oauth", "email_domains", "e-mail domains", true, domain_matches},
    {"oauth", "teams", "teams", false, team_matches},
    {"oauth", "organizations", "organizations", false, organization_matches},
    {"oidc", "email_addresses", "e-mail addresses", true, address_matches},
    {"oidc", "email_domains", "e-mail domains", true, domain_matches},
    {"oidc", "groups", "groups", false, group_matches},
    {"saml", "authorized_groups", "groups", false, group_matches},
};

enum { RULES = sizeof(rules) / sizeof(rules[0]) };

static bool refuse_user(char *why, size_t size, const char *what)
{
    snprintf(why, size, "%s", what);
    return false;
}

/* The provider's part of an oauth document, which is the only one of provider that is set; NULL:
 * there is none, there are several, or the person comes from another provider. */
static const json_t *oauth_rules(const json_t *config, const person_t *who)
{
    json_t *part, *found = NULL;
    const char *name;

    json_object_foreach(json_object_get(config, "provider"), name, part)
    {
        if (json_is_null(part))
            continue;
        if (found || !json_is_object(part) || !who->provider_name
            || strcmp(name, who->provider_name) != 0)
            return NULL;
        found = part;
    }
    return found;
}

/* 1: an item matches; 0: none does; -1: the list is none. */
static int rule_judge(const struct rule *rule, const json_t *list, const person_t *who)
{
    const json_t *item;
    bool any = false;
    size_t i;

    if (!json_is_array(list))
        return -1;
    json_array_foreach(list, i, item)
    {
        const char *text = json_string_value(item);

        if (!text || !*text)
            return -1;
        any = any || rule->matches(who, text);
    }
    return any;
}

/* Say which kinds of rules there are, and what of the person they miss. */
static bool refuse_kinds(const unsigned given, const person_t *who, char *why, size_t size)
{
    const char *domain;
    bool needs_email = false, needs_groups = false;
    char kinds[80] = "";
    size_t len = 0;

    for (size_t i = 0; i < RULES; i++) {
        if (!(given & 1u << i))
            continue;
        needs_email = needs_email || rules[i].needs_email;
        needs_groups = needs_groups || rules[i].matches == group_matches;
        len += (size_t)snprintf(kinds + len, sizeof(kinds) - len, "%s%s", len ? ", " : "",
                                rules[i].kind);
    }
    snprintf(why, size, "the route's rules (%s) do not admit this user%s", kinds,
             needs_groups && !json_array_size(who->groups)
                 ? ": the provider says of no group that the user is in it"
             : !needs_email         ? ""
             : !who->email          ? ": the provider gives no e-mail address"
             : !who->email_verified ? ": the provider has not verified the e-mail address"
             : !email_is_plain(who->email, &domain) ? ": the e-mail address is not a plain one"
                                                    : "");
    return false;
}

bool sign_in_admits(const char *module, const json_t *config, const person_t *who, char *why,
                    size_t size)
{
    const json_t *part = strcmp(module, "oauth") != 0 ? config : oauth_rules(config, who);
    unsigned given = 0;
    bool is_known = false, is_admitted = false;

    *why = '\0';
    if (!json_is_object(part) || !who->id || !*who->id)
        return refuse_user(why, size, "the user is not one of the route's provider");
    for (size_t i = 0; i < RULES; i++) {
        const json_t *list = json_object_get(part, rules[i].key);
        int matches;

        if (strcmp(rules[i].module, module) != 0)
            continue;
        is_known = true;
        matches = list ? rule_judge(&rules[i], list, who) : 0;
        if (matches < 0)
            return refuse_user(why, size, "a rule of the route cannot be read");
        if (json_array_size(list))
            given |= 1u << i;
        is_admitted = is_admitted || matches;
    }
    if (!is_known)
        return refuse_user(why, size, "no rules are known of this module");
    return is_admitted || !given || refuse_kinds(given, who, why, size);
}
