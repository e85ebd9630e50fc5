#include "common/codec/regex_list.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <re2/filtered_re2.h>
#include <re2/re2.h>
#include <string>
#include <unordered_map>
#include <vector>

/* RE2 names the atoms of an expression, but leaves looking for them to others. */
enum { ATOM_MIN = 3 /* bytes: shorter ones are in every text, and exclude no expression */ };

static unsigned char lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
}

/* The automaton of Aho and Corasick (CACM 18, 1975): all atoms in one pass over the text. */
class Atoms {
  public:
    void build(const std::vector<std::string> &atoms)
    {
        nodes.assign(1, Node());
        edges.clear();
        found_max = atoms.size();
        for (size_t i = 0; i < atoms.size(); i++)
            add(atoms[i], (int)i);
        link();
    }

    /* The numbers of the atoms in text, each once. */
    std::vector<int> search(const char *text, size_t len) const
    {
        std::vector<bool> seen(found_max, false);
        std::vector<int> found;
        uint32_t at = 0;

        for (size_t i = 0; i < len; i++) {
            at = step(at, lower((unsigned char)text[i]));
            for (uint32_t hit = nodes[at].atom >= 0 ? at : nodes[at].shorter; hit;
                 hit = nodes[hit].shorter) {
                if (seen[(size_t)nodes[hit].atom])
                    break; /* then so were the shorter ones that it ends with */
                seen[(size_t)nodes[hit].atom] = true;
                found.push_back(nodes[hit].atom);
            }
        }
        return found;
    }

  private:
    struct Node {
        uint32_t fail = 0;    /* of the longest end of this node's text that is a node */
        uint32_t shorter = 0; /* the next along fail that ends an atom; 0: none */
        int atom = -1;        /* that this node's text is */
        unsigned char byte = 0;
        uint32_t parent = 0;
    };

    static uint64_t key(uint32_t node, unsigned char byte)
    {
        return (uint64_t)node << 8 | byte;
    }

    uint32_t child(uint32_t node, unsigned char byte) const
    {
        auto edge = edges.find(key(node, byte));

        return edge == edges.end() ? 0 : edge->second;
    }

    void add(const std::string &atom, int number)
    {
        uint32_t at = 0;

        for (char c : atom) {
            uint32_t next = child(at, (unsigned char)c);

            if (!next) {
                next = (uint32_t)nodes.size();
                nodes.push_back(Node());
                nodes[next].byte = (unsigned char)c;
                nodes[next].parent = at;
                edges[key(at, (unsigned char)c)] = next;
            }
            at = next;
        }
        if (at)
            nodes[at].atom = number;
    }

    uint32_t step(uint32_t at, unsigned char byte) const
    {
        for (;;) {
            uint32_t next = child(at, byte);

            if (next || !at)
                return next;
            at = nodes[at].fail;
        }
    }

    /* Breadth first: a node's fail is shorter than its text. */
    void link()
    {
        std::vector<uint32_t> order, depth(nodes.size(), 0);

        for (uint32_t i = 1; i < nodes.size(); i++) /* a parent has the smaller number */
            depth[i] = depth[nodes[i].parent] + 1;
        for (uint32_t i = 1; i < nodes.size(); i++)
            order.push_back(i);
        std::stable_sort(order.begin(), order.end(),
                         [&depth](uint32_t a, uint32_t b) { return depth[a] < depth[b]; });
        for (uint32_t i : order) {
            Node &node = nodes[i];

            node.fail = node.parent ? step(nodes[node.parent].fail, node.byte) : 0;
            node.shorter = nodes[node.fail].atom >= 0 ? node.fail : nodes[node.fail].shorter;
        }
    }

    std::vector<Node> nodes;
    std::unordered_map<uint64_t, uint32_t> edges;
    size_t found_max = 0;
};

struct re2_list {
    re2_list() : expressions(ATOM_MIN)
    {
    }
    re2::FilteredRE2 expressions;
    Atoms atoms;
    size_t count = 0;
};

int regex_list_new(regex_list_t **ret_list, const regex_row_t *rows, size_t count, size_t *ret_bad,
                   char *why, size_t why_size)
{
    auto list = std::make_unique<re2_list>();
    std::vector<std::string> atoms;

    *ret_bad = count;
    if (count > REGEX_LIST_MAX) {
        snprintf(why, why_size, "has more than %d expressions", REGEX_LIST_MAX);
        return -EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        RE2::Options options;
        int id;

        options.set_log_errors(false);
        options.set_max_mem(REGEX_LIST_BYTES);
        options.set_case_sensitive(!rows[i].ignores_case);
        if (list->expressions.Add(rows[i].pattern, options, &id) == RE2::NoError)
            continue;
        *ret_bad = i;
        snprintf(why, why_size, "%s", RE2(rows[i].pattern, options).error().c_str());
        return -EINVAL;
    }
    if (count)
        list->expressions.Compile(&atoms);
    list->atoms.build(atoms);
    list->count = count;
    *ret_list = list.release();
    return 0;
}

int regex_list_first(const regex_list_t *self, const char *text, size_t len, regex_part_t *parts,
                     size_t count)
{
    std::vector<re2::StringPiece> groups(count);
    re2::StringPiece piece(text, len);
    int first;

    if (!self->count)
        return -1;
    first = self->expressions.FirstMatch(piece, self->atoms.search(text, len));
    if (first < 0)
        return -1;
    const RE2 &re = self->expressions.GetRE2(first);
    size_t known = (size_t)re.NumberOfCapturingGroups() + 1;

    if (!re.Match(piece, 0, len, RE2::UNANCHORED, groups.data(),
                  (int)(known < count ? known : count)))
        return -1;
    for (size_t i = 0; i < count; i++)
        parts[i] = {groups[i].data(), groups[i].size()};
    return first;
}

void regex_list_destroy(regex_list_t **self_p)
{
    delete *self_p;
    *self_p = nullptr;
}
