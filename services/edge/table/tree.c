#include "services/edge/table/tree.h"

#include "common/base/invariant.h"
#include "services/edge/table/slab.h"

#include <string.h>

typedef struct node {
    struct node *child, *next; /* siblings begin with different bytes */
    claim_t *exact, *prefix;
    size_t len;
    char label[];
} node_t;

struct tree {
    node_t *root; /* empty label */
};

/* label NULL: the caller writes it. */
static node_t *node_new(const char *label, size_t len)
{
    node_t *node = slab_alloc(sizeof(*node) + len);

    node->len = len;
    if (label)
        memcpy(node->label, label, len);
    return node;
}

tree_t *tree_new(void)
{
    tree_t *self = slab_alloc(sizeof(*self));

    self->root = node_new("", 0);
    return self;
}

/* Depth is bounded by the length of a path. */
static void free_nodes(node_t *node)
{
    while (node) {
        node_t *next = node->next;

        free_nodes(node->child);
        slab_free(node);
        node = next;
    }
}

void tree_destroy(tree_t **self_p)
{
    if (!*self_p)
        return;
    free_nodes((*self_p)->root);
    slab_free(*self_p);
    *self_p = NULL;
}

static node_t **child_at(node_t *node, char first)
{
    node_t **at = &node->child;

    while (*at && (*at)->label[0] != first)
        at = &(*at)->next;
    return at;
}

/* How many bytes of the label the path begins with. */
static size_t common_bytes(const node_t *node, const char *path, size_t len)
{
    size_t n = 0;

    while (n < node->len && n < len && node->label[n] == path[n])
        n++;
    return n;
}

/* Cut *at after n bytes of its label: a new parent above it. */
static node_t *split_node(node_t **at, size_t n)
{
    node_t *lower = *at, *upper;

    INVARIANT(n > 0 && n < lower->len);
    upper = node_new(lower->label, n);
    upper->next = lower->next;
    upper->child = lower;
    lower->next = NULL;
    lower->len -= n;
    memmove(lower->label, lower->label + n, lower->len);
    *at = upper;
    return upper;
}

static claim_t **claims_of(node_t *node, bool exact)
{
    return exact ? &node->exact : &node->prefix;
}

void tree_put(tree_t *self, const char *path, size_t len, bool exact, claim_t *claim)
{
    node_t *node = self->root;

    while (len > 0) {
        node_t **at = child_at(node, path[0]);
        size_t n;

        if (!*at) {
            *at = node_new(path, len);
            node = *at;
            break;
        }
        n = common_bytes(*at, path, len);
        node = n < (*at)->len ? split_node(at, n) : *at;
        path += n;
        len -= n;
    }
    claim_put(claims_of(node, exact), claim);
}

/* Remove a node that holds nothing, or join it with its only child. */
static void tidy_node(node_t **at)
{
    node_t *node = *at, *child = node->child, *joined;

    if (node->exact || node->prefix || node->len == 0)
        return;
    if (!child) {
        *at = node->next;
        slab_free(node);
        return;
    }
    if (child->next)
        return;
    joined = node_new(NULL, node->len + child->len);
    memcpy(joined->label, node->label, node->len);
    memcpy(joined->label + node->len, child->label, child->len);
    joined->exact = child->exact;
    joined->prefix = child->prefix;
    joined->child = child->child;
    joined->next = node->next;
    *at = joined;
    slab_free(node);
    slab_free(child);
}

static void remove_claim(node_t **at, const char *path, size_t len, bool exact,
                         const claim_t *claim)
{
    node_t *node = *at, **child;

    if (len == 0) {
        claim_del(claims_of(node, exact), claim);
    } else {
        child = child_at(node, path[0]);
        /* put made the whole path, and nodes are only joined where nothing is claimed */
        INVARIANT(*child && common_bytes(*child, path, len) == (*child)->len);
        remove_claim(child, path + (*child)->len, len - (*child)->len, exact, claim);
    }
    tidy_node(at);
}

void tree_del(tree_t *self, const char *path, size_t len, bool exact, const claim_t *claim)
{
    remove_claim(&self->root, path, len, exact, claim);
}

bool tree_empty(const tree_t *self)
{
    return !self->root->child && !self->root->exact && !self->root->prefix;
}

claim_t *tree_find(const tree_t *self, const char *path, size_t len)
{
    node_t *node = self->root;
    claim_t *best = node->prefix;

    while (len > 0) {
        node = *child_at(node, path[0]);
        if (!node || node->len > len || memcmp(node->label, path, node->len))
            return best;
        path += node->len;
        len -= node->len;
        if (node->prefix)
            best = node->prefix;
    }
    return node->exact ? node->exact : best;
}
