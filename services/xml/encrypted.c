#include "services/xml/encrypted.h"
#include "common/base/cleanup.h"
#include "services/xml/cipher.h"
#include "services/xml/envelope.h"
#include "services/xml/message.h"

#include <libxml/parserInternals.h>
#include <openssl/evp.h>
#include <string.h>

#define NS_XENC11     "http://www.w3.org/2009/xmlenc11#"
#define OAEP_MGF1P    NS_XENC "rsa-oaep-mgf1p"
#define OAEP          NS_XENC11 "rsa-oaep"
#define TYPE_ELEMENT  NS_XENC "Element"
#define TYPE_KEY      NS_XENC "EncryptedKey"
#define WRAPPED_BYTES 1024 /* RSA of 8,192 bits */

/* Digests of OAEP. SHA-1 is not broken there: nobody gains anything by a collision (RFC 8017,
 * appendix B.1), and most providers send it. */
static const struct oaep_digest {
    const char *name, *digest_uri, *mgf1_uri;
} digests[] = {
    {"SHA1", NS_DSIG "sha1", NS_XENC11 "mgf1sha1"},
    {"SHA256", NS_XENC "sha256", NS_XENC11 "mgf1sha256"},
};

void encrypted_done(encrypted_t *self)
{
    free(take(self->wrapped));
    free(take(self->content));
}

/* ---- shape ---- */

/* The child at *at if it is of this name, and *at is the next one then. NULL: it is another one. */
static xmlNodePtr next_if(xmlNodePtr *at, const char *ns, const char *name)
{
    xmlNodePtr one = *at;

    if (!element_is(one, ns, name))
        return NULL;
    *at = element_next(one);
    return one;
}

static bool is_text(const char *text, const char *want)
{
    return text && !strcmp(text, want);
}

/* CipherData with a CipherValue, and no reference to somewhere else. */
static int read_cipher_data(xmlNodePtr *at, size_t max, unsigned char **ret_bytes, size_t *ret_len,
                            problem_t *problem)
{
    xmlNodePtr data = next_if(at, NS_XENC, "CipherData");
    xmlNodePtr child = data ? element_first(data) : NULL, value;
    _cleanup_(free_mem) char *text = NULL;

    value = next_if(&child, NS_XENC, "CipherValue");
    if (value && !child && element_has_only_elements(data))
        text = element_text(value, max);
    if (!text || !base64_decode(text, strlen(text), ret_bytes, ret_len))
        return message_refuse(problem,
                              "has something encrypted without a CipherValue that is base64 "
                              "and not too long");
    return 0;
}

/* DigestMethod and MGF of RSA-OAEP: both are SHA-1 where nothing is said, and MGF1 of
 * rsa-oaep-mgf1p always is (XML Encryption 1.1, 5.5.2). */
static bool read_oaep(encrypted_t *self, const xmlNode *method)
{
    const char *algorithm = element_attribute(method, "Algorithm");
    xmlNodePtr at = element_first(method);
    xmlNodePtr digest = next_if(&at, NS_DSIG, "DigestMethod");
    xmlNodePtr mgf = next_if(&at, NS_XENC11, "MGF");
    const char *digest_uri, *mgf1_uri;

    if (!digest)
        digest = next_if(&at, NS_DSIG, "DigestMethod");
    digest_uri = digest ? element_attribute(digest, "Algorithm") : NS_DSIG "sha1";
    mgf1_uri = mgf ? element_attribute(mgf, "Algorithm") : NS_XENC11 "mgf1sha1";
    if (!is_text(algorithm, OAEP) && (!is_text(algorithm, OAEP_MGF1P) || mgf))
        return false;
    for (size_t i = 0; i < LEN(digests); i++) {
        if (is_text(digest_uri, digests[i].digest_uri))
            self->digest = digests[i].name;
        if (is_text(mgf1_uri, digests[i].mgf1_uri))
            self->mgf1 = digests[i].name;
    }
    return self->digest && self->mgf1 && !at && element_has_only_elements(method)
           && !(digest && digest->children) && !(mgf && mgf->children);
}

/* Its KeyInfo says whose key opens it: there is one only, so that is not read. */
static int read_key(encrypted_t *self, const xmlNode *key, problem_t *problem)
{
    xmlNodePtr at = element_first(key), method = next_if(&at, NS_XENC, "EncryptionMethod");
    int r;

    if (!method || !read_oaep(self, method))
        return message_refuse(problem, "has a key that is encrypted by another algorithm than "
                                       "RSA-OAEP with SHA-1 or SHA-256, and without parameters");
    next_if(&at, NS_DSIG, "KeyInfo");
    r = read_cipher_data(&at, WRAPPED_BYTES * 2, &self->wrapped, &self->wrapped_len, problem);
    if (r)
        return r;
    next_if(&at, NS_XENC, "ReferenceList");
    next_if(&at, NS_XENC, "CarriedKeyName");
    return !at && self->wrapped_len && self->wrapped_len <= WRAPPED_BYTES
               ? 0
               : message_refuse(problem, "has an EncryptedKey with parts that are not known");
}

/* The one EncryptedKey: the only child of KeyInfo, or behind EncryptedData, and then a KeyInfo may
 * refer to it. NULL: there is none, or there are several. */
static xmlNodePtr find_key(const xmlNode *info, xmlNodePtr behind)
{
    xmlNodePtr at = info ? element_first(info) : NULL;
    xmlNodePtr inside = next_if(&at, NS_XENC, "EncryptedKey");
    xmlNodePtr reference = next_if(&at, NS_DSIG, "RetrievalMethod");
    const char *uri = reference ? element_attribute(reference, "URI") : NULL;
    const char *type = reference ? element_attribute(reference, "Type") : NULL;
    const char *id = behind ? element_attribute(behind, "Id") : NULL;

    if (at || (info && !inside && !reference) || (inside && (behind || reference)))
        return NULL;
    if (!reference)
        return inside ? inside : behind;
    return behind && id && uri && *uri == '#' && !strcmp(uri + 1, id) && !reference->children
                   && (!type || !strcmp(type, TYPE_KEY))
               ? behind
               : NULL;
}

static int read_method(encrypted_t *self, const xmlNode *method, bool is_signed, problem_t *problem)
{
    self->cipher = method ? cipher_find(element_attribute(method, "Algorithm")) : NULL;
    if (!self->cipher || element_first(method))
        return message_refuse(problem,
                              "has an assertion that is encrypted by another algorithm than "
                              "AES-128 or AES-256 with GCM");
    if (self->cipher->is_cbc && !is_signed)
        return message_refuse(problem,
                              "has an assertion that is encrypted with CBC, which is taken "
                              "of a response only that is signed itself");
    return 0;
}

int encrypted_read(encrypted_t *self, const xmlNode *element, bool is_signed, problem_t *problem)
{
    xmlNodePtr at = element_first(element), data = next_if(&at, NS_XENC, "EncryptedData");
    xmlNodePtr behind = next_if(&at, NS_XENC, "EncryptedKey"), info, key;
    const char *type = data ? element_attribute(data, "Type") : NULL;
    int r;

    *self = (encrypted_t){0};
    if (!data || at || !element_has_only_elements(element) || (type && strcmp(type, TYPE_ELEMENT)))
        return message_refuse(problem,
                              "has an encrypted assertion that is not one EncryptedData of "
                              "an element, with one EncryptedKey");
    at = element_first(data);
    r = read_method(self, next_if(&at, NS_XENC, "EncryptionMethod"), is_signed, problem);
    if (r)
        return r;
    info = next_if(&at, NS_DSIG, "KeyInfo");
    key = find_key(info, behind);
    if (!key)
        return message_refuse(problem, "has no EncryptedKey for its assertion, or several");
    r = read_cipher_data(&at, ENVELOPE_TEXT_MAX, &self->content, &self->content_len, problem);
    if (!r && at)
        r = message_refuse(problem, "has an EncryptedData with parts that are not known");
    return r ? r : read_key(self, key, problem);
}

json_t *encrypted_describe(const encrypted_t *self)
{
    char text[4 * (WRAPPED_BYTES / 3 + 1) + 1];

    EVP_EncodeBlock((unsigned char *)text, self->wrapped, (int)self->wrapped_len);
    return json_pack("{s:s, s:s, s:s, s:i}", "key", text, "digest", self->digest, "mgf1",
                     self->mgf1, "bytes", (int)self->cipher->key_bytes);
}

/* ---- what is in it ---- */

/* The whole document as text, with these octets inside of the element, as they are: their
 * namespaces are those of the element (XML Encryption 1.1, 4.4). NULL: no memory. */
static xmlBufferPtr put_inside(xmlNodePtr element, const char *octets)
{
    xmlBufferPtr out = xmlBufferCreate();
    xmlNodePtr text = xmlNewDocText(element->doc, (const xmlChar *)octets), child;
    bool is_good;

    while ((child = element->children)) {
        xmlUnlinkNode(child);
        xmlFreeNode(child);
    }
    if (text) {
        text->name = xmlStringTextNoenc; /* written as it is */
        xmlAddChild(element, text);
    }
    is_good =
        text && out && xmlNodeDump(out, element->doc, xmlDocGetRootElement(element->doc), 0, 0) > 0;
    if (is_good)
        return out;
    xmlBufferFree(out);
    return NULL;
}

/* Give an element the declarations of another one around it, but for prefixes that it declares
 * itself: what refers to those refers to its own. */
static void move_namespaces(xmlNodePtr from, xmlNodePtr to)
{
    xmlNsPtr *at = &from->nsDef;

    while (*at) {
        xmlNsPtr one = *at, own = to->nsDef;

        while (own && xmlStrcmp(own->prefix, one->prefix) != 0)
            own = own->next;
        if (own) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->next = to->nsDef;
        to->nsDef = one;
    }
}

/* Put the assertion, which must be all that is in the one EncryptedAssertion of the document, in
 * its place. Octets that end that element and begin another one make two of it. */
static bool hoist(xmlDocPtr document)
{
    xmlNodePtr root = xmlDocGetRootElement(document), shell, inner;

    if (element_children(root, NS_ASSERTION, "EncryptedAssertion", &shell) != 1)
        return false;
    inner = element_first(shell);
    if (!element_is(inner, NS_ASSERTION, "Assertion") || element_next(inner)
        || !element_has_only_elements(shell))
        return false;
    xmlUnlinkNode(inner);
    move_namespaces(shell, inner);
    xmlReplaceNode(shell, inner);
    xmlFreeNode(shell);
    return true;
}

static bool open_all(const encrypted_t *self, const unsigned char *key, size_t key_len,
                     xmlNodePtr element, xmlDocPtr *ret_document)
{
    _cleanup_(document_free) xmlDocPtr document = NULL;
    _cleanup_(problem_done) problem_t unused = {0};
    _cleanup_(free_mem) char *octets = NULL;
    xmlBufferPtr text;
    size_t len;
    int r;

    if (key_len != self->cipher->key_bytes
        || !cipher_open(self->cipher, key, self->content, self->content_len, &octets, &len) || !len
        || strlen(octets) != len)
        return false;
    text = put_inside(element, octets);
    if (!text)
        return false;
    r = document_read((const char *)xmlBufferContent(text), (size_t)xmlBufferLength(text),
                      &document_message, &document, &unused);
    xmlBufferFree(text);
    if (r || !hoist(document))
        return false;
    *ret_document = take(document);
    return true;
}

int encrypted_open(const encrypted_t *self, const unsigned char *key, size_t key_len,
                   xmlNodePtr element, xmlDocPtr *ret_document, problem_t *problem)
{
    return open_all(self, key, key_len, element, ret_document)
               ? 0
               : message_refuse(problem, "has an assertion that cannot be decrypted: is it "
                                         "encrypted to the route's encryption_certificate_pem?");
}
