#include "services/xml/signature_shape.h"
#include "common/base/cleanup.h"
#include "common/base/quote.h"
#include "services/xml/document.h"

#include <string.h>

#define TRANSFORM_ENVELOPED "http://www.w3.org/2000/09/xmldsig#enveloped-signature"

enum { DIGEST_TEXT_MAX = 256, VALUE_TEXT_MAX = 4096, PREFIXES_BYTES_MAX = 256, PREFIXES_MAX = 8 };

static int refuse(problem_t *problem, const char *why)
{
    return problem_add(problem, ERR_SAML_MESSAGE, NULL, "the signature %s", why);
}

/* at: the element whose Algorithm it is. */
static int refuse_algorithm(problem_t *problem, const char *why, const xmlNode *at)
{
    return problem_add(problem, ERR_SAML_MESSAGE, NULL, "the signature %s: %s", why,
                       quote(at ? element_attribute(at, "Algorithm") : NULL).text);
}

/* The next child, which has to be of this name; *at is its predecessor, NULL at first. */
static bool step(const xmlNode *parent, xmlNodePtr *at, const char *ns, const char *name)
{
    *at = *at ? element_next(*at) : element_first(parent);
    return element_is(*at, ns, name);
}

static bool is_last(const xmlNode *at)
{
    return !element_next(at);
}

static bool has_algorithm(const xmlNode *element, const char *uri)
{
    const char *algorithm = element_attribute(element, "Algorithm");

    return algorithm && !strcmp(algorithm, uri);
}

/* Providers have "xs xsi", if any. */
static bool is_short_list(const char *list)
{
    int words = 0;

    if (strlen(list) > PREFIXES_BYTES_MAX)
        return false;
    while (*(list += strspn(list, " \t\r\n"))) {
        words++;
        list += strcspn(list, " \t\r\n");
    }
    return words <= PREFIXES_MAX;
}

/* Exclusive canonicalization, with at most one list of prefixes that it treats as the inclusive one
 * does. */
static bool is_exclusive(const xmlNode *element)
{
    xmlNodePtr prefixes = element_first(element);
    const char *list;

    if (!has_algorithm(element, NS_EXC_C14N) || !element_has_only_elements(element))
        return false;
    if (!prefixes)
        return true;
    list = element_attribute(prefixes, "PrefixList");
    return element_is(prefixes, NS_EXC_C14N, "InclusiveNamespaces") && is_last(prefixes)
           && !prefixes->children && list && is_short_list(list);
}

static bool transforms_are_good(const xmlNode *transforms)
{
    xmlNodePtr at = NULL;

    return element_has_only_elements(transforms) && step(transforms, &at, NS_DSIG, "Transform")
           && has_algorithm(at, TRANSFORM_ENVELOPED) && !at->children
           && step(transforms, &at, NS_DSIG, "Transform") && is_exclusive(at) && is_last(at);
}

/* The reference leads to the element that the signature stands in, by its ID. */
static bool refers_to(const xmlNode *reference, const char *id)
{
    const char *uri = element_attribute(reference, "URI");

    return uri && *uri == '#' && !strcmp(uri + 1, id) && !element_attribute(reference, "Type");
}

static int read_reference(signature_shape_t *self, const xmlNode *reference, const char *id,
                          problem_t *problem)
{
    xmlNodePtr at = NULL;

    if (!refers_to(reference, id))
        return refuse(problem, "is of another element than the one it stands in");
    if (!element_has_only_elements(reference) || !step(reference, &at, NS_DSIG, "Transforms")
        || !transforms_are_good(at))
        return refuse(problem, "has other transforms than enveloped-signature and exclusive "
                               "canonicalization without comments, in this order");
    if (!step(reference, &at, NS_DSIG, "DigestMethod") || at->children
        || !(self->digest = algorithm_of_digest(element_attribute(at, "Algorithm"))))
        return refuse_algorithm(problem, "has another digest than SHA-256, SHA-384 or SHA-512", at);
    if (!step(reference, &at, NS_DSIG, "DigestValue") || !is_last(at)
        || !(self->digest_value = element_text(at, DIGEST_TEXT_MAX)))
        return refuse(problem, "has no DigestValue, or something behind it");
    return 0;
}

static int read_signed_info(signature_shape_t *self, const xmlNode *info, const char *id,
                            problem_t *problem)
{
    xmlNodePtr at = NULL;

    if (!element_has_only_elements(info) || !step(info, &at, NS_DSIG, "CanonicalizationMethod")
        || !is_exclusive(at))
        return refuse(problem, "is not over exclusive canonicalization without comments");
    if (!step(info, &at, NS_DSIG, "SignatureMethod") || at->children
        || !(self->signature = algorithm_of_signature(element_attribute(at, "Algorithm"))))
        return refuse_algorithm(problem,
                                "has another algorithm than RSA or ECDSA with SHA-256, "
                                "SHA-384 or SHA-512",
                                at);
    if (!step(info, &at, NS_DSIG, "Reference") || !is_last(at))
        return refuse(problem, "has no reference, or several");
    return read_reference(self, at, id, problem);
}

static bool value_is_good(const xmlNode *value)
{
    _cleanup_(free_mem) char *text = element_text(value, VALUE_TEXT_MAX);

    return text && *text;
}

int signature_shape_read(signature_shape_t *self, const xmlNode *signature, const char *id,
                         problem_t *problem)
{
    xmlNodePtr info = NULL, at;
    int r;

    *self = (signature_shape_t){0};
    if (!element_has_only_elements(signature) || !step(signature, &info, NS_DSIG, "SignedInfo"))
        return refuse(problem, "has no SignedInfo");
    r = read_signed_info(self, info, id, problem);
    at = info;
    if (!r && (!step(signature, &at, NS_DSIG, "SignatureValue") || !value_is_good(at)))
        r = refuse(problem, "has no SignatureValue");
    if (!r && !is_last(at) && !(step(signature, &at, NS_DSIG, "KeyInfo") && is_last(at)))
        r = refuse(problem, "has more than SignedInfo, SignatureValue and KeyInfo");
    if (r)
        signature_shape_done(self);
    return r;
}

void signature_shape_done(signature_shape_t *self)
{
    free(take(self->digest_value));
}
