/* XML with bounds, and what is asked of its elements. No DTD, no entity but the five of XML, no
 * processing instruction, no xml:id, no xml:base; UTF-8 only; namespaces have absolute names.
 * Elements are found by namespace and name, never by prefix. */
#pragma once

#include "common/base/err.h"

#include <libxml/tree.h>
#include <stdbool.h>
#include <stddef.h>

#define NS_ASSERTION "urn:oasis:names:tc:SAML:2.0:assertion"
#define NS_PROTOCOL  "urn:oasis:names:tc:SAML:2.0:protocol"
#define NS_METADATA  "urn:oasis:names:tc:SAML:2.0:metadata"
#define NS_DSIG      "http://www.w3.org/2000/09/xmldsig#"
#define NS_XENC      "http://www.w3.org/2001/04/xmlenc#"
#define NS_EXC_C14N  "http://www.w3.org/2001/10/xml-exc-c14n#"

/* What one document may be. */
typedef struct document_rules {
    const char *what; /* in messages: "the message" */
    int code;         /* of its refusal */
    size_t bytes;
    int elements, attributes, namespaces, depth;
    int in_scope;           /* namespaces that are declared in an element and around it */
    bool may_have_comments; /* they are left out of the document */
    bool may_have_cdata;    /* it is text like other text */
} document_rules_t;

extern const document_rules_t document_message, document_metadata;

/* Once a process, before everything else here: the libraries load no file and no URL from then on,
 * and print nothing. 0 | fault. */
int document_libraries_start(void);

/* The document of len bytes. 0: *ret_document is the caller's | the code of the rules. */
int document_read(const char *text, size_t len, const document_rules_t *rules,
                  xmlDocPtr *ret_document, problem_t *problem);

/* *document_p may be NULL. */
void document_free(xmlDocPtr *document_p);

/* Is the node an element of that namespace and name? */
bool element_is(const xmlNode *node, const char *ns, const char *name);

/* The next element in document order under top, which comes first itself (node NULL). NULL: that
 * was the last one. */
xmlNodePtr element_walk(xmlNodePtr top, xmlNodePtr node);

/* First child that is an element, and the next sibling that is one. NULL: none. */
xmlNodePtr element_first(const xmlNode *parent);
xmlNodePtr element_next(const xmlNode *node);

/* Children of that namespace and name: how many there are, and the first; *ret_child may be NULL.
 */
int element_children(const xmlNode *parent, const char *ns, const char *name,
                     xmlNodePtr *ret_child);

/* Is there nothing between the child elements but white space? */
bool element_has_only_elements(const xmlNode *parent);

/* An attribute without a namespace; borrowed. NULL: it has none of that name. */
const char *element_attribute(const xmlNode *node, const char *name);
xmlAttrPtr element_attribute_node(const xmlNode *node, const char *name);

/* The whole text of an element that has no child element; the caller frees it. NULL: it has one, or
 * the text is longer than max bytes. */
char *element_text(const xmlNode *node, size_t max);

/* May the text be an ID that something refers to? Letters of ASCII, digits, "_", "-" and ".", not
 * first of all a digit, "-" or "."; at most 255. */
bool id_is_plain(const char *text);

/* Is every ID of the document unique, whatever the case of the attribute's name and its namespace?
 */
bool ids_are_unique(xmlDocPtr document);
