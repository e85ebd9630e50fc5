#include "services/xml/document.h"
#include "common/base/cleanup.h"
#include "common/base/utf8.h"

#include <errno.h>
#include <libxml/SAX2.h>
#include <libxml/parser.h>
#include <libxml/parserInternals.h>
#include <libxml/xmlIO.h>
#include <libxml/xmlerror.h>
#include <libxml/xmlversion.h>
#include <string.h>
#include <strings.h>

enum { ID_BYTES_MAX = 255, IDS_MAX = 1024, ELEMENT_ATTRIBUTES_MAX = 64, DEPTH_MAX = 32 };

const document_rules_t document_message = {.what = "the message",
                                           .code = ERR_SAML_MESSAGE,
                                           .bytes = 256 << 10,
                                           .elements = 4096,
                                           .attributes = 4096,
                                           .namespaces = 1024,
                                           .in_scope = 64,
                                           .depth = DEPTH_MAX};
const document_rules_t document_metadata = {.what = "the metadata",
                                            .code = ERR_SAML_METADATA,
                                            .bytes = 256 << 10,
                                            .elements = 8192,
                                            .attributes = 16384,
                                            .namespaces = 1024,
                                            .in_scope = 1024,
                                            .depth = DEPTH_MAX,
                                            .may_have_comments = true,
                                            .may_have_cdata = true};

/* One parsing; the context's _private. */
typedef struct parsing {
    const document_rules_t *rules;
    int elements, attributes, namespaces, complaints;
    int in_scope[DEPTH_MAX + 2]; /* of the elements around, by how many there are */
    const char *why;             /* what broke a rule first */
} parsing_t;

static void stop_parsing(xmlParserCtxtPtr ctxt, const char *why)
{
    parsing_t *self = ctxt->_private;

    if (!self->why)
        self->why = why;
    xmlStopParser(ctxt);
}

/* ---- what the parser calls ---- */

static void on_doctype(void *context, const xmlChar *name, const xmlChar *external,
                       const xmlChar *system)
{
    (void)name;
    (void)external;
    (void)system;
    stop_parsing(context, "has a DTD");
}

static void on_instruction(void *context, const xmlChar *target, const xmlChar *data)
{
    (void)target;
    (void)data;
    stop_parsing(context, "has a processing instruction");
}

static void on_comment(void *context, const xmlChar *text)
{
    xmlParserCtxtPtr ctxt = context;
    const parsing_t *self = ctxt->_private;

    (void)text;
    if (!self->rules->may_have_comments)
        stop_parsing(ctxt, "has a comment");
}

static void on_cdata(void *context, const xmlChar *text, int len)
{
    (void)text;
    (void)len;
    stop_parsing(context, "has a section of CDATA");
}

static void on_reference(void *context, const xmlChar *name)
{
    (void)name;
    stop_parsing(context, "refers to an entity");
}

#if LIBXML_VERSION >= 21200
typedef const xmlError *complaint_t;
#else
typedef xmlErrorPtr complaint_t;
#endif

/* Warnings count too: one is that a namespace's name is relative, which canonicalization refuses
 * later. */
static void on_complaint(void *context, complaint_t error)
{
    xmlParserCtxtPtr ctxt = context;
    parsing_t *self = ctxt->_private;

    (void)error;
    self->complaints++;
}

static const char *broken_bound(const parsing_t *self, xmlParserCtxtPtr ctxt, int attributes)
{
    if (self->elements > self->rules->elements)
        return "has too many elements";
    if (self->attributes > self->rules->attributes || attributes > ELEMENT_ATTRIBUTES_MAX)
        return "has too many attributes";
    if (self->namespaces > self->rules->namespaces)
        return "has too many namespaces";
    return ctxt->nameNr > self->rules->depth ? "is nested too deeply" : NULL;
}

/* Canonicalization looks through all that are in scope, for each element and each prefix of its
 * list: a few bytes would cost a second. The depth is within its bound. */
static bool has_too_many_in_scope(parsing_t *self, xmlParserCtxtPtr ctxt, int count)
{
    int *in_scope = &self->in_scope[ctxt->nameNr];

    in_scope[1] = in_scope[0] + count;
    return in_scope[1] > self->rules->in_scope;
}

/* Is the name of a namespace not absolute, as a URL or URN is? Canonicalization fails for it;
 * xmlns="" takes a default away. Namespaces come two words each: prefix and name. */
static bool has_relative_namespace(int count, const xmlChar **namespaces)
{
    for (int i = 0; i < count; i++) {
        const char *name = (const char *)namespaces[2 * i + 1];
        size_t scheme =
            name ? strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+.-")
                 : 0;

        if (name && *name && (!scheme || name[scheme] != ':'))
            return true;
    }
    return false;
}

/* Attributes come five words each: name, prefix, namespace, begin and end of the value. */
static bool has_xml_attribute(int count, const xmlChar **attributes)
{
    for (int i = 0; i < count; i++) {
        const char *name = (const char *)attributes[5 * i];
        const char *ns = (const char *)attributes[5 * i + 2];

        if (ns && !strcmp(ns, (const char *)XML_XML_NAMESPACE) && strcmp(name, "lang")
            && strcmp(name, "space"))
            return true;
    }
    return false;
}

static void on_element(void *context, const xmlChar *name, const xmlChar *prefix, const xmlChar *ns,
                       int namespace_count, const xmlChar **namespaces, int attribute_count,
                       int defaulted, const xmlChar **attributes)
{
    xmlParserCtxtPtr ctxt = context;
    parsing_t *self = ctxt->_private;
    const char *why;

    self->elements++;
    self->attributes += attribute_count;
    self->namespaces += namespace_count;
    why = broken_bound(self, ctxt, attribute_count);
    if (!why && has_too_many_in_scope(self, ctxt, namespace_count))
        why = "has too many namespaces in scope";
    if (!why && has_relative_namespace(namespace_count, namespaces))
        why = "has a namespace whose name is not absolute";
    if (!why && has_xml_attribute(attribute_count, attributes))
        why = "has an attribute xml:id or xml:base";
    if (why)
        stop_parsing(ctxt, why);
    else
        xmlSAX2StartElementNs(context, name, prefix, ns, namespace_count, namespaces,
                              attribute_count, defaulted, attributes);
}

static void set_handlers(xmlSAXHandlerPtr sax)
{
    sax->internalSubset = on_doctype;
    sax->externalSubset = on_doctype;
    sax->processingInstruction = on_instruction;
    sax->comment = on_comment;
    sax->cdataBlock = on_cdata;
    sax->reference = on_reference;
    sax->startElementNs = on_element;
    sax->serror = on_complaint;
}

/* ---- parsing ---- */

static bool is_utf8(const char *text, size_t len)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + len;
    size_t bytes;

    for (; at < end; at += bytes)
        if (!*at || !(bytes = utf8_character(at, end)))
            return false;
    return true;
}

/* The parser is told UTF-8 whatever the declaration says, so another word there would be ignored:
 * it is refused. text ends with NUL. */
static bool declares_utf8(const char *text)
{
    const char *begin = text + (strncmp(text, "\xef\xbb\xbf", 3) ? 0 : 3);
    const char *end = !strncmp(begin, "<?xml", 5) ? strstr(begin, "?>") : NULL;
    const char *at = end ? strstr(begin, "encoding") : NULL;

    if (!at || at > end)
        return true;
    at += strlen("encoding");
    at += strspn(at, " \t\r\n=");
    return !strncasecmp(at, "\"utf-8\"", 7) || !strncasecmp(at, "'utf-8'", 7);
}

static int refuse(const document_rules_t *rules, problem_t *problem, const char *why)
{
    return problem_add(problem, rules->code, NULL, "%s %s", rules->what, why);
}

static int check_text(const char *text, size_t len, const document_rules_t *rules,
                      problem_t *problem)
{
    if (!len || len > rules->bytes)
        return refuse(rules, problem, len ? "is too large" : "is empty");
    if (!is_utf8(text, len))
        return refuse(rules, problem, "is not UTF-8");
    return declares_utf8(text) ? 0 : refuse(rules, problem, "declares another encoding than UTF-8");
}

int document_read(const char *text, size_t len, const document_rules_t *rules,
                  xmlDocPtr *ret_document, problem_t *problem)
{
    parsing_t parsing = {.rules = rules};
    xmlParserCtxtPtr ctxt;
    xmlDocPtr document;
    bool is_good;
    int r = check_text(text, len, rules, problem);

    if (r)
        return r;
    ctxt = xmlNewParserCtxt();
    if (!ctxt)
        return -ENOMEM;
    ctxt->_private = &parsing;
    set_handlers(ctxt->sax);
    document = xmlCtxtReadMemory(ctxt, text, (int)len, NULL, "UTF-8",
                                 XML_PARSE_NONET | (rules->may_have_cdata ? XML_PARSE_NOCDATA : 0));
    is_good = document && ctxt->wellFormed && ctxt->nsWellFormed && !parsing.why
              && !parsing.complaints && xmlDocGetRootElement(document);
    xmlFreeParserCtxt(ctxt);
    if (is_good) {
        *ret_document = document;
        return 0;
    }
    xmlFreeDoc(document);
    return refuse(rules, problem, parsing.why ? parsing.why : "is not well-formed XML");
}

void document_free(xmlDocPtr *document_p)
{
    xmlFreeDoc(*document_p);
    *document_p = NULL;
}

/* ---- the libraries ---- */

static xmlParserInputPtr load_nothing(const char *url, const char *id, xmlParserCtxtPtr ctxt)
{
    (void)url;
    (void)id;
    (void)ctxt;
    return NULL;
}

static void print_nothing(void *context, const char *format, ...)
{
    (void)context;
    (void)format;
}

int document_libraries_start(void)
{
    xmlInitParser();
    xmlSetExternalEntityLoader(load_nothing);
    xmlCleanupInputCallbacks();
    xmlCleanupOutputCallbacks();
    xmlSetGenericErrorFunc(NULL, print_nothing);
    return 0;
}

/* ---- elements ---- */

bool element_is(const xmlNode *node, const char *ns, const char *name)
{
    return node && node->type == XML_ELEMENT_NODE && node->ns
           && !strcmp((const char *)node->ns->href, ns) && !strcmp((const char *)node->name, name);
}

static xmlNodePtr element_at_or_behind(xmlNodePtr node)
{
    while (node && node->type != XML_ELEMENT_NODE)
        node = node->next;
    return node;
}

xmlNodePtr element_first(const xmlNode *parent)
{
    return element_at_or_behind(parent->children);
}

xmlNodePtr element_next(const xmlNode *node)
{
    return element_at_or_behind(node->next);
}

xmlNodePtr element_walk(xmlNodePtr top, xmlNodePtr node)
{
    xmlNodePtr next = node ? element_first(node) : top;

    while (!next && node != top) {
        next = element_next(node);
        node = node->parent;
    }
    return next;
}

int element_children(const xmlNode *parent, const char *ns, const char *name, xmlNodePtr *ret_child)
{
    int count = 0;

    if (ret_child)
        *ret_child = NULL;
    for (xmlNodePtr child = element_first(parent); child; child = element_next(child)) {
        if (!element_is(child, ns, name))
            continue;
        if (!count++ && ret_child)
            *ret_child = child;
    }
    return count;
}

bool element_has_only_elements(const xmlNode *parent)
{
    for (const xmlNode *child = parent->children; child; child = child->next)
        if (child->type != XML_ELEMENT_NODE
            && !(child->type == XML_TEXT_NODE && xmlIsBlankNode(child)))
            return false;
    return true;
}

xmlAttrPtr element_attribute_node(const xmlNode *node, const char *name)
{
    for (xmlAttrPtr one = node->properties; one; one = one->next)
        if (!one->ns && !strcmp((const char *)one->name, name))
            return one;
    return NULL;
}

/* The text of an attribute: the parser makes one text node of it, or none where it is empty. */
static const char *value_of(const xmlAttr *attribute)
{
    const xmlNode *text = attribute->children;

    return text && text->content ? (const char *)text->content : "";
}

const char *element_attribute(const xmlNode *node, const char *name)
{
    xmlAttrPtr found = element_attribute_node(node, name);

    return found ? value_of(found) : NULL;
}

char *element_text(const xmlNode *node, size_t max)
{
    size_t len = 0;
    char *out;

    for (const xmlNode *child = node->children; child; child = child->next) {
        if (child->type != XML_TEXT_NODE)
            return NULL;
        len += strlen((const char *)child->content);
        if (len > max)
            return NULL;
    }
    out = malloc(len + 1);
    if (!out)
        return NULL;
    len = 0;
    for (const xmlNode *child = node->children; child; child = child->next) {
        size_t part = strlen((const char *)child->content);

        memcpy(out + len, child->content, part);
        len += part;
    }
    out[len] = '\0';
    return out;
}

/* ---- IDs ---- */

bool id_is_plain(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    size_t len = strlen(text);

    return len && len <= ID_BYTES_MAX && strchr(letters, *text)
           && strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789-.")
                  == len;
}

static int compare_texts(const void *one, const void *other)
{
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* Gathers the IDs of one element. False: there are too many. */
static bool gather_ids(const xmlNode *node, const char *ids[IDS_MAX], size_t *count)
{
    for (xmlAttrPtr one = node->properties; one; one = one->next) {
        if (strcasecmp((const char *)one->name, "id") != 0)
            continue;
        if (*count == IDS_MAX)
            return false;
        ids[(*count)++] = value_of(one);
    }
    return true;
}

bool ids_are_unique(xmlDocPtr document)
{
    xmlNodePtr root = xmlDocGetRootElement(document);
    const char *ids[IDS_MAX];
    size_t count = 0;

    for (xmlNodePtr node = root; node; node = element_walk(root, node))
        if (!gather_ids(node, ids, &count))
            return false;
    qsort(ids, count, sizeof(*ids), compare_texts);
    for (size_t i = 1; i < count; i++)
        if (!strcmp(ids[i - 1], ids[i]))
            return false;
    return true;
}
