/* Reads records of JSON into columns, without a Python object for each record.
 *
 * The decoder (streameval/decoding) says what a record means. This file reads the plain ones only:
 * it refuses every record that it is not sure of, and the decoder reads those. Records come from
 * the public: nothing is read outside of their bytes, no nesting is followed deeper than `DEEPEST`,
 * and hashes have a seed.
 *
 * It keeps the GIL: a call takes a fraction of a millisecond, and whoever has let it go may wait
 * for five until another thread gives it back. So nothing that a record is made of changes. */
#include "matcher.h"

enum { SHOWN, ACTS, ACT_GAINS, TIME, USER, EVENT_ID, LABELS, MOST_FIELDS = 32 };
enum { MOST_ID = 1024, MOST_LABEL = 256, MOST_DIGITS = 18, DEEPEST = 16 };
typedef enum { NO_TIME, SECONDS, MILLISECONDS, MICROSECONDS, MOMENTS } Unit;

/* Event times end far inside those that the decoder takes: 2^37 seconds, the year 6325. */
#define END_SECOND ((int64_t)1 << 37)
#define MILLION ((int64_t)1000000)

static const int64_t POWERS[] = {1,      10,      100,      1000,      10000,
                                 100000, 1000000, 10000000, 100000000, 1000000000};

typedef struct { const uint8_t *at, *end; } Cursor;

/* Text or a number as written; `at` is NULL if the field is absent or null. */
typedef struct {
    const uint8_t *at;
    Py_ssize_t size;
} Token;

typedef struct {
    Token *tokens;
    Py_ssize_t size, capacity;
} Tokens;

/* Distinct texts, and a column with the number of one of them for each that was added. */
typedef struct {
    Tokens names;
    Column column;
    int64_t *buckets; /* number of a name, or -1 */
    size_t count;
} Codes;

typedef struct {
    PyObject_HEAD
    PyObject *names; /* owns the text of the fields */
    Token fields[MOST_FIELDS];
    uint64_t needed; /* a bit for each field that every record has */
    int count, are_text, every;
    Unit unit;
    Py_ssize_t depth, most_shown, most_acts;
} Scanner;

typedef struct {
    const Scanner *scanner;
    Matcher matcher;
    /* Of the record that is read. */
    Tokens shown, acts;
    Column gains;
    Token values[MOST_FIELDS];
    int64_t time, marks;
    int has_gains;
    /* Of all records. */
    Column times;
    Codes codes[MOST_FIELDS]; /* of the items shown, of users, event ids and labels */
} Scan;

static int add_token(Tokens *tokens, Token token) {
    if (tokens->size == tokens->capacity) {
        Py_ssize_t capacity = tokens->capacity ? tokens->capacity * 2 : FEWEST;
        Token *more = PyMem_Realloc(tokens->tokens, (size_t)capacity * sizeof *more);
        if (!more) return PyErr_NoMemory(), -1;
        tokens->tokens = more;
        tokens->capacity = capacity;
    }
    tokens->tokens[tokens->size++] = token;
    return 0;
}

/* JSON: every function moves the cursor behind what it has read. Those that return an int say
 * whether it was there. */

static inline void skip_blanks(Cursor *cursor) {
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\n' ||
                                        *cursor->at == '\t' || *cursor->at == '\r'))
        cursor->at++;
}

static inline int is_next(const Cursor *cursor, uint8_t byte) {
    return cursor->at < cursor->end && *cursor->at == byte;
}

static inline int take(Cursor *cursor, uint8_t byte) {
    return is_next(cursor, byte) ? cursor->at++, 1 : 0;
}

static int take_word(Cursor *cursor, const char *word) {
    size_t size = strlen(word);
    if ((size_t)(cursor->end - cursor->at) < size || memcmp(cursor->at, word, size)) return 0;
    cursor->at += size;
    return 1;
}

/* A character of several bytes, in the shortest form, and no half of a pair of UTF-16. */
static int take_character(Cursor *cursor) {
    const uint8_t *at = cursor->at;
    uint8_t first = *at, low = 0x80, high = 0xBF;
    int more = first >= 0xC2 && first <= 0xDF ? 1 : first >= 0xE0 && first <= 0xEF ? 2 : 3;
    if (first < 0xC2 || first > 0xF4 || cursor->end - at <= more) return 0;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
    if (at[1] < low || at[1] > high) return 0;
    for (int next = 2; next <= more; next++)
        if ((at[next] & 0xC0) != 0x80) return 0;
    cursor->at += more + 1;
    return 1;
}

/* A bit in each byte of eight that is no plain character of a text; the lowest one is right. */
static inline uint64_t strange_bytes(uint64_t word) {
    const uint64_t ones = 0x0101010101010101u, tops = ones << 7;
    uint64_t quote = word ^ (ones * '"'), escape = word ^ (ones * '\\');
    uint64_t found = (quote - ones) & ~quote;
    found |= (escape - ones) & ~escape;
    found |= (word - ones * 0x20) | word;
    return found & tops;
}

static inline void skip_plain(Cursor *cursor) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    while (cursor->end - cursor->at >= 8) {
        uint64_t word;
        memcpy(&word, cursor->at, sizeof word);
        uint64_t strange = strange_bytes(word);
        if (strange) {
            cursor->at += __builtin_ctzll(strange) / 8;
            return;
        }
        cursor->at += 8;
    }
#endif
    while (cursor->at < cursor->end && *cursor->at >= 0x20 && *cursor->at < 0x80 &&
           *cursor->at != '"' && *cursor->at != '\\')
        cursor->at++;
}

/* Behind the quote at the end of a text; escapes only where nobody reads it. */
static inline int skip_text(Cursor *cursor, int with_escapes) {
    for (;;) {
        skip_plain(cursor);
        if (cursor->at == cursor->end) return 0;
        uint8_t byte = *cursor->at;
        if (byte == '"') return cursor->at++, 1;
        if (byte >= 0x80) {
            if (!take_character(cursor)) return 0;
        } else {
            if (byte != '\\' || !with_escapes || cursor->end - cursor->at < 2) return 0;
            if (!cursor->at[1] || !strchr("\"\\/bfnrt", cursor->at[1])) return 0;
            cursor->at += 2;
        }
    }
}

static inline int read_text(Cursor *cursor, Token *token) {
    if (!take(cursor, '"')) return 0;
    token->at = cursor->at;
    if (!skip_text(cursor, 0)) return 0;
    token->size = cursor->at - 1 - token->at;
    return 1;
}

/* Some digits; their number is 0 if there are more than `MOST_DIGITS`. */
static inline int read_digits(Cursor *cursor, int64_t *number) {
    int digits = 0;
    for (*number = 0; cursor->at < cursor->end; cursor->at++, digits++) {
        uint8_t digit = (uint8_t)(*cursor->at - '0');
        if (digit > 9) break;
        if (digits == MOST_DIGITS) return 0;
        *number = *number * 10 + digit;
    }
    return digits;
}

/* A whole number, or the part of a number before its point; not -0, which is another real. */
static inline int read_whole(Cursor *cursor, Token *token, int64_t *number) {
    token->at = cursor->at;
    int is_negative = take(cursor, '-');
    const uint8_t *first = cursor->at;
    int digits = read_digits(cursor, number);
    if (!digits || (*first == '0' && (digits > 1 || is_negative))) return 0;
    if (is_negative) *number = -*number;
    token->size = cursor->at - token->at;
    return 1;
}

/* A number without an exponent: `digits` after its point, `size` bytes in all but for the point. */
typedef struct {
    int64_t whole, fraction;
    int digits, size, is_negative;
} Decimal;

static inline int read_fraction(Cursor *cursor, Decimal *number) {
    number->fraction = number->digits = 0;
    return !take(cursor, '.') || (number->digits = read_digits(cursor, &number->fraction)) > 0;
}

static inline int read_decimal(Cursor *cursor, Decimal *number) {
    Token token;
    number->is_negative = is_next(cursor, '-');
    if (!read_whole(cursor, &token, &number->whole) || !read_fraction(cursor, number)) return 0;
    number->size = (int)token.size + number->digits;
    return 1;
}

/* A value that nobody reads, in a form that every reader of JSON takes. */
static int skip_value(Cursor *cursor, int depth) {
    Decimal number;
    if (!depth || cursor->at == cursor->end) return 0;
    if (take(cursor, '"')) return skip_text(cursor, 1);
    if (take_word(cursor, "null") || take_word(cursor, "true")) return 1;
    if (take_word(cursor, "false")) return 1;
    int is_object = is_next(cursor, '{');
    if (!is_object && !is_next(cursor, '['))
        return read_decimal(cursor, &number) && !is_next(cursor, 'e') && !is_next(cursor, 'E');
    uint8_t end = is_object ? '}' : ']';
    cursor->at++;
    skip_blanks(cursor);
    if (take(cursor, end)) return 1;
    do {
        skip_blanks(cursor);
        if (is_object) {
            if (!take(cursor, '"') || !skip_text(cursor, 1)) return 0;
            skip_blanks(cursor);
            if (!take(cursor, ':')) return 0;
            skip_blanks(cursor);
        }
        if (!skip_value(cursor, depth - 1)) return 0;
        skip_blanks(cursor);
    } while (take(cursor, ','));
    return take(cursor, end);
}

/* Fields. */

static inline int is_mark(Token token) {
    return token.size == 1 && (*token.at == '0' || *token.at == '1');
}

/* A text, or a whole number as the text that JSON has for it. What ends lists, and what losses
 * ignore, is for the decoder: see `RESERVED` in events/rules.py. */
static inline int read_id(const Scan *scan, Cursor *cursor, Token *token) {
    int64_t number;
    if (is_next(cursor, '"')) {
        if (!scan->scanner->are_text || !read_text(cursor, token)) return 0;
        if (!token->size || token->size > MOST_ID) return 0;
        return token->size != 2 || memcmp(token->at, "-1", 2);
    }
    return read_whole(cursor, token, &number) && number != -1 && number != -100;
}

/* Refused beyond `most` items. */
static Outcome read_list(Scan *scan, Cursor *cursor, Tokens *items, Py_ssize_t most) {
    Token token;
    items->size = 0;
    if (!take(cursor, '[')) return REFUSED;
    skip_blanks(cursor);
    if (take(cursor, ']')) return TAKEN;
    do {
        skip_blanks(cursor);
        if (items->size == most || !read_id(scan, cursor, &token)) return REFUSED;
        if (add_token(items, token)) return FAILED;
        skip_blanks(cursor);
    } while (take(cursor, ','));
    return take(cursor, ']') ? TAKEN : REFUSED;
}

/* The nearest real, which one division gives of an integer and a power of ten that are exact. */
static inline int read_gain(Cursor *cursor, double *gain) {
    Decimal number;
    if (!read_decimal(cursor, &number) || number.size > 15 || number.digits > 9) return 0;
    int64_t power = POWERS[number.digits], fraction = number.fraction;
    int64_t scaled = number.whole * power + (number.is_negative ? -fraction : fraction);
    *gain = (double)scaled / (double)power;
    return 1;
}

static Outcome read_gains(Scan *scan, Cursor *cursor) {
    Token token;
    double gain;
    scan->gains.size = scan->acts.size = 0;
    cursor->at++;
    skip_blanks(cursor);
    if (take(cursor, '}')) return TAKEN;
    do {
        skip_blanks(cursor);
        if (scan->acts.size == scan->scanner->most_acts || !is_next(cursor, '"')) return REFUSED;
        if (!read_id(scan, cursor, &token)) return REFUSED;
        skip_blanks(cursor);
        if (!take(cursor, ':')) return REFUSED;
        skip_blanks(cursor);
        if (!read_gain(cursor, &gain)) return REFUSED;
        if (add_token(&scan->acts, token)) return FAILED;
        if (append(&scan->gains, (Value){.real = gain})) return FAILED;
        skip_blanks(cursor);
    } while (take(cursor, ','));
    return take(cursor, '}') ? TAKEN : REFUSED;
}

/* Seconds as microseconds. The decoder rounds the nearest double to microseconds. In 1987 to 2106
 * doubles are closer than half a microsecond: those of six decimals are told apart, and seven
 * decimals of a double determine its rounding. Elsewhere 15 digits are told apart. */
static int read_seconds(Cursor *cursor, int64_t *time) {
    Decimal number;
    if (!read_decimal(cursor, &number) || number.is_negative) return 0;
    int digits = number.digits, is_recent = number.whole >> 29 && !(number.whole >> 32);
    if (number.whole >= END_SECOND || digits > 9) return 0;
    *time = number.whole * MILLION;
    if (digits <= 6) *time += number.fraction * POWERS[6 - digits];
    if (digits <= 6 || !is_recent) return digits <= 6 && (is_recent || number.size <= 15);
    /* The fraction of the nearest double, in units of its last bit; halves go to the even one. */
    int bits = number.whole >> 31 ? 21 : number.whole >> 30 ? 22 : 23;
    int64_t scaled = number.fraction << bits, steps = scaled / POWERS[digits];
    int64_t twice = 2 * (scaled % POWERS[digits]);
    steps += twice > POWERS[digits] || (twice == POWERS[digits] && steps & 1);
    /* Its seven decimals, rounded to six. */
    int64_t product = steps * POWERS[7], half = (int64_t)1 << (bits - 1);
    if ((product & (2 * half - 1)) == half) return 0;
    int64_t tenths = (product + half) >> bits, micros = tenths / 10, rest = tenths % 10;
    *time += micros + (rest > 5 || (rest == 5 && micros & 1));
    return 1;
}

/* So many digits. */
static int read_part(Cursor *cursor, int digits, int64_t *number) {
    if (cursor->end - cursor->at < digits) return 0;
    Cursor part = {cursor->at, cursor->at + digits};
    cursor->at = part.end;
    return read_digits(&part, number) == digits;
}

/* "2023-11-14T22:13:20.123456+01:00" or with a Z, as microseconds. */
static int read_moment(Cursor *cursor, int64_t *time) {
    static const int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t parts[6], hours, minutes, offset = 0;
    Decimal second;
    Token text;
    if (!read_text(cursor, &text)) return 0;
    Cursor at = {text.at, text.at + text.size};
    for (int part = 0; part < 6; part++) {
        if (!read_part(&at, part ? 2 : 4, &parts[part])) return 0;
        if (part < 5 && !take(&at, "--T::"[part])) return 0;
    }
    int64_t year = parts[0], month = parts[1], day = parts[2];
    int is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (year < 1970 || year > 6000 || month < 1 || month > 12 || day < 1) return 0;
    if (day > DAYS[month - 1] + (month == 2 && is_leap) || parts[3] > 23 || parts[4] > 59) return 0;
    if (parts[5] > 59 || !read_fraction(&at, &second) || second.digits > 6) return 0;
    if (!take(&at, 'Z')) {
        int is_west = is_next(&at, '-');
        if (!is_west && !is_next(&at, '+')) return 0;
        at.at++;
        if (!read_part(&at, 2, &hours) || !take(&at, ':') || !read_part(&at, 2, &minutes)) return 0;
        if (hours > 23 || minutes > 59 || (is_west && !hours && !minutes)) return 0;
        offset = (hours * 60 + minutes) * (is_west ? -60 : 60);
    }
    /* Days since the epoch, of a year that begins in March. */
    int64_t march = year - (month <= 2), leaps = march / 4 - march / 100 + march / 400;
    int64_t days = 365 * march + leaps + (153 * ((month + 9) % 12) + 2) / 5 + day - 719469;
    int64_t seconds = ((days * 24 + parts[3]) * 60 + parts[4]) * 60 + parts[5] - offset;
    *time = seconds * MILLION + second.fraction * POWERS[6 - second.digits];
    return at.at == at.end && seconds >= 0;
}

static int read_time(Scan *scan, Cursor *cursor) {
    Token token;
    Unit unit = scan->scanner->unit;
    if (unit == SECONDS) return read_seconds(cursor, &scan->time);
    if (unit == MOMENTS) return read_moment(cursor, &scan->time);
    int64_t scale = unit == MILLISECONDS ? 1000 : 1, end = END_SECOND * (MILLION / scale), number;
    if (!read_whole(cursor, &token, &number) || number < 0 || number >= end) return 0;
    scan->time = number * scale;
    return 1;
}

/* A user, an id of an event or a label: a text or a whole number; a label may be true or false. */
static int read_name(Cursor *cursor, int field, Token *token) {
    static const uint8_t TRUE[] = "true", FALSE[] = "false";
    int64_t number;
    if (is_next(cursor, '"'))
        return read_text(cursor, token) && token->size <= (field < LABELS ? MOST_ID : MOST_LABEL) &&
               (token->size || field != EVENT_ID);
    if (field != EVENT_ID && take_word(cursor, "null")) return 1;
    if (field >= LABELS && take_word(cursor, "true")) return *token = (Token){TRUE, 4}, 1;
    if (field >= LABELS && take_word(cursor, "false")) return *token = (Token){FALSE, 5}, 1;
    return read_whole(cursor, token, &number);
}

static Outcome read_field(Scan *scan, Cursor *cursor, int field) {
    const Scanner *scanner = scan->scanner;
    if (field == SHOWN) return read_list(scan, cursor, &scan->shown, scanner->most_shown);
    if (field == ACTS) {
        scan->has_gains = is_next(cursor, '{');
        if (!scan->has_gains) return read_list(scan, cursor, &scan->acts, scanner->most_acts);
        /* Keys are text. */
        return scanner->are_text ? read_gains(scan, cursor) : REFUSED;
    }
    /* The decoder pairs gains in a list of their own with their ids. */
    if (field == ACT_GAINS) return REFUSED;
    if (field == TIME) return read_time(scan, cursor) ? TAKEN : REFUSED;
    return read_name(cursor, field, &scan->values[field]) ? TAKEN : REFUSED;
}

static inline int is_same_text(Token one, Token other) {
    return one.size == other.size && (!one.size || !memcmp(one.at, other.at, (size_t)one.size));
}

/* The field of a name, or -1. */
static inline int field_named(const Scanner *scanner, Token name) {
    for (int field = 0; field < scanner->count; field++)
        if (scanner->fields[field].at && is_same_text(scanner->fields[field], name)) return field;
    return -1;
}

/* The fields of a record; one that is there twice is for the decoder. */
static Outcome read_record(Scan *scan, Cursor *cursor) {
    uint64_t seen = 0, needed = scan->scanner->needed;
    Token name;
    memset(scan->values, 0, sizeof scan->values);
    skip_blanks(cursor);
    if (!take(cursor, '{')) return REFUSED;
    do {
        skip_blanks(cursor);
        if (!read_text(cursor, &name)) return REFUSED;
        skip_blanks(cursor);
        if (!take(cursor, ':')) return REFUSED;
        skip_blanks(cursor);
        int field = field_named(scan->scanner, name);
        if (field >= 0) {
            if (seen >> field & 1) return REFUSED;
            seen |= (uint64_t)1 << field;
            Outcome outcome = read_field(scan, cursor, field);
            if (outcome != TAKEN) return outcome;
        } else if (!skip_value(cursor, DEEPEST)) {
            return REFUSED;
        }
        skip_blanks(cursor);
    } while (take(cursor, ','));
    if (!take(cursor, '}')) return REFUSED;
    skip_blanks(cursor);
    return cursor->at == cursor->end && (seen & needed) == needed ? TAKEN : REFUSED;
}

/* Hashes of texts, by secrets of this process: nobody can choose ids that collide. */

static uint64_t secrets[2];

static inline uint64_t scattered(uint64_t word) {
    word = (word ^ word >> 32) * 0xD6E8FEB86659FD93u;
    word = (word ^ word >> 32) * 0xD6E8FEB86659FD93u;
    return word ^ word >> 32;
}

static inline Id id_of_text(Token text) {
    const uint8_t *at = text.at;
    size_t size = (size_t)text.size;
    uint64_t first = 0, last = 0, hash = secrets[0] ^ size;
    if (size >= 8) {
        for (; size > 16; size -= 8, at += 8) {
            memcpy(&first, at, 8);
            hash = scattered(hash ^ first);
        }
        memcpy(&first, at, 8);
        memcpy(&last, at + size - 8, 8);
    } else if (size >= 4) {
        memcpy(&first, at, 4);
        memcpy(&last, at + size - 4, 4);
    } else if (size) {
        first = at[0];
        last = (uint64_t)at[size / 2] << 8 | at[size - 1];
    }
    hash = scattered(scattered(hash ^ first) ^ last ^ secrets[1]);
    return (Id){text.at, text.size, (int64_t)hash};
}

static Outcome match_record(Scan *scan) {
    Matcher *matcher = &scan->matcher;
    const Tokens *shown = &scan->shown, *acts = &scan->acts;
    Py_ssize_t length = shown->size < matcher->depth ? shown->size : matcher->depth;
    int64_t marks = 0;
    if (begin_row(matcher, acts->size)) return FAILED;
    for (Py_ssize_t at = 0; at < acts->size; at++) {
        marks += is_mark(acts->tokens[at]);
        double gain = scan->has_gains ? scan->gains.values[at].real : 1.0;
        put_slot(matcher, id_of_text(acts->tokens[at]), gain);
    }
    if (scan->has_gains ? matcher->interacted < acts->size : acts->size > 1 && marks == acts->size)
        return REFUSED;
    matcher->is_graded = scan->has_gains && acts->size;
    for (Py_ssize_t at = 0; at < acts->size && scan->has_gains; at++)
        if (append(&matcher->columns[GAINS], scan->gains.values[at])) return FAILED;
    for (Py_ssize_t at = 0; at < length && matcher->filter; at++)
        if (look_up(matcher, id_of_text(shown->tokens[at]), at) == FAILED) return FAILED;
    return end_row(matcher, length) ? FAILED : TAKEN;
}

/* Where a name is, or a free bucket. */
static int64_t *bucket_of(const Codes *codes, Token name) {
    size_t at = (size_t)id_of_text(name).hash & (codes->count - 1);
    while (codes->buckets[at] >= 0 && !is_same_text(codes->names.tokens[codes->buckets[at]], name))
        at = (at + 1) & (codes->count - 1);
    return &codes->buckets[at];
}

static int grow_codes(Codes *codes) {
    size_t count = codes->count ? codes->count * 4 : FEWEST;
    int64_t *buckets = PyMem_Realloc(codes->buckets, count * sizeof *buckets);
    if (!buckets) return PyErr_NoMemory(), -1;
    memset(buckets, 0xff, count * sizeof *buckets);
    codes->buckets = buckets;
    codes->count = count;
    for (Py_ssize_t at = 0; at < codes->names.size; at++)
        *bucket_of(codes, codes->names.tokens[at]) = at;
    return 0;
}

static int add_code(Codes *codes, Token name) {
    if (2 * (size_t)codes->names.size >= codes->count && grow_codes(codes)) return -1;
    int64_t *bucket = bucket_of(codes, name);
    if (*bucket < 0) {
        if (add_token(&codes->names, name)) return -1;
        *bucket = codes->names.size - 1;
    }
    return append(&codes->column, (Value){.whole = *bucket});
}

/* A record that was matched. */
static int add_row(Scan *scan) {
    const Scanner *scanner = scan->scanner;
    for (int field = USER; field < scanner->count; field++)
        if (add_code(&scan->codes[field], scan->values[field])) return -1;
    return scanner->unit ? append(&scan->times, (Value){.whole = scan->time}) : 0;
}

/* The items shown alone. */
static int add_items(Scan *scan) {
    for (Py_ssize_t at = 0; at < scan->shown.size; at++)
        if (add_code(&scan->codes[SHOWN], scan->shown.tokens[at])) return -1;
    return append_whole(&scan->matcher, LENGTH, scan->shown.size);
}

static int scan_bytes(Scan *scan, Cursor record, Py_ssize_t place, int are_items) {
    Outcome outcome = read_record(scan, &record);
    if (outcome == TAKEN && !are_items) outcome = match_record(scan);
    if (outcome == TAKEN) return are_items ? add_items(scan) : add_row(scan);
    return outcome == FAILED ? -1 : append_whole(&scan->matcher, ODD, place);
}

static int scan_value(Scan *scan, PyObject *value, Py_ssize_t place, int are_items) {
    if (!PyBytes_CheckExact(value)) return append_whole(&scan->matcher, ODD, place);
    const uint8_t *bytes = (const uint8_t *)PyBytes_AsString(value);
    return scan_bytes(scan, (Cursor){bytes, bytes + PyBytes_Size(value)}, place, are_items);
}

/* Texts as Python's; an empty or absent one is None. */
static PyObject *texts_of(const Tokens *tokens) {
    PyObject *texts = PyList_New(tokens->size);
    for (Py_ssize_t at = 0; texts && at < tokens->size; at++) {
        Token token = tokens->tokens[at];
        PyObject *text = token.size ? PyUnicode_DecodeUTF8((const char *)token.at, token.size, NULL)
                                    : Py_NewRef(Py_None);
        if (!text || PyList_SetItem(texts, at, text)) Py_CLEAR(texts);
    }
    return texts;
}

static PyObject *bytes_of(const Column *column) {
    Py_ssize_t size = column->size * (Py_ssize_t)sizeof(Value);
    return PyBytes_FromStringAndSize((char *)column->values, size);
}

/* Of each of these fields: its column and its names. */
static PyObject *codes_of(const Scan *scan, int first, int end) {
    PyObject *parts = PyList_New(end - first);
    for (int field = first; parts && field < end; field++) {
        const Codes *codes = &scan->codes[field];
        PyObject *part = Py_BuildValue("(NN)", bytes_of(&codes->column), texts_of(&codes->names));
        if (!part || PyList_SetItem(parts, field - first, part)) Py_CLEAR(parts);
    }
    return parts;
}

static void free_scan(Scan *scan) {
    for (int field = 0; field < MOST_FIELDS; field++) {
        PyMem_Free(scan->codes[field].names.tokens);
        PyMem_Free(scan->codes[field].column.values);
        PyMem_Free(scan->codes[field].buckets);
    }
    PyMem_Free(scan->shown.tokens);
    PyMem_Free(scan->acts.tokens);
    PyMem_Free(scan->gains.values);
    PyMem_Free(scan->times.values);
    release(&scan->matcher);
}

static Scan scan_of(const Scanner *scanner) {
    return (Scan){.scanner = scanner, .matcher = {.depth = scanner->depth, .every = scanner->every}};
}

/* What was read, if all of it was; frees it. */
static PyObject *take_result(Scan *scan, int is_done, int are_items) {
    PyObject *columns = is_done ? take_columns(&scan->matcher, MATCHED) : NULL, *result = NULL;
    int first = are_items ? SHOWN : USER, end = are_items ? SHOWN + 1 : scan->scanner->count;
    PyObject *codes = columns ? codes_of(scan, first, end) : NULL;
    if (columns) result = Py_BuildValue("(NNN)", columns, codes, bytes_of(&scan->times));
    free_scan(scan);
    return result;
}

static PyObject *scanner_scan(PyObject *self, PyObject *arguments) {
    PyObject *values;
    int are_items;
    if (!PyArg_ParseTuple(arguments, "Op", &values, &are_items)) return NULL;
    /* Its own reference to each record, as the collector may run code when the result is made. */
    if (!(values = PySequence_Tuple(values))) return NULL;
    Scan scan = scan_of((const Scanner *)self);
    Py_ssize_t place = 0, count = PyTuple_Size(values);
    while (place < count && !scan_value(&scan, PyTuple_GetItem(values, place), place, are_items))
        place++;
    PyObject *result = take_result(&scan, place == count, are_items);
    Py_DECREF(values);
    return result;
}

/* The records between these bounds of a block. */
static int scan_block(Scan *scan, const Py_buffer *given, int are_items) {
    const uint8_t *block = given[0].buf;
    const int64_t *starts = given[1].buf, *stops = given[2].buf;
    Py_ssize_t count = given[1].len / (Py_ssize_t)sizeof *starts;
    if (given[2].len != given[1].len)
        return PyErr_SetString(PyExc_ValueError, "starts and stops differ in number"), -1;
    for (Py_ssize_t place = 0; place < count; place++) {
        if (starts[place] < 0 || starts[place] > stops[place] || stops[place] > given[0].len)
            return PyErr_SetString(PyExc_IndexError, "a record is outside of its block"), -1;
        Cursor record = {block + starts[place], block + stops[place]};
        if (scan_bytes(scan, record, place, are_items)) return -1;
    }
    return 0;
}

static PyObject *scanner_scan_block(PyObject *self, PyObject *arguments) {
    Py_buffer given[3];
    int are_items;
    if (!PyArg_ParseTuple(arguments, "y*y*y*p", &given[0], &given[1], &given[2], &are_items))
        return NULL;
    Scan scan = scan_of((const Scanner *)self);
    PyObject *result = take_result(&scan, !scan_block(&scan, given, are_items), are_items);
    for (int at = 0; at < 3; at++) PyBuffer_Release(&given[at]);
    return result;
}

/* Lines. */

static inline int is_space(uint8_t byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

enum { STARTS, STOPS, NUMBERS, LINE_COLUMNS };

/* The number of whole lines from `at` on; bounds and numbers of those that are not blank. */
static Py_ssize_t find_lines(const uint8_t *block, const uint8_t *at, const uint8_t *end,
                             Column *columns) {
    for (Py_ssize_t number = 0;; number++) {
        const uint8_t *start = at;
        while (at < end && *at != '\n' && is_space(*at)) at++;
        int is_blank = at < end && *at == '\n';
        const uint8_t *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        if (!stop) return number;
        at = stop + 1;
        if (is_blank) continue;
        if (append(&columns[STARTS], (Value){.whole = start - block})) return -1;
        if (append(&columns[STOPS], (Value){.whole = stop - block})) return -1;
        if (append(&columns[NUMBERS], (Value){.whole = number})) return -1;
    }
}

PyObject *lines_of(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_buffer block;
    Py_ssize_t start, count = -1;
    Column columns[LINE_COLUMNS] = {{0}};
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(arguments, "y*n", &block, &start)) return NULL;
    const uint8_t *bytes = block.buf;
    if (start < 0 || start > block.len)
        PyErr_SetString(PyExc_IndexError, "the start is outside of the block");
    else
        count = find_lines(bytes, bytes + start, bytes + block.len, columns);
    if (count >= 0)
        result = Py_BuildValue("(NNNn)", bytes_of(&columns[STARTS]), bytes_of(&columns[STOPS]),
                               bytes_of(&columns[NUMBERS]), count);
    for (int at = 0; at < LINE_COLUMNS; at++) PyMem_Free(columns[at].values);
    PyBuffer_Release(&block);
    return result;
}

static int set_up(Scanner *scanner, PyObject *arguments) {
    static const char *const UNITS[] = {"", "s", "ms", "us", "iso8601"};
    PyObject *names;
    const char *unit;
    if (!PyArg_ParseTuple(arguments, "O!spnnnp", &PyTuple_Type, &names, &unit,
                          &scanner->are_text, &scanner->most_shown, &scanner->most_acts,
                          &scanner->depth, &scanner->every))
        return -1;
    while (scanner->unit < MOMENTS && strcmp(UNITS[scanner->unit], unit)) scanner->unit++;
    scanner->names = Py_NewRef(names);
    scanner->count = (int)PyTuple_Size(names);
    if (scanner->count < LABELS || scanner->count > MOST_FIELDS)
        return PyErr_Format(PyExc_ValueError, "%d fields", scanner->count), -1;
    for (int field = 0; field < scanner->count; field++) {
        PyObject *name = PyTuple_GetItem(names, field);
        Token *token = &scanner->fields[field];
        if (name == Py_None) continue;
        if (!(token->at = (const uint8_t *)PyUnicode_AsUTF8AndSize(name, &token->size))) return -1;
        if (field != ACT_GAINS && (field <= TIME || field == EVENT_ID))
            scanner->needed |= (uint64_t)1 << field;
    }
    return 0;
}

static PyObject *scanner_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(names)) {
    PyObject *scanner = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (scanner && set_up((Scanner *)scanner, arguments)) Py_CLEAR(scanner);
    return scanner;
}

static void scanner_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((Scanner *)self)->names);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"scan", scanner_scan, METH_VARARGS, NULL},
    {"scan_block", scanner_scan_block, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_new, scanner_new}, {Py_tp_dealloc, scanner_dealloc}, {Py_tp_methods, methods}, {0, NULL},
};
static PyType_Spec spec = {
    "streameval.statistics.kernel._match.Scanner", sizeof(Scanner), 0, Py_TPFLAGS_DEFAULT, slots,
};

int add_scanner(PyObject *module) {
    static const char *const SALTS[] = {"streameval", "kernel"};
    for (int at = 0; at < 2; at++) {
        PyObject *salt = PyUnicode_FromString(SALTS[at]);
        if (!salt) return -1;
        secrets[at] = (uint64_t)PyObject_Hash(salt);
        Py_DECREF(salt);
    }
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    int failed = !type || PyModule_AddType(module, (PyTypeObject *)type);
    Py_XDECREF(type);
    return failed ? -1 : 0;
}
