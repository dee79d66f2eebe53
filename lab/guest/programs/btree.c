/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * btree RECORDS OPERATIONS: a store in memory, a B+ tree with nodes of a page. RECORDS records are
 * inserted in random order, so that neighbours in the tree are anywhere in memory. Then nine of ten
 * operations use the last fifth of the keys: most read a record, some replace one, a few insert a
 * new one. The hot memory is single pages at random places.
 *
 * It prints a JSON line when its memory is filled, and one at the end with its seconds and a
 * checksum of the data read, which depends only on the arguments.
 */
#include "kvdraw.h"
#include "progress.h"

/* TPC-B's rows have at least 100 bytes; with its key a record takes two lines. */
#define VALUE_WORDS 15
/* The entries that fit into a page beside the count. */
#define MAX_LEAF 31
#define MAX_INNER 255
/* A tree with this many levels of half-full nodes is larger than any guest. */
#define MAX_LEVELS 6
/* Shares of a thousand operations. YCSB's B writes 50; one insert causes splits and takes little
 * memory. */
enum { THOUSAND = 1000, WRITES = 50, INSERTS = 1 };
/* Percent of keys and of requests, as in the bench's other stores. */
enum { HOT_KEYS = 20, HOT_REQUESTS = 90 };

/* Keys ascend. An inner node's child holds the keys that are not below its key; the first child's
 * key is not compared. */
struct node {
    uint32_t count, is_leaf;
    union {
        struct {
            uint64_t key[MAX_LEAF], value[MAX_LEAF][VALUE_WORDS];
        } leaf;
        struct {
            uint64_t key[MAX_INNER];
            struct node *child[MAX_INNER];
        } inner;
    };
};
_Static_assert(sizeof(struct node) <= PAGE_BYTES, "a node is a page");

struct tree {
    struct node *root;
    char *memory; /* where the next node will be */
    size_t pages; /* that are left */
};

static struct node *new_node(struct tree *tree, uint32_t is_leaf)
{
    if (tree->pages == 0)
        fail("the tree outgrew its memory");
    struct node *node = (struct node *)tree->memory;
    tree->memory += PAGE_BYTES;
    tree->pages--;
    node->is_leaf = is_leaf;
    return node;
}

/* Returns the number of a node's keys that are at most this one. */
static uint32_t not_above(const uint64_t *keys, uint32_t count, uint64_t key)
{
    uint32_t low = 0;
    while (low < count) {
        uint32_t middle = (low + count) / 2;
        if (keys[middle] <= key)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

static uint32_t child_of(const struct node *node, uint64_t key)
{
    uint32_t at = not_above(node->inner.key, node->count, key);
    return at ? at - 1 : 0;
}

/* Returns the value of a key, or NULL. */
static uint64_t *find(const struct tree *tree, uint64_t key)
{
    struct node *node = tree->root;
    while (!node->is_leaf)
        node = node->inner.child[child_of(node, key)];
    uint32_t at = not_above(node->leaf.key, node->count, key);
    return at && node->leaf.key[at - 1] == key ? node->leaf.value[at - 1] : NULL;
}

static void put_value(uint64_t *value, uint64_t key, uint64_t version)
{
    for (uint64_t word = 0; word < VALUE_WORDS; word++)
        value[word] = key + version + word;
}

/* Moves the upper half of a full child to a new one beside it. */
static void split(struct tree *tree, struct node *parent, uint32_t at)
{
    struct node *left = parent->inner.child[at], *right = new_node(tree, left->is_leaf);
    uint32_t kept = left->count / 2, moved = left->count - kept;
    if (left->is_leaf) {
        memcpy(right->leaf.key, left->leaf.key + kept, moved * sizeof *left->leaf.key);
        memcpy(right->leaf.value, left->leaf.value + kept, moved * sizeof *left->leaf.value);
    } else {
        memcpy(right->inner.key, left->inner.key + kept, moved * sizeof *left->inner.key);
        memcpy(right->inner.child, left->inner.child + kept, moved * sizeof *left->inner.child);
    }
    left->count = kept;
    right->count = moved;
    uint32_t behind = parent->count - at - 1;
    memmove(parent->inner.key + at + 2, parent->inner.key + at + 1,
            behind * sizeof *parent->inner.key);
    memmove(parent->inner.child + at + 2, parent->inner.child + at + 1,
            behind * sizeof *parent->inner.child);
    parent->inner.key[at + 1] = right->is_leaf ? right->leaf.key[0] : right->inner.key[0];
    parent->inner.child[at + 1] = right;
    parent->count++;
}

static int is_full(const struct node *node)
{
    return node->count == (node->is_leaf ? MAX_LEAF : MAX_INNER);
}

/* Inserts a key. Full nodes are split during the descent, so that a parent always has a free
 * entry. */
static void insert(struct tree *tree, uint64_t key)
{
    if (is_full(tree->root)) {
        struct node *root = new_node(tree, 0);
        root->count = 1;
        root->inner.child[0] = tree->root;
        split(tree, tree->root = root, 0);
    }
    struct node *node = tree->root;
    while (!node->is_leaf) {
        uint32_t at = child_of(node, key);
        if (is_full(node->inner.child[at])) {
            split(tree, node, at);
            at = child_of(node, key);
        }
        node = node->inner.child[at];
    }
    uint32_t at = not_above(node->leaf.key, node->count, key), behind = node->count - at;
    memmove(node->leaf.key + at + 1, node->leaf.key + at, behind * sizeof *node->leaf.key);
    memmove(node->leaf.value + at + 1, node->leaf.value + at, behind * sizeof *node->leaf.value);
    node->leaf.key[at] = key;
    put_value(node->leaf.value[at], key, 0);
    node->count++;
}

/* Inserts the even keys in an order that visits each once: steps of a number without a common
 * factor. */
static void load(struct tree *tree, uint64_t records)
{
    /* A prime larger than any number of records that fits into a guest. */
    const uint64_t step = 2147483647;
    for (uint64_t i = 0, at = 0; i < records; i++, at = (at + step) % records)
        insert(tree, 2 * at);
}

static uint64_t work(struct tree *tree, uint64_t records, long operations)
{
    struct draw draw = {
        .keys = records, .hot_keys = HOT_KEYS, .hot_requests = HOT_REQUESTS, .seed = RANDOM_SEED};
    uint64_t sum = 0;
    volatile uint64_t *done = progress();
    for (long i = 0; i < operations; i++) {
        *done = (uint64_t)i;
        uint64_t key = 2 * (uint64_t)draw_key(&draw);
        long kind = i % THOUSAND;
        uint64_t *value = find(tree, kind < INSERTS ? key + 1 : key);
        if (value && kind < WRITES)
            put_value(value, key, (uint64_t)i);
        else if (value)
            sum += value[0] ^ value[VALUE_WORDS - 1];
        else
            insert(tree, key + 1);
    }
    return sum;
}

int main(int count, char **words)
{
    if (count != 3)
        fail("usage: btree RECORDS OPERATIONS, for example: btree 500000 1000000");
    uint64_t records = (uint64_t)number_of("RECORDS", words[1], 1);
    long operations = number_of("OPERATIONS", words[2], 1);
    double began = now_s();
    /* Nodes are at least half full. Only used nodes are touched. */
    uint64_t inserts = records + (uint64_t)operations / THOUSAND * INSERTS + INSERTS;
    size_t pages = inserts / (MAX_LEAF / 2) * 2 + MAX_LEVELS;
    struct tree tree = {.pages = pages};
    tree.memory = mmap(NULL, pages * PAGE_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (tree.memory == MAP_FAILED)
        fail("mmap of %zu pages: %s", pages, strerror(errno));
    madvise(tree.memory, pages * PAGE_BYTES, MADV_NOHUGEPAGE);
    tree.root = new_node(&tree, 1);
    load(&tree, records);
    printf("{\"nodes\": %zu, \"build_seconds\": %.6f}\n", pages - tree.pages, now_s() - began);
    fflush(stdout);
    double start = now_s();
    uint64_t sum = work(&tree, records, operations);
    printf("{\"operations\": %ld, \"seconds\": %.6f, \"checksum\": %lu}\n", operations,
           now_s() - start, sum & UINT32_MAX);
    return 0;
}
