/* The kernel in C: `pure.py` beside this file says what `match` and `Block` do, and gives the same
 * arrays; scan.c reads records of JSON. Ids are exactly str or exactly int, so that nothing here
 * runs code of a caller; where Python may run nevertheless (signals, and the garbage collector when an
 * iterator is made), no borrowed reference and no half-written row is kept. */
#include "matcher.h"

#define LARGEST_RANK 0x7fffffff

enum { HEAD = 5, BLOCK = 512, CHUNK = 64, PATIENCE = 1 << 16 };

/* See `RESERVED` and `MARKS` in events/rules.py. */
typedef enum { PLAIN, MARK, RESERVED } Meaning;

static inline Meaning meaning(const Matcher *matcher, PyObject *id) {
    if (matcher->sound) return PLAIN;
    if (matcher->kind == &PyLong_Type) {
        int beyond;
        long long number = PyLong_AsLongLongAndOverflow(id, &beyond);
        if (beyond || number > 1 || number < -100) return PLAIN;
        return number >= 0 ? MARK : number == -1 || number == -100 ? RESERVED : PLAIN;
    }
    Py_ssize_t length = PyUnicode_GetLength(id);
    if (length > 2) return PLAIN;
    if (length == 0) return RESERVED;
    Py_UCS4 first = PyUnicode_ReadChar(id, 0);
    if (length == 1) return first == '0' || first == '1' ? MARK : PLAIN;
    return first == '-' && PyUnicode_ReadChar(id, 1) == '1' ? RESERVED : PLAIN;
}

static inline Id id_of(PyObject *object) { return (Id){object, OBJECT, PyObject_Hash(object)}; }

static inline Id id_of_code(int64_t code) { return (Id){NULL, 0, code}; }

static Outcome take_interaction(Matcher *matcher, PyObject *id, double gain) {
    if (!Py_IS_TYPE(id, matcher->kind)) return REFUSED;
    Meaning what = meaning(matcher, id);
    if (what == RESERVED) return REFUSED;
    matcher->marks += what == MARK;
    put_slot(matcher, id_of(id), gain);
    return TAKEN;
}

typedef PyObject *(*GetItem)(PyObject *, Py_ssize_t);

/* What gives the items of a list or tuple, as borrowed references, and their number; else NULL. */
static GetItem item_getter(PyObject *ids, Py_ssize_t *size) {
    if (PyList_CheckExact(ids)) return *size = PyList_Size(ids), PyList_GetItem;
    if (PyTuple_CheckExact(ids)) return *size = PyTuple_Size(ids), PyTuple_GetItem;
    return NULL;
}

static Outcome take_sequence(Matcher *matcher, PyObject *ids, Py_ssize_t size, GetItem get) {
    if (begin_row(matcher, size)) return FAILED;
    for (Py_ssize_t at = 0; at < size; at++) {
        Outcome outcome = take_interaction(matcher, get(ids, at), 1.0);
        if (outcome != TAKEN) return outcome;
    }
    return size > 1 && matcher->marks == size ? REFUSED : TAKEN;
}

static Outcome take_set(Matcher *matcher, Py_ssize_t size, PyObject *iterator) {
    if (begin_row(matcher, size)) return FAILED;
    Outcome outcome = TAKEN;
    PyObject *id;
    while (size && outcome == TAKEN && (id = PyIter_Next(iterator))) {
        outcome = take_interaction(matcher, id, 1.0);
        Py_DECREF(id); /* The set has it. */
    }
    return PyErr_Occurred() ? FAILED : outcome;
}

/* A gain up to the largest; integers are compared with that one exactly. */
static int read_gain(PyObject *value, double *gain) {
    if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value)) return 0;
    *gain = PyFloat_AsDouble(value);
    if (PyErr_Occurred()) return PyErr_Clear(), 0; /* an integer beyond any double */
    if (*gain > -LARGEST_GAIN && *gain < LARGEST_GAIN) return 1;
    PyObject *rounded = PyFloat_FromDouble(*gain);
    int is_largest = rounded && (*gain == LARGEST_GAIN || *gain == -LARGEST_GAIN) &&
                     PyObject_RichCompareBool(value, rounded, Py_EQ) == 1;
    Py_XDECREF(rounded);
    return is_largest;
}

static Outcome take_gains(Matcher *matcher, PyObject *gains) {
    if (begin_row(matcher, PyDict_Size(gains))) return FAILED;
    matcher->is_graded = PyDict_Size(gains) > 0;
    PyObject *id, *value;
    Py_ssize_t at = 0;
    double gain;
    while (PyDict_Next(gains, &at, &id, &value)) {
        if (!read_gain(value, &gain)) return PyErr_Occurred() ? FAILED : REFUSED;
        Outcome outcome = take_interaction(matcher, id, gain);
        if (outcome != TAKEN) return outcome;
        if (append(&matcher->columns[GAINS], (Value){.real = gain})) return FAILED;
    }
    return TAKEN;
}

static int is_set(PyObject *ids) {
    return Py_IS_TYPE(ids, &PySet_Type) || Py_IS_TYPE(ids, &PyFrozenSet_Type);
}

static Outcome take_interactions(Matcher *matcher, PyObject *ids, PyObject *iterator) {
    if (PyDict_CheckExact(ids)) return take_gains(matcher, ids);
    if (is_set(ids)) return take_set(matcher, PySet_Size(ids), iterator);
    Py_ssize_t size;
    GetItem get = item_getter(ids, &size);
    return get ? take_sequence(matcher, ids, size, get) : REFUSED;
}

static Outcome look_at(Matcher *matcher, PyObject *id, Py_ssize_t place) {
    if (!Py_IS_TYPE(id, matcher->kind)) return REFUSED;
    if (meaning(matcher, id) == RESERVED) return REFUSED;
    if (!matcher->filter || place >= matcher->depth) return TAKEN;
    return look_up(matcher, id_of(id), place);
}

/* In chunks, so that their ids are on the way from memory before the first is looked at. */
static Outcome look_for_hits(Matcher *matcher, PyObject *shown, Py_ssize_t size, GetItem get) {
    PyObject *ids[CHUNK];
    matcher->work += size;
    for (Py_ssize_t start = 0; start < size; start += CHUNK) {
        Py_ssize_t count = size - start < CHUNK ? size - start : CHUNK;
        for (Py_ssize_t at = 0; at < count; at++) {
            ids[at] = get(shown, start + at);
            __builtin_prefetch(ids[at]);
        }
        for (Py_ssize_t at = 0; at < count; at++) {
            Outcome outcome = look_at(matcher, ids[at], start + at);
            if (outcome != TAKEN) return outcome;
        }
    }
    return TAKEN;
}

/* The explicit rank of each of `size` items. */
static Outcome take_ranks(Matcher *matcher, PyObject *ranks, Py_ssize_t size) {
    Py_ssize_t count;
    GetItem get = item_getter(ranks, &count);
    if (!get || count != size) return REFUSED;
    for (Py_ssize_t at = 0; at < size; at++) {
        PyObject *rank = get(ranks, at);
        if (!Py_IS_TYPE(rank, &PyLong_Type)) return REFUSED;
        int beyond;
        long long whole = PyLong_AsLongLongAndOverflow(rank, &beyond);
        if (beyond || whole < 1 || whole > LARGEST_RANK) return REFUSED;
        if (append_whole(matcher, RANKS, whole)) return FAILED;
    }
    return TAKEN;
}

/* What is given of a row; `ranks` may be NULL. */
typedef struct { PyObject *shown, *ids, *ranks; } Given;

/* `iterator`: of a set with ids. */
static Outcome read_row(Matcher *matcher, Given row, PyObject *iterator) {
    Py_ssize_t size;
    GetItem get = item_getter(row.shown, &size);
    Outcome outcome = get ? take_interactions(matcher, row.ids, iterator) : REFUSED;
    if (outcome == TAKEN) outcome = look_for_hits(matcher, row.shown, size, get);
    if (outcome == TAKEN && row.ranks) outcome = take_ranks(matcher, row.ranks, size);
    if (outcome != TAKEN) return outcome;
    return end_row(matcher, size < matcher->depth ? size : matcher->depth) ? FAILED : TAKEN;
}

/* A row that is refused, or for which memory does not suffice, leaves no trace. */
static Outcome match_row(Matcher *matcher, Given row) {
    PyObject *ids = row.ids, *iterator = NULL;
    if (is_set(ids) && PySet_Size(ids) && !(iterator = PyObject_GetIter(ids))) return FAILED;
    /* From here on nothing but this row changes the columns. */
    Py_ssize_t sizes[COLUMNS];
    for (int column = 0; column < COLUMNS; column++) sizes[column] = matcher->columns[column].size;
    Outcome outcome = read_row(matcher, row, iterator);
    for (int column = 0; column < COLUMNS && outcome != TAKEN; column++)
        matcher->columns[column].size = sizes[column];
    Py_XDECREF(iterator);
    return outcome;
}

static int set_kind(Matcher *matcher, const char *kind) {
    if (!strcmp(kind, "text")) matcher->kind = &PyUnicode_Type;
    if (!strcmp(kind, "integer")) matcher->kind = &PyLong_Type;
    if (!matcher->kind) PyErr_Format(PyExc_ValueError, "no kind of ids: %s", kind);
    return matcher->kind ? 0 : -1;
}

static int match_at(Matcher *matcher, PyObject *lists, PyObject *interactions, Py_ssize_t row) {
    PyObject *shown = PyList_GetItem(lists, row), *ids = PyList_GetItem(interactions, row);
    if (!shown || !ids) return -1;
    Outcome outcome = match_row(matcher, (Given){Py_NewRef(shown), Py_NewRef(ids), NULL});
    Py_DECREF(shown);
    Py_DECREF(ids);
    if (outcome != REFUSED) return outcome == FAILED ? -1 : 0;
    matcher->given = matcher->interacted = matcher->is_graded = 0;
    return append_whole(matcher, ODD, row) || end_row(matcher, 0);
}

static int match_all(Matcher *matcher, PyObject *lists, PyObject *interactions) {
    Py_ssize_t rows = PyList_Size(lists), others = PyList_Size(interactions);
    if (rows != others)
        PyErr_Format(PyExc_ValueError, "%zd lists and %zd interactions", rows, others);
    for (Py_ssize_t row = 0; row < rows && rows == others; row++) {
        if (match_at(matcher, lists, interactions, row)) return -1;
        if (matcher->work++ < PATIENCE) continue;
        if (PyErr_CheckSignals()) return -1;
        matcher->work = 0;
    }
    return rows == others ? 0 : -1;
}

static PyObject *match(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *lists, *interactions, *columns = NULL;
    const char *kind;
    Matcher matcher = {0};
    if (!PyArg_ParseTuple(arguments, "O!O!snpp", &PyList_Type, &lists, &PyList_Type, &interactions,
                          &kind, &matcher.depth, &matcher.every, &matcher.sound))
        return NULL;
    if (!set_kind(&matcher, kind) && !match_all(&matcher, lists, interactions))
        columns = take_columns(&matcher, MATCHED);
    release(&matcher);
    return columns;
}

/* Lists of 64-bit codes, one after the other, and where each begins. */
typedef struct { const int64_t *values, *offsets; Py_ssize_t entries, rows; } Lists;

static Lists lists_of(const Py_buffer *values, const Py_buffer *offsets) {
    Py_ssize_t size = (Py_ssize_t)sizeof(int64_t);
    return (Lists){values->buf, offsets->buf, values->len / size, offsets->len / size - 1};
}

/* Nothing is read beside the values, whatever the offsets are. */
static int is_sound(Lists lists) {
    if (lists.rows < 0 || lists.offsets[0] < 0) return 0;
    for (Py_ssize_t row = 0; row < lists.rows; row++)
        if (lists.offsets[row] > lists.offsets[row + 1]) return 0;
    return lists.offsets[lists.rows] <= lists.entries;
}

static int match_code_row(Matcher *matcher, Lists shown, Lists acts, Py_ssize_t row) {
    Py_ssize_t size = shown.offsets[row + 1] - shown.offsets[row];
    Py_ssize_t length = size < matcher->depth ? size : matcher->depth;
    const int64_t *items = shown.values + shown.offsets[row];
    if (begin_row(matcher, acts.offsets[row + 1] - acts.offsets[row])) return -1;
    for (int64_t at = acts.offsets[row]; at < acts.offsets[row + 1]; at++)
        put_slot(matcher, id_of_code(acts.values[at]), 1.0);
    for (Py_ssize_t place = 0; place < length && matcher->filter; place++)
        if (look_up(matcher, id_of_code(items[place]), place) == FAILED) return -1;
    matcher->work += size;
    return end_row(matcher, length);
}

static int match_code_rows(Matcher *matcher, Lists shown, Lists acts) {
    if (shown.rows != acts.rows || !is_sound(shown) || !is_sound(acts)) {
        const char *wrong = "%zd lists and %zd interactions, or offsets that fit no list";
        return PyErr_Format(PyExc_ValueError, wrong, shown.rows, acts.rows), -1;
    }
    for (Py_ssize_t row = 0; row < shown.rows; row++) {
        if (match_code_row(matcher, shown, acts, row)) return -1;
        if (matcher->work++ < PATIENCE) continue;
        if (PyErr_CheckSignals()) return -1;
        matcher->work = 0;
    }
    return 0;
}

static PyObject *match_codes(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_buffer given[4];
    PyObject *columns = NULL;
    Matcher matcher = {0};
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*np", &given[0], &given[1], &given[2], &given[3],
                          &matcher.depth, &matcher.every))
        return NULL;
    Lists shown = lists_of(&given[0], &given[1]), acts = lists_of(&given[2], &given[3]);
    if (!match_code_rows(&matcher, shown, acts)) columns = take_columns(&matcher, MATCHED);
    release(&matcher);
    for (int at = 0; at < 4; at++) PyBuffer_Release(&given[at]);
    return columns;
}

typedef struct {
    PyObject_HEAD
    Matcher matcher;
} Block;

static PyObject *block_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    Matcher matcher = {0};
    const char *kind;
    if (!PyArg_ParseTuple(arguments, "snp", &kind, &matcher.depth, &matcher.every)) return NULL;
    if (set_kind(&matcher, kind)) return NULL;
    Block *block = (Block *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (block) block->matcher = matcher;
    return (PyObject *)block;
}

static void block_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    release(&((Block *)self)->matcher);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static Py_ssize_t block_length(PyObject *self) {
    return ((Block *)self)->matcher.columns[LENGTH].size;
}

static PyObject *block_add(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count < 2 || count > 4)
        return PyErr_Format(PyExc_TypeError, "add takes two to four arguments, not %zd", count);
    if (block_length(self) >= BLOCK) Py_RETURN_FALSE;
    PyObject *ranks = count > 2 && arguments[2] != Py_None ? arguments[2] : NULL;
    ((Block *)self)->matcher.sound = count == 4 && arguments[3] == Py_True;
    Outcome outcome =
        match_row(&((Block *)self)->matcher, (Given){arguments[0], arguments[1], ranks});
    return outcome == FAILED ? NULL : PyBool_FromLong(outcome == TAKEN);
}

static PyObject *block_take(PyObject *self, PyObject *Py_UNUSED(ignored)) {
    return take_columns(&((Block *)self)->matcher, COLUMNS);
}

static void put(char **into, const Value *values, Py_ssize_t count) {
    if (count) memcpy(*into, values, (size_t)count * sizeof *values);
    *into += count * (Py_ssize_t)sizeof *values;
}

/* Where the values of one row begin in the columns, and how many there are. */
typedef struct { Py_ssize_t row, hit, hits, gain, gains, rank, ranks; } Span;

static PyObject *row_bytes(const Column *columns, Span at) {
    Value head[HEAD] = {columns[INTERACTED].values[at.row], columns[GIVEN].values[at.row],
                        columns[LENGTH].values[at.row], {.whole = at.hits}, {.whole = at.gains}};
    Py_ssize_t graded = at.gains ? at.hits + at.gains : 0;
    Py_ssize_t size = HEAD + 2 * at.hits + graded + at.ranks;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, size * (Py_ssize_t)sizeof *head);
    if (!bytes) return NULL;
    char *into = PyBytes_AsString(bytes);
    put(&into, head, HEAD);
    put(&into, columns[PLACE].values + at.hit, at.hits);
    put(&into, columns[ITEM].values + at.hit, at.hits);
    put(&into, columns[GAIN].values + at.hit, at.gains ? at.hits : 0);
    put(&into, columns[GAINS].values + at.gain, at.gains);
    put(&into, columns[RANKS].values + at.rank, at.ranks);
    return bytes;
}

/* The index of the first value from `start` on, of values that ascend. */
static Py_ssize_t first_from(const Column *column, Py_ssize_t start) {
    Py_ssize_t at = column->size;
    while (at && column->values[at - 1].whole >= start) at--;
    return at;
}

static Py_ssize_t sum_from(const Column *column, Py_ssize_t start) {
    Py_ssize_t sum = 0;
    for (Py_ssize_t at = start; at < column->size; at++) sum += column->values[at].whole;
    return sum;
}

/* The rows from `start` on, which stay in the block; see `Block.rows` in pure.py. */
static PyObject *block_rows(PyObject *self, PyObject *argument) {
    Py_ssize_t start = PyLong_AsSsize_t(argument);
    if (start < 0) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "start < 0");
    PyObject *rows = PyList_New(0); /* First: neither bytes nor what follows runs other code. */
    const Column *columns = ((Block *)self)->matcher.columns, *graded = &columns[GRADED];
    Span at = {.row = start, .hit = first_from(&columns[OWNER], start)};
    Py_ssize_t next = first_from(graded, start), is_ranked = columns[RANKS].size > 0;
    at.gain = columns[GAINS].size;
    for (Py_ssize_t of = next; of < graded->size; of++)
        at.gain -= columns[INTERACTED].values[graded->values[of].whole].whole;
    at.rank = is_ranked ? columns[RANKS].size - sum_from(&columns[LENGTH], start) : 0;
    for (; rows && at.row < columns[LENGTH].size; at.row++) {
        int is_graded = next < graded->size && graded->values[next].whole == at.row;
        at.gains = is_graded ? columns[INTERACTED].values[at.row].whole : 0;
        at.ranks = is_ranked ? columns[LENGTH].values[at.row].whole : 0;
        for (at.hits = 0; at.hit + at.hits < columns[OWNER].size; at.hits++)
            if (columns[OWNER].values[at.hit + at.hits].whole != at.row) break;
        PyObject *bytes = row_bytes(columns, at);
        if (!bytes || PyList_Append(rows, bytes)) Py_CLEAR(rows);
        Py_XDECREF(bytes);
        next += is_graded;
        at.hit += at.hits;
        at.gain += at.gains;
        at.rank += at.ranks;
    }
    return rows;
}

static PyMethodDef block_methods[] = {
    {"add", (PyCFunction)(void (*)(void))block_add, METH_FASTCALL, NULL},
    {"take", block_take, METH_NOARGS, NULL},
    {"rows", block_rows, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot block_slots[] = {
    {Py_tp_new, block_new},         {Py_tp_dealloc, block_dealloc}, {Py_sq_length, block_length},
    {Py_tp_methods, block_methods}, {0, NULL},
};
static PyType_Spec block_spec = {
    "streameval.statistics.kernel._match.Block", sizeof(Block), 0, Py_TPFLAGS_DEFAULT, block_slots,
};

static int add_block(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &block_spec, NULL);
    int failed = !type || PyModule_AddType(module, (PyTypeObject *)type);
    Py_XDECREF(type);
    if (failed || add_scanner(module)) return -1;
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyMethodDef functions[] = {
    {"match", match, METH_VARARGS, NULL},
    {"match_codes", match_codes, METH_VARARGS, NULL},
    {"lines_of", lines_of, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_block}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_match", .m_methods = functions, .m_slots = slots,
};

PyMODINIT_FUNC PyInit__match(void) { return PyModuleDef_Init(&definition); }
