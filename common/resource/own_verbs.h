/* Rows of a service's own verbs, for its list of verb_t: those of proto/verbs.def that are its. Before this is included it says
 * which, by name, and that is all that changes when another service or verb comes:
 *
 *     static const verb_t verbs[] = {
 *     #define OWN_VERBS_routes OWN_VERBS
 *     #include "common/resource/own_verbs.h"
 *         {NULL, NULL},
 *     };
 *
 * How: OWN_VERBS has a comma, so behind the name of that service the second of the words is OWN_VERB_ROW; behind any other name, which is
 * no macro, it is OWN_VERB_NONE. */
#define OWN_VERBS                   ~,
#define OWN_VERB_ROW(name, handler) {name, handler},
#define OWN_VERB_NONE(name, handler)
#define OWN_VERB_SECOND(first, second, ...) second
#define OWN_VERB_PICK(...)                  OWN_VERB_SECOND(__VA_ARGS__, )
#define VERB(service, name, handler, who, most, shapes)                                            \
    OWN_VERB_PICK(OWN_VERBS_##service OWN_VERB_ROW, OWN_VERB_NONE)(name, handler)
#include "proto/verbs.def"
