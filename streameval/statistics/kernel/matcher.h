/* What both files of the kernel share: columns of numbers, and the table of a row's interactions
 * in which its list is searched for hits. */
#ifndef STREAMEVAL_MATCHER_H
#define STREAMEVAL_MATCHER_H
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* In scan.c. */
int add_scanner(PyObject *module);
PyObject *lines_of(PyObject *module, PyObject *arguments);

/* Raised with every change of what Python sees; a kernel of another number is not used. */
#define INTERFACE 8
#define LARGEST_GAIN 0x1p1000

enum { COLUMNS = 11, MATCHED = 10, FEWEST = 64, FEWEST_BITS = 5 };
enum { ODD, INTERACTED, GIVEN, LENGTH, OWNER, PLACE, ITEM, GAIN, GRADED, GAINS, RANKS };

/* What became of a row. */
typedef enum { TAKEN, REFUSED, FAILED } Outcome;

typedef union { int64_t whole; double real; } Value;

typedef struct {
    Value *values;
    Py_ssize_t size, capacity;
} Column;

/* An id: a Python object, whose size is `OBJECT`; text of this size; or a code, of size 0, which is
 * its own hash. Somebody else owns what `of` points to. */
enum { OBJECT = -1 };
typedef struct {
    const void *of;
    Py_ssize_t size;
    int64_t hash;
} Id;

/* An interaction of the row, if its stamp is the row's. */
typedef struct {
    Id id;
    int64_t stamp, item; /* item: -1 before the first hit */
    double gain;
} Slot;

typedef struct {
    PyTypeObject *kind;
    Py_ssize_t depth;
    int every, sound, is_graded;
    Column columns[COLUMNS];
    Slot *slots;
    int bits, most_bits; /* this row uses 2 ** bits slots of 2 ** most_bits */
    int64_t stamp;
    uint64_t filter; /* a bit for each interaction of the row: most items shown need no look */
    int64_t given, interacted, marks, hits;
    Py_ssize_t work; /* since signals were looked for */
} Matcher;

static inline int grow(Column *column) {
    Py_ssize_t capacity = column->capacity ? column->capacity * 2 : FEWEST;
    Value *values = PyMem_Realloc(column->values, (size_t)capacity * sizeof *values);
    if (!values) return PyErr_NoMemory(), -1;
    column->values = values;
    column->capacity = capacity;
    return 0;
}

static inline int append(Column *column, Value value) {
    if (column->size == column->capacity && grow(column)) return -1;
    column->values[column->size++] = value;
    return 0;
}

static inline int append_whole(Matcher *matcher, int column, int64_t whole) {
    return append(&matcher->columns[column], (Value){.whole = whole});
}

static inline void release(Matcher *matcher) {
    for (int column = 0; column < COLUMNS; column++) {
        PyMem_Free(matcher->columns[column].values);
        matcher->columns[column] = (Column){0};
    }
    PyMem_Free(matcher->slots);
    matcher->slots = NULL;
    matcher->most_bits = 0;
}

static inline int begin_row(Matcher *matcher, Py_ssize_t interactions) {
    matcher->bits = FEWEST_BITS;
    while ((Py_ssize_t)1 << (matcher->bits - 1) < interactions) matcher->bits++;
    if (matcher->bits > matcher->most_bits) {
        PyMem_Free(matcher->slots);
        matcher->slots = PyMem_Calloc((size_t)1 << matcher->bits, sizeof *matcher->slots);
        matcher->most_bits = matcher->slots ? matcher->bits : 0;
        if (!matcher->slots) return PyErr_NoMemory(), -1;
    }
    matcher->stamp++;
    matcher->filter = 0;
    matcher->given = matcher->interacted = matcher->marks = matcher->hits = 0;
    matcher->is_graded = 0;
    return 0;
}

static inline uint64_t mix(int64_t hash) { return (uint64_t)hash * 0x9E3779B97F4A7C15u; }

static inline int is_same(Id one, Id other) {
    if (one.hash != other.hash || one.size != other.size) return 0;
    if (one.size != OBJECT) return !one.size || !memcmp(one.of, other.of, (size_t)one.size);
    return PyObject_RichCompareBool((PyObject *)one.of, (PyObject *)other.of, Py_EQ) == 1;
}

/* The slot of an id, or a free one. */
static inline Slot *find(const Matcher *matcher, Id id, uint64_t mixed) {
    size_t last = ((size_t)1 << matcher->bits) - 1, at = (size_t)(mixed >> (64 - matcher->bits));
    for (Slot *slot;; at = (at + 1) & last) {
        slot = &matcher->slots[at];
        if (slot->stamp != matcher->stamp || is_same(slot->id, id)) return slot;
    }
}

static inline void put_slot(Matcher *matcher, Id id, double gain) {
    uint64_t mixed = mix(id.hash);
    Slot *slot = find(matcher, id, mixed);
    matcher->given++;
    if (slot->stamp == matcher->stamp) return;
    *slot = (Slot){.id = id, .stamp = matcher->stamp, .item = -1, .gain = gain};
    matcher->filter |= (uint64_t)1 << (mixed >> 58);
    matcher->interacted++;
}

static inline int append_hit(Matcher *matcher, Slot *slot, Py_ssize_t place) {
    if (slot->item < 0) slot->item = matcher->hits++;
    int64_t row = matcher->columns[LENGTH].size;
    return append_whole(matcher, OWNER, row) || append_whole(matcher, PLACE, place) ||
           append_whole(matcher, ITEM, slot->item) ||
           append(&matcher->columns[GAIN], (Value){.real = slot->gain});
}

static inline Outcome look_up(Matcher *matcher, Id id, Py_ssize_t place) {
    uint64_t mixed = mix(id.hash);
    if (!(matcher->filter >> (mixed >> 58) & 1)) return TAKEN;
    Slot *slot = find(matcher, id, mixed);
    if (slot->stamp != matcher->stamp || (slot->item >= 0 && !matcher->every)) return TAKEN;
    return append_hit(matcher, slot, place) ? FAILED : TAKEN;
}

static inline int end_row(Matcher *matcher, Py_ssize_t length) {
    int64_t row = matcher->columns[LENGTH].size;
    if (matcher->is_graded && append_whole(matcher, GRADED, row)) return -1;
    return append_whole(matcher, INTERACTED, matcher->interacted) ||
           append_whole(matcher, GIVEN, matcher->given) || append_whole(matcher, LENGTH, length);
}

/* The first columns as bytes; all are empty afterwards. */
static inline PyObject *take_columns(Matcher *matcher, int count) {
    PyObject *columns = PyTuple_New(count);
    if (!matcher->columns[GRADED].size) matcher->columns[GAIN].size = 0; /* all are 1 */
    for (int column = 0; columns && column < count; column++) {
        Column *values = &matcher->columns[column];
        Py_ssize_t size = values->size * (Py_ssize_t)sizeof(Value);
        PyObject *bytes = PyBytes_FromStringAndSize((char *)values->values, size);
        if (!bytes || PyTuple_SetItem(columns, column, bytes)) Py_CLEAR(columns);
    }
    if (columns) release(matcher);
    return columns;
}

#endif
