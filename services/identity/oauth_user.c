/* Who an OAuth provider says that the user is: records, addresses, teams and organizations. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "common/base/quote.h"
#include "common/out/outbound.h"
#include "services/identity/oauth_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LINK_MAX = 8 << 10, GROUP_MAX = 256 };

static const char *text_at(const json_t *value, const char *path)
{
    const char *text = path ? json_string_value(oauth_at(value, path)) : NULL;

    return text && *text ? text : NULL;
}

/* Some write the word. */
static bool is_true_at(const json_t *value, const char *path)
{
    const char *word = json_string_value(oauth_at(value, path));

    return json_is_true(oauth_at(value, path)) || (word && !strcmp(word, "true"));
}

/* ---- the user's record ---- */

/* The id as a text. A whole number is one of up to 63 bits, written without a loss; a fraction is
 * no id. False: there is none. */
static bool take_id(oauth_flow_t *flow, const json_t *user)
{
    const json_t *value = oauth_at(user, flow->row->id);
    char id[OAUTH_ID_MAX + 2] = "";

    if (json_is_integer(value) && json_integer_value(value) > 0)
        snprintf(id, sizeof(id), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_string(value))
        snprintf(id, sizeof(id), "%s", json_string_value(value));
    if (!*id || strlen(id) > OAUTH_ID_MAX)
        return false;
    for (const char *c = id; *c; c++)
        if (*c < 0x21 || *c > 0x7e)
            return false;
    oauth_set(&flow->id, id);
    return true;
}

/* A name is anything: what of it cannot be shown is a question mark. */
static void take_name(char **name_p, const char *value)
{
    char name[OAUTH_ID_MAX + 1];

    if (!value)
        return;
    quote_plain(name, sizeof(name), value);
    oauth_set(name_p, name);
}

void oauth_set_email(oauth_flow_t *flow, const char *email, bool is_verified)
{
    oauth_set(&flow->email, NULL);
    flow->email_verified = false;
    if (!email || !*email || strlen(email) > OAUTH_EMAIL_MAX)
        return;
    for (const char *c = email; *c; c++)
        if ((unsigned char)*c <= 0x20 || *c == 0x7f)
            return;
    oauth_set(&flow->email, email);
    flow->email_verified = is_verified;
}

/* The address that a tenant's administrator writes into mail may be anybody's. That a domain is the
 * tenant's was proved to Microsoft only of those that user principal names have. So an address is
 * verified where its domain is that of the principal name, and that is not a guest's; and in a
 * tenant that the operator chose (setting oauth-microsoft-url). */
void microsoft_mail(oauth_flow_t *flow, const json_t *user)
{
    static const char any[] = "/common|/organizations|/consumers|";
    const char *mail = text_at(user, "mail"), *principal = text_at(user, "userPrincipalName");
    bool is_guest = principal && strcasestr(principal, "#EXT#");
    const char *domain = principal && !is_guest ? strrchr(principal, '@') : NULL;
    const char *mail_domain = mail ? strrchr(mail, '@') : NULL;
    const char *tenant = strrchr(flow->place.sign_in, '/');
    char word[64];
    bool is_chosen = flow->place.has_own_sign_in && tenant
                     && (size_t)snprintf(word, sizeof(word), "%s|", tenant) < sizeof(word)
                     && !strcasestr(any, word);

    if (!mail)
        oauth_set_email(flow, domain ? principal : NULL, true);
    else
        oauth_set_email(flow, mail,
                        is_chosen || (domain && mail_domain && !strcasecmp(domain, mail_domain)));
}

provider_step_t oauth_read_user(oauth_flow_t *flow, const fetched_t *answer)
{
    const oauth_row_t *row = flow->row;
    _cleanup_(json_clear_ref) json_t *user = NULL;
    provider_step_t step = oauth_judge(flow, answer);

    if (step != PROVIDER_DONE)
        return step;
    user = oauth_json(answer);
    if (!json_is_object(user))
        return oauth_fail(flow, PROVIDER_INVALID, "the user's record cannot be read");
    if (!take_id(flow, user))
        return oauth_fail(flow, PROVIDER_INVALID, "the user's record has no id");
    if (flow->known_id && strcmp(flow->known_id, flow->id) != 0)
        return oauth_fail(flow, PROVIDER_DENIED, "the user's record is another user's");
    take_name(&flow->username, text_at(user, row->username));
    take_name(&flow->name, text_at(user, row->name_at));
    if (!flow->name)
        take_name(&flow->name, flow->username);
    if (row->mail)
        row->mail(flow, user);
    else
        oauth_set_email(flow, text_at(user, row->email),
                        !row->verified || is_true_at(user, row->verified));
    return PROVIDER_DONE;
}

/* Facebook: users may decline each permission by itself. */
provider_step_t oauth_read_permissions(oauth_flow_t *flow, const fetched_t *answer)
{
    _cleanup_(json_clear_ref) json_t *object = NULL, *granted = NULL;
    const json_t *item;
    provider_step_t step = oauth_judge(flow, answer);
    size_t i;

    if (step != PROVIDER_DONE)
        return step;
    object = oauth_json(answer);
    if (!json_is_array(json_object_get(object, "data")))
        return oauth_fail(flow, PROVIDER_INVALID, "the granted permissions cannot be read");
    granted = json_array();
    json_array_foreach(json_object_get(object, "data"), i, item)
    {
        const char *status = text_at(item, "status");

        if (status && !strcmp(status, "granted"))
            json_array_append(granted, json_object_get(item, "permission"));
    }
    return oauth_check_scopes(flow, granted);
}

/* ---- GitHub: addresses, teams, organizations ---- */

/* The address that the user shows, where the list says that it is verified; else the primary one.
 * An application without the permission gets no list (403 or 404): then nothing says that the shown
 * address is verified. */
provider_step_t oauth_read_mails(oauth_flow_t *flow, const fetched_t *answer)
{
    _cleanup_(json_clear_ref) json_t *list = NULL;
    const char *shown = flow->email, *primary = NULL, *found = NULL;
    const json_t *item;
    provider_step_t step;
    size_t i;

    flow->email_verified = false;
    if (answer->end == OUTBOUND_ANSWERED && !oauth_is_rate_limit(answer)
        && (answer->status == 404 || answer->status == 403))
        return PROVIDER_DONE;
    step = oauth_judge(flow, answer);
    if (step != PROVIDER_DONE)
        return step;
    list = oauth_json(answer);
    if (!json_is_array(list))
        return oauth_fail(flow, PROVIDER_INVALID, "the user's addresses cannot be read");
    json_array_foreach(list, i, item)
    {
        const char *email = text_at(item, "email");

        if (!email || !json_is_true(json_object_get(item, "verified")))
            continue;
        if (shown && !strcasecmp(shown, email))
            found = email;
        if (json_is_true(json_object_get(item, "primary")))
            primary = email;
    }
    if (found || primary)
        oauth_set_email(flow, found ? found : primary, true);
    return PROVIDER_DONE;
}

static bool list_names(const json_t *list, const char *name)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        const char *text = json_string_value(item);

        if (text && !strcasecmp(text, name))
            return true;
    }
    return false;
}

/* Only what a rule of the route names is kept of all that the user belongs to. */
static void keep_group(oauth_flow_t *flow, const json_t *rules, const char *rule, const char *group)
{
    if (list_names(rules, rule) && !list_names(flow->groups, group))
        json_array_append_new(flow->groups, json_string(group));
}

static void keep_team(oauth_flow_t *flow, const json_t *team)
{
    const char *organization = text_at(team, "organization.login"), *slug = text_at(team, "slug");
    const json_t *id = json_object_get(team, "id");
    char name[GROUP_MAX];

    if (organization && slug && !strchr(organization, '/') && !strchr(slug, '/')
        && (size_t)snprintf(name, sizeof(name), "%s/%s", organization, slug) < sizeof(name))
        keep_group(flow, flow->teams, name, name);
    if (json_is_integer(id) && json_integer_value(id) > 0) {
        snprintf(name, sizeof(name), "#%" JSON_INTEGER_FORMAT, json_integer_value(id));
        keep_group(flow, flow->teams, name + 1, name);
    }
}

static void keep_organization(oauth_flow_t *flow, const json_t *organization)
{
    const char *login = text_at(organization, "login");

    if (login && strlen(login) < GROUP_MAX && !strpbrk(login, "/#"))
        keep_group(flow, flow->organizations, login, login);
}

/* Go on with the next page, while there is one and the bound allows. What a user has beyond the
 * bound is as if it were not there: a rule is not met by what was not seen. */
static provider_step_t turn_page(oauth_flow_t *flow, const fetched_t *answer)
{
    char next[OAUTH_URL_MAX];
    int r = answer->link ? oauth_next_page(answer->link, flow->url.bytes, next) : 0;

    *flow->next_page = '\0';
    if (r < 0)
        return oauth_fail(flow, PROVIDER_INVALID, "the next page of a list is somewhere else");
    if (!r || flow->pages >= OAUTH_PAGES_MAX)
        return PROVIDER_DONE;
    memcpy(flow->next_page, next, sizeof(next));
    return PROVIDER_FETCH;
}

static provider_step_t read_page(oauth_flow_t *flow, const fetched_t *answer,
                                 void (*keep)(oauth_flow_t *flow, const json_t *item))
{
    _cleanup_(json_clear_ref) json_t *list = NULL;
    const json_t *item;
    provider_step_t step = oauth_judge(flow, answer);
    size_t i;

    if (step != PROVIDER_DONE)
        return step;
    list = oauth_json(answer);
    if (!json_is_array(list))
        return oauth_fail(flow, PROVIDER_INVALID, "a list of groups cannot be read");
    json_array_foreach(list, i, item) keep(flow, item);
    step = turn_page(flow, answer);
    if (step == PROVIDER_DONE)
        flow->pages = 0; /* for the other list */
    return step;
}

provider_step_t oauth_read_teams(oauth_flow_t *flow, const fetched_t *answer)
{
    return read_page(flow, answer, keep_team);
}

provider_step_t oauth_read_organizations(oauth_flow_t *flow, const fetched_t *answer)
{
    return read_page(flow, answer, keep_organization);
}

/* ---- Link ---- */

/* Does the value, of len bytes and perhaps in quotes, have the relation next? Relations are
 * separated by spaces, and have no case. */
static bool relation_is_next(const char *value, size_t len)
{
    static const char next[] = "next";

    if (len >= 2 && value[0] == '"' && value[len - 1] == '"') {
        value++;
        len -= 2;
    }
    for (size_t at = 0; at < len;) {
        size_t one = 0;

        while (at + one < len && value[at + one] != ' ')
            one++;
        if (one == strlen(next) && !strncasecmp(value + at, next, one))
            return true;
        at += one + 1;
    }
    return false;
}

/* Read the parameters of one link as far as the comma behind it or the end; NULL: malformed. Of
 * several rel the first counts (RFC 8288 3.3). */
static const char *read_parameters(const char *at, bool *ret_is_next)
{
    bool has_rel = false;

    *ret_is_next = false;
    at += strspn(at, " \t");
    while (*at == ';') {
        const char *name = at + 1 + strspn(at + 1, " \t");
        size_t name_len = strcspn(name, "=;, \t\"<>"), len = 0;

        at = name + name_len;
        if (*at == '=') {
            const char *value = at + 1;

            /* a backslash, which could hide the end of a quoted string, ends it for us, too */
            len = *value == '"' ? strcspn(value + 1, "\"\\") + 2 : strcspn(value, ";, \t\"<>");
            if (*value == '"' && value[len - 1] != '"')
                return NULL;
            if (name_len == 3 && !strncasecmp(name, "rel", 3) && !has_rel) {
                has_rel = true;
                *ret_is_next = relation_is_next(value, len);
            }
            at = value + len;
        }
        at += strspn(at, " \t");
    }
    return *at == '\0' || *at == ',' ? at : NULL;
}

/* The same URL with another query: what reads the provider's lists must not be led to another host,
 * or to another of its resources. */
static bool page_is_near(const char *page, size_t len, const char *url)
{
    size_t path = strcspn(url, "?");

    if (len >= OAUTH_URL_MAX || len <= path || strncmp(page, url, path) != 0 || page[path] != '?'
        || (len == strlen(url) && !strncmp(page, url, len)))
        return false;
    for (size_t i = 0; i < len; i++)
        if (page[i] < 0x21 || page[i] > 0x7e || strchr("#\"\\<>", page[i]))
            return false;
    return true;
}

int oauth_next_page(const char *link, const char *url, char *out)
{
    const char *at = link;

    if (strlen(link) > LINK_MAX)
        return -EBADMSG;
    for (at += strspn(at, " \t,"); *at; at += strspn(at, " \t,")) {
        const char *page = at + 1;
        size_t len = strcspn(page, ">");
        bool is_next;

        if (*at != '<' || page[len] != '>')
            return -EBADMSG;
        at = read_parameters(page + len + 1, &is_next);
        if (!at)
            return -EBADMSG;
        if (!is_next)
            continue;
        if (!page_is_near(page, len, url))
            return -EBADMSG;
        memcpy(out, page, len);
        out[len] = '\0';
        return 1;
    }
    return 0;
}
