/* Load for a Kafka-speaking cluster, with as little work on this side as the protocol allows.
 *
 *   load firstack --bootstrap H:P [--since NS] --topic T --partitions N --replication R
 *   load produce  --bootstrap H:P --topic T --records N [--size 1024] [--acks -1] ...
 *   load consume  --bootstrap H:P --topic T --records N [--digest HEX] [--fetch-bytes B]
 *   load latency  --bootstrap H:P --topic T --records N [--size 1024] [--acks -1]
 *   load raw      --directory D [--megabytes N]
 *
 * Each prints one line of JSON. What makes a figure count:
 *   - every batch has a stamp of its own (partition, number) and a right CRC-32C;
 *   - `produce` counts a record when its acknowledgement came, and ends non-zero on any error;
 *   - `consume` checks the CRC of all bytes that it read, that batches come in the order of their
 *     stamps without a gap or a repeat, and sums (partition, offset, CRC) into a digest, which must
 *     be the one that `produce` printed.
 *
 * Versions of the protocol: Metadata 4, CreateTopics 4, Produce 7, Fetch 11: the newest ones that do not
 * need variable-length integers in the header. Linux and macOS; one thread, one connection for each
 * partition that is written and for each leader that is read.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/sendfile.h>
#endif

enum { MAX_PARTITIONS = 256, MAX_BROKERS = 64, MAX_INFLIGHT = 64, STAMP_BYTES = 16 };

/* ---- small things ---------------------------------------------------------------------- */

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "load: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *need(void *memory) {
    if (!memory) die("out of memory");
    return memory;
}

static void put16(uint8_t *p, uint16_t v) { p[0] = v >> 8; p[1] = (uint8_t)v; }
static void put32(uint8_t *p, uint32_t v) { put16(p, v >> 16); put16(p + 2, (uint16_t)v); }
static void put64(uint8_t *p, uint64_t v) { put32(p, v >> 32); put32(p + 4, (uint32_t)v); }
static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static uint32_t get32(const uint8_t *p) { return (uint32_t)get16(p) << 16 | get16(p + 2); }
static uint64_t get64(const uint8_t *p) { return (uint64_t)get32(p) << 32 | get32(p + 4); }

/* ---- CRC-32C: three streams at once where the processor has an instruction for it --------- */

enum { LANE = 4096 };
static uint32_t crc_table[8][256];
static uint32_t lane_shift[4][256]; /* what LANE zero bytes do to a CRC */

static uint32_t shift_by_table(uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^
           table[3][crc >> 24];
}

static uint32_t crc_soft(uint32_t crc, const uint8_t *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t low, high;
        memcpy(&low, p, 4);
        memcpy(&high, p + 4, 4);
        low ^= crc;
        crc = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^
              crc_table[5][low >> 16 & 255] ^ crc_table[4][low >> 24] ^
              crc_table[3][high & 255] ^ crc_table[2][high >> 8 & 255] ^
              crc_table[1][high >> 16 & 255] ^ crc_table[0][high >> 24];
    }
    while (n--) crc = crc >> 8 ^ crc_table[0][(crc ^ *p++) & 255];
    return crc;
}

/* The operator "append `length` zero bytes" as four tables of 256. It is linear, so the images of the
 * 32 single bits give all of it. */
static void make_shift(uint32_t table[4][256], size_t length) {
    uint32_t image[32];
    static const uint8_t zeros[64];
    for (int bit = 0; bit < 32; bit++) {
        uint32_t crc = 1u << bit;
        size_t left = length;
        while (left) {
            size_t n = left < sizeof zeros ? left : sizeof zeros;
            crc = crc_soft(crc, zeros, n);
            left -= n;
        }
        image[bit] = crc;
    }
    for (int byte = 0; byte < 4; byte++)
        for (int value = 0; value < 256; value++) {
            uint32_t sum = 0;
            for (int bit = 0; bit < 8; bit++)
                if (value >> bit & 1) sum ^= image[byte * 8 + bit];
            table[byte][value] = sum;
        }
}

static void crc_init(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        crc_table[0][i] = c;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++)
            crc_table[t][i] = crc_table[t - 1][i] >> 8 ^ crc_table[0][crc_table[t - 1][i] & 255];
    make_shift(lane_shift, LANE);
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_hard(uint32_t crc0, const uint8_t *p, size_t n) {
    uint64_t crc = crc0;
    while (n >= 3 * LANE) {
        uint64_t b = 0, c = 0;
        for (const uint8_t *end = p + LANE; p < end; p += 8) {
            uint64_t x, y, z;
            memcpy(&x, p, 8);
            memcpy(&y, p + LANE, 8);
            memcpy(&z, p + 2 * LANE, 8);
            crc = __builtin_ia32_crc32di(crc, x);
            b = __builtin_ia32_crc32di(b, y);
            c = __builtin_ia32_crc32di(c, z);
        }
        crc = shift_by_table(lane_shift, (uint32_t)crc) ^ b;
        crc = shift_by_table(lane_shift, (uint32_t)crc) ^ c;
        p += 2 * LANE;
        n -= 3 * LANE;
    }
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t x;
        memcpy(&x, p, 8);
        crc = __builtin_ia32_crc32di(crc, x);
    }
    for (; n; p++, n--) crc = __builtin_ia32_crc32qi((uint32_t)crc, *p);
    return (uint32_t)crc;
}
#endif

static uint32_t crc_more(uint32_t crc, const uint8_t *p, size_t n) { /* not inverted */
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) return crc_hard(crc, p, n);
#endif
    return crc_soft(crc, p, n);
}

static uint32_t crc32c(const uint8_t *p, size_t n) { return ~crc_more(~0u, p, n); }

/* ---- options ----------------------------------------------------------------------------- */

static struct {
    const char *bootstrap, *topic, *directory, *digest;
    uint64_t records, size, batch_records, inflight, fetch_bytes, partitions, replication, since;
    uint64_t megabytes, warmup, timeout_ms;
    int acks;
} opt = {.bootstrap = "127.0.0.1:9092", .topic = "bench", .directory = ".", .digest = NULL,
         .records = 100000, .size = 1024, .batch_records = 960, .inflight = 5,
         .fetch_bytes = 1048576, .partitions = 6, .replication = 3, .megabytes = 512,
         .warmup = 200, .timeout_ms = 60000, .acks = -1};

static void parse_options(int argc, char **argv) {
    struct { const char *name; uint64_t *number; const char **text; } known[] = {
        {"--bootstrap", NULL, &opt.bootstrap}, {"--topic", NULL, &opt.topic},
        {"--directory", NULL, &opt.directory}, {"--digest", NULL, &opt.digest},
        {"--records", &opt.records, NULL}, {"--size", &opt.size, NULL},
        {"--batch-records", &opt.batch_records, NULL}, {"--inflight", &opt.inflight, NULL},
        {"--fetch-bytes", &opt.fetch_bytes, NULL}, {"--partitions", &opt.partitions, NULL},
        {"--replication", &opt.replication, NULL}, {"--since", &opt.since, NULL},
        {"--megabytes", &opt.megabytes, NULL}, {"--warmup", &opt.warmup, NULL},
        {"--timeout-ms", &opt.timeout_ms, NULL}};
    for (int i = 2; i < argc; i += 2) {
        if (i + 1 >= argc) die("%s needs a value", argv[i]);
        if (!strcmp(argv[i], "--acks")) { opt.acks = atoi(argv[i + 1]); continue; }
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcmp(argv[i], known[k].name)) k++;
        if (k == sizeof known / sizeof *known) die("unknown option %s", argv[i]);
        if (known[k].number) {
            char *end;
            *known[k].number = strtoull(argv[i + 1], &end, 10);
            if (*end) die("%s: %s is no number", argv[i], argv[i + 1]);
        } else *known[k].text = argv[i + 1];
    }
    if (opt.size < STAMP_BYTES) die("--size must be at least %d", STAMP_BYTES);
    if (opt.acks != -1 && opt.acks != 1) die("--acks: -1 or 1 (without acknowledgements nothing counts)");
    if (opt.inflight < 1 || opt.inflight > MAX_INFLIGHT) die("--inflight: 1 to %d", MAX_INFLIGHT);
}

/* ---- sockets ------------------------------------------------------------------------------ */

static int dial(const char *host, int port, int quiet) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &found)) die("cannot resolve %s", host);
    int fd = -1;
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) { close(fd); fd = -1; }
    }
    freeaddrinfo(found);
    if (fd < 0) {
        if (quiet) return -1;
        die("cannot connect to %s:%d: %s", host, port, strerror(errno));
    }
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static int dial_bootstrap(int quiet) {
    char host[256];
    const char *colon = strrchr(opt.bootstrap, ':');
    if (!colon || (size_t)(colon - opt.bootstrap) >= sizeof host) die("--bootstrap is HOST:PORT");
    memcpy(host, opt.bootstrap, (size_t)(colon - opt.bootstrap));
    host[colon - opt.bootstrap] = 0;
    return dial(host, atoi(colon + 1), quiet);
}

static int write_all(int fd, const uint8_t *p, size_t n) {
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w <= 0) return -1;
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

static int read_all(int fd, uint8_t *p, size_t n) {
    while (n) {
        ssize_t r = read(fd, p, n);
        if (r <= 0) return -1;
        p += r;
        n -= (size_t)r;
    }
    return 0;
}

/* ---- building and reading messages ---------------------------------------------------------- */

typedef struct { uint8_t *data; size_t length, capacity; } Buffer;

static uint8_t *grow(Buffer *b, size_t n) {
    if (b->length + n > b->capacity) {
        b->capacity = (b->length + n) * 2;
        b->data = need(realloc(b->data, b->capacity));
    }
    b->length += n;
    return b->data + b->length - n;
}

static void add16(Buffer *b, int v) { put16(grow(b, 2), (uint16_t)v); }
static void add32(Buffer *b, int64_t v) { put32(grow(b, 4), (uint32_t)v); }
static void add64(Buffer *b, int64_t v) { put64(grow(b, 8), (uint64_t)v); }
static void add8(Buffer *b, int v) { *grow(b, 1) = (uint8_t)v; }
static void add_text(Buffer *b, const char *s) {
    size_t n = strlen(s);
    add16(b, (int)n);
    memcpy(grow(b, n), s, n);
}

static void begin(Buffer *b, int key, int version, uint32_t correlation) {
    b->length = 0;
    add32(b, 0);
    add16(b, key);
    add16(b, version);
    add32(b, correlation);
    add_text(b, "replog-load");
}

static void finish(Buffer *b, size_t payload) { put32(b->data, (uint32_t)(b->length - 4 + payload)); }

typedef struct { const uint8_t *p, *end; } Reader;

static const uint8_t *take(Reader *r, size_t n) {
    if ((size_t)(r->end - r->p) < n) die("an answer is cut short");
    r->p += n;
    return r->p - n;
}

static int read16(Reader *r) { return (int16_t)get16(take(r, 2)); }
static int32_t read32(Reader *r) { return (int32_t)get32(take(r, 4)); }
static int64_t read64(Reader *r) { return (int64_t)get64(take(r, 8)); }
static void skip_text(Reader *r) { int n = read16(r); if (n > 0) take(r, (size_t)n); }

/* One question, one answer. Returns 0 when the connection broke. */
static int ask(int fd, Buffer *request, Buffer *answer, Reader *body) {
    uint8_t size[4];
    finish(request, 0);
    if (write_all(fd, request->data, request->length) || read_all(fd, size, 4)) return 0;
    answer->length = 0;
    uint32_t n = get32(size);
    if (n < 4 || n > 1u << 30) die("an answer of %u bytes", n);
    if (read_all(fd, grow(answer, n), n)) return 0;
    body->p = answer->data + 4;
    body->end = answer->data + n;
    return 1;
}

/* ---- the cluster ---------------------------------------------------------------------------- */

typedef struct { int id, port; char host[256]; } Broker;
static struct {
    Broker brokers[MAX_BROKERS];
    int broker_count, partition_count;
    int leader[MAX_PARTITIONS];
} cluster;

/* Returns 0 when all partitions have leaders, else Kafka's error code; -2 for a broken connection. */
static int load_metadata(int fd) {
    static Buffer request, answer;
    Reader r;
    begin(&request, 3, 4, 1);
    add32(&request, 1);
    add_text(&request, opt.topic);
    add8(&request, 0);
    if (!ask(fd, &request, &answer, &r)) return -2;
    read32(&r);
    cluster.broker_count = read32(&r);
    if (cluster.broker_count > MAX_BROKERS) die("too many brokers");
    for (int i = 0; i < cluster.broker_count; i++) {
        Broker *b = &cluster.brokers[i];
        b->id = read32(&r);
        int n = read16(&r);
        if (n < 0 || n > 255) die("a host name of %d characters", n);
        memcpy(b->host, take(&r, (size_t)n), (size_t)n);
        b->host[n] = 0;
        b->port = read32(&r);
        skip_text(&r);
    }
    skip_text(&r);
    read32(&r);
    if (read32(&r) != 1) die("Metadata answers for another topic");
    int error = read16(&r);
    skip_text(&r);
    take(&r, 1);
    cluster.partition_count = read32(&r);
    if (cluster.partition_count > MAX_PARTITIONS) die("at most %d partitions", MAX_PARTITIONS);
    for (int i = 0; i < cluster.partition_count; i++) {
        int partition_error = read16(&r);
        int index = read32(&r);
        int leader = read32(&r);
        for (int k = 0; k < 2; k++) for (int n = read32(&r); n > 0; n--) read32(&r);
        if (index < 0 || index >= cluster.partition_count) die("partition %d is out of range", index);
        cluster.leader[index] = leader;
        if (leader < 0 && !error) error = partition_error ? partition_error : 5;
    }
    return error;
}

static Broker *broker(int id) {
    for (int i = 0; i < cluster.broker_count; i++)
        if (cluster.brokers[i].id == id) return &cluster.brokers[i];
    die("broker %d leads, but is not in the list", id);
    return NULL;
}

/* ---- batches -------------------------------------------------------------------------------- */

static size_t add_varint(uint8_t *p, int64_t v) {
    uint64_t z = (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
    size_t n = 0;
    while (z > 127) { p[n++] = (uint8_t)(z | 128); z >>= 7; }
    p[n++] = (uint8_t)z;
    return n;
}

/* A prepared batch. A stamp changes 16 bytes near its beginning; the CRC of what follows them is known,
 * so that a fresh CRC costs a few table look-ups and not a pass over a megabyte. */
typedef struct {
    uint8_t *bytes;
    size_t length, stamp_at;
    uint32_t crc_before, crc_after; /* of what lies between byte 21 and the stamp, and after it */
    uint32_t shift_after[4][256];
} Batch;

static void make_batch(Batch *b, uint64_t records, uint64_t size) {
    uint8_t *p = b->bytes = need(malloc(61 + records * (size + 32)));
    uint64_t random = 0x9e3779b97f4a7c15u;
    size_t at = 61;
    memset(p, 0, 61);
    for (uint64_t i = 0; i < records; i++) {
        uint8_t head[32];
        size_t n = 0;
        head[n++] = 0;                           /* attributes */
        head[n++] = 0;                           /* timestamp delta */
        n += add_varint(head + n, (int64_t)i);   /* offset delta */
        n += add_varint(head + n, -1);           /* no key */
        n += add_varint(head + n, (int64_t)size);
        at += add_varint(p + at, (int64_t)(n + size + 1));
        memcpy(p + at, head, n);
        at += n;
        if (!i) b->stamp_at = at;
        for (uint64_t k = 0; k < size; k++) {
            random ^= random << 13; random ^= random >> 7; random ^= random << 17;
            p[at++] = (uint8_t)random;
        }
        p[at++] = 0; /* no headers */
    }
    b->length = at;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t ms = (uint64_t)wall.tv_sec * 1000 + (uint64_t)wall.tv_nsec / 1000000;
    put32(p + 8, (uint32_t)(at - 12));
    put32(p + 12, ~0u);
    p[16] = 2;
    put32(p + 23, (uint32_t)(records - 1));
    put64(p + 27, ms);
    put64(p + 35, ms);
    put64(p + 43, ~0ull);
    put16(p + 51, 0xffff);
    put32(p + 53, ~0u);
    put32(p + 57, (uint32_t)records);
    size_t after = b->stamp_at + STAMP_BYTES;
    b->crc_before = crc_more(~0u, p + 21, b->stamp_at - 21);
    b->crc_after = crc_more(0, p + after, at - after);
    make_shift(b->shift_after, at - after);
}

static uint32_t stamp(Batch *b, int partition, uint64_t number) {
    uint8_t *p = b->bytes + b->stamp_at;
    put64(p, (uint64_t)partition);
    put64(p + 8, number);
    uint32_t crc = crc_more(b->crc_before, p, STAMP_BYTES);
    crc = ~(shift_by_table(b->shift_after, crc) ^ b->crc_after);
    put32(b->bytes + 17, crc);
    return crc;
}

/* Sums are the same in any order, so producer and consumer need not agree on one. */
static uint64_t digest_of(int partition, uint64_t offset, uint32_t crc) {
    uint64_t x = (uint64_t)crc << 32 ^ (uint64_t)partition << 56 ^ offset;
    x ^= x >> 33; x *= 0xff51afd7ed558ccdu; x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

/* ---- produce -------------------------------------------------------------------------------- */

typedef struct {
    int fd, partition;
    Batch *batch;
    uint64_t next, last;                  /* numbers of batches, `last` exclusive */
    uint32_t crc[MAX_INFLIGHT];
    uint64_t sent, acked;                 /* requests */
    Buffer header;
    size_t header_sent, batch_sent;       /* of the request being written */
    int writing;
    Buffer answer;
    size_t answer_have;
} Lane;

static uint64_t digest;

static void start_request(Lane *l) {
    uint32_t crc = stamp(l->batch, l->partition, l->next++);
    l->crc[l->sent % MAX_INFLIGHT] = crc;
    begin(&l->header, 0, 7, (uint32_t)l->sent);
    add16(&l->header, -1);
    add16(&l->header, opt.acks);
    add32(&l->header, 30000);
    add32(&l->header, 1);
    add_text(&l->header, opt.topic);
    add32(&l->header, 1);
    add32(&l->header, l->partition);
    add32(&l->header, (int64_t)l->batch->length);
    finish(&l->header, l->batch->length);
    l->header_sent = l->batch_sent = 0;
    l->writing = 1;
    l->sent++;
}

static void write_some(Lane *l) {
    while (l->writing) {
        struct iovec parts[2] = {
            {l->header.data + l->header_sent, l->header.length - l->header_sent},
            {l->batch->bytes + l->batch_sent, l->batch->length - l->batch_sent}};
        ssize_t n = writev(l->fd, parts, 2);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) die("partition %d: the broker closed the connection", l->partition);
        size_t header = (size_t)n < parts[0].iov_len ? (size_t)n : parts[0].iov_len;
        l->header_sent += header;
        l->batch_sent += (size_t)n - header;
        if (l->batch_sent == l->batch->length) l->writing = 0;
    }
}

static void take_ack(Lane *l, Reader r) {
    uint32_t correlation = (uint32_t)read32(&r);
    if (correlation != (uint32_t)l->acked) die("answers out of order");
    if (read32(&r) != 1) die("an acknowledgement for another topic");
    skip_text(&r);
    if (read32(&r) != 1) die("an acknowledgement for another partition");
    int partition = read32(&r), error = read16(&r);
    int64_t base = read64(&r);
    if (partition != l->partition) die("an acknowledgement for another partition");
    if (error) die("partition %d: produce answered error %d", partition, error);
    digest += digest_of(partition, (uint64_t)base, l->crc[l->acked % MAX_INFLIGHT]);
    l->acked++;
}

static void read_some(Lane *l) {
    for (;;) {
        size_t want = 4;
        if (l->answer_have >= 4) want = 4 + get32(l->answer.data);
        if (want > 65536) die("an acknowledgement of %zu bytes", want);
        while (l->answer.length < want) grow(&l->answer, want - l->answer.length);
        ssize_t n = read(l->fd, l->answer.data + l->answer_have, want - l->answer_have);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) die("partition %d: the broker closed the connection", l->partition);
        l->answer_have += (size_t)n;
        if (l->answer_have == want && want > 4) {
            take_ack(l, (Reader){l->answer.data + 4, l->answer.data + want});
            l->answer_have = l->answer.length = 0;
        }
    }
}

static void open_lane(Lane *l, int partition) {
    memset(l, 0, sizeof *l);
    Broker *b = broker(cluster.leader[partition]);
    l->partition = partition;
    l->fd = dial(b->host, b->port, 0);
}

static void produce(void) {
    int count = cluster.partition_count;
    Batch batch[MAX_PARTITIONS];
    Lane *lanes = need(calloc((size_t)count, sizeof *lanes));
    struct pollfd polls[MAX_PARTITIONS];
    uint64_t batches = opt.records / opt.batch_records / (uint64_t)count;
    if (!batches) batches = 1;
    for (int i = 0; i < count; i++) {
        open_lane(&lanes[i], i);
        make_batch(&batch[i], opt.batch_records, opt.size);
        lanes[i].batch = &batch[i];
        lanes[i].last = batches;
        fcntl(lanes[i].fd, F_SETFL, O_NONBLOCK);
        polls[i].fd = lanes[i].fd;
    }
    uint64_t started = now_ns(), left = (uint64_t)count;
    while (left) {
        left = 0;
        for (int i = 0; i < count; i++) {
            Lane *l = &lanes[i];
            while (!l->writing && l->next < l->last && l->sent - l->acked < opt.inflight) {
                start_request(l);
                write_some(l);
            }
            int open = l->writing || l->next < l->last || l->acked < l->sent;
            polls[i].events = (short)((l->writing ? POLLOUT : 0) | POLLIN);
            polls[i].fd = open ? l->fd : -1;
            left += (uint64_t)open;
        }
        if (!left) break;
        int ready = poll(polls, (nfds_t)count, (int)opt.timeout_ms);
        if (ready == 0) die("no progress for %llu ms", (unsigned long long)opt.timeout_ms);
        for (int i = 0; i < count && ready > 0; i++) {
            if (polls[i].revents & (POLLIN | POLLHUP | POLLERR)) read_some(&lanes[i]);
            if (polls[i].revents & POLLOUT && lanes[i].writing) write_some(&lanes[i]);
        }
    }
    double seconds = (double)(now_ns() - started) / 1e9;
    uint64_t records = batches * (uint64_t)count * opt.batch_records;
    printf("{\"records\": %llu, \"seconds\": %.4f, \"mb_per_s\": %.1f, \"digest\": \"%016llx\"}\n",
           (unsigned long long)records, seconds, (double)(records * opt.size) / 1e6 / seconds,
           (unsigned long long)digest);
}

/* ---- consume -------------------------------------------------------------------------------- */

typedef struct {
    int fd, count, partitions[MAX_PARTITIONS];
    uint64_t offset[MAX_PARTITIONS];
    uint64_t number[MAX_PARTITIONS];      /* stamp that the next batch must carry */
    Buffer request;
    uint8_t *answer;
    size_t have, want, capacity;
} Source;

static uint64_t seen_records;

static void send_fetch(Source *s) {
    Buffer *b = &s->request;
    begin(b, 1, 11, 7);
    add32(b, -1);          /* replica: a consumer */
    add32(b, 500);
    add32(b, 1);
    add32(b, 52428800);
    add8(b, 0);
    add32(b, 0);
    add32(b, -1);          /* no fetch session */
    add32(b, 1);
    add_text(b, opt.topic);
    add32(b, s->count);
    for (int i = 0; i < s->count; i++) {
        add32(b, s->partitions[i]);
        add32(b, -1);
        add64(b, (int64_t)s->offset[i]);
        add64(b, -1);
        add32(b, (int64_t)opt.fetch_bytes);
    }
    add32(b, 0);
    add_text(b, "");
    finish(b, 0);
    if (write_all(s->fd, b->data, b->length)) die("the broker closed the connection");
    s->have = 0;
    s->want = 4;
}

static void check_batch(Source *s, int i, const uint8_t *p, size_t length) {
    uint64_t base = get64(p), records = get32(p + 57);
    uint32_t crc = get32(p + 17);
    if (p[16] != 2) die("a batch of format %d", p[16]);
    if (base != s->offset[i])
        die("partition %d: offset %llu comes where %llu was expected", s->partitions[i],
            (unsigned long long)base, (unsigned long long)s->offset[i]);
    if (crc32c(p + 21, length - 21) != crc)
        die("partition %d: the CRC at offset %llu is wrong", s->partitions[i],
            (unsigned long long)base);
    const uint8_t *q = p + 61;
    for (int field = 0; field < 5; field++) { /* length, timestamp, offset, key length, value length */
        if (field == 1) q++;                  /* attributes */
        while (*q++ & 128) {}
    }
    if (get64(q) != (uint64_t)s->partitions[i] || get64(q + 8) != s->number[i])
        die("partition %d: batch %llu comes where batch %llu was expected", s->partitions[i],
            (unsigned long long)get64(q + 8), (unsigned long long)s->number[i]);
    s->number[i]++;
    s->offset[i] = base + records;
    seen_records += records;
    digest += digest_of(s->partitions[i], base, crc);
}

static void take_answer(Source *s) {
    Reader r = {s->answer + 4, s->answer + s->want};
    read32(&r);
    read32(&r);
    int error = read16(&r);
    if (error) die("fetch answered error %d", error);
    read32(&r);
    for (int topics = read32(&r); topics > 0; topics--) {
        skip_text(&r);
        for (int count = read32(&r); count > 0; count--) {
            int partition = read32(&r), i = 0;
            error = read16(&r);
            if (error) die("partition %d: fetch answered error %d", partition, error);
            take(&r, 24);
            for (int aborted = read32(&r); aborted > 0; aborted--) take(&r, 16);
            read32(&r);
            int length = read32(&r);
            Reader records = {r.p, r.p + (length > 0 ? length : 0)};
            if (length > 0) take(&r, (size_t)length);
            while (i < s->count && s->partitions[i] != partition) i++;
            if (i == s->count) die("fetch answers for partition %d", partition);
            while (records.end - records.p > 61) {
                size_t size = 12 + (size_t)get32(records.p + 8);
                if ((size_t)(records.end - records.p) < size) break;
                check_batch(s, i, records.p, size);
                records.p += size;
            }
        }
    }
}

static int read_answer(Source *s) {
    for (;;) {
        if (s->want > s->capacity) {
            s->capacity = s->want;
            s->answer = need(realloc(s->answer, s->capacity));
        }
        ssize_t n = recv(s->fd, s->answer + s->have, s->want - s->have, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (n <= 0) die("the broker closed the connection");
        s->have += (size_t)n;
        if (s->have < s->want) continue;
        if (s->want > 4) return 1;
        s->want = 4 + get32(s->answer);
        if (s->want > 1u << 30) die("an answer of %zu bytes", s->want);
    }
}

static void consume(void) {
    Source *sources = need(calloc(MAX_BROKERS, sizeof *sources));
    struct pollfd polls[MAX_BROKERS];
    int count = 0;
    for (int i = 0; i < cluster.broker_count; i++) {
        Source *s = &sources[count];
        for (int p = 0; p < cluster.partition_count; p++)
            if (cluster.leader[p] == cluster.brokers[i].id) s->partitions[s->count++] = p;
        if (!s->count) continue;
        s->capacity = 65536;
        s->answer = need(malloc(s->capacity));
        s->fd = dial(cluster.brokers[i].host, cluster.brokers[i].port, 0);
        polls[count++] = (struct pollfd){s->fd, POLLIN, 0};
    }
    uint64_t started = now_ns(), progress = started;
    for (int i = 0; i < count; i++) send_fetch(&sources[i]);
    while (seen_records < opt.records) {
        int ready = poll(polls, (nfds_t)count, 1000);
        for (int i = 0; i < count && ready > 0; i++) {
            if (!polls[i].revents || !read_answer(&sources[i])) continue;
            uint64_t before = seen_records;
            take_answer(&sources[i]);
            if (seen_records > before) progress = now_ns();
            if (seen_records < opt.records) send_fetch(&sources[i]);
        }
        if (now_ns() - progress > opt.timeout_ms * 1000000ull)
            die("%llu of %llu records after %llu ms without any", (unsigned long long)seen_records,
                (unsigned long long)opt.records, (unsigned long long)opt.timeout_ms);
    }
    double seconds = (double)(now_ns() - started) / 1e9;
    char hex[17];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)digest);
    if (seen_records != opt.records)
        die("%llu records are there, %llu were written", (unsigned long long)seen_records,
            (unsigned long long)opt.records);
    if (opt.digest && strcmp(hex, opt.digest)) die("digest %s, expected %s", hex, opt.digest);
    printf("{\"records\": %llu, \"seconds\": %.4f, \"mb_per_s\": %.1f, \"digest\": \"%s\"}\n",
           (unsigned long long)seen_records, seconds,
           (double)(seen_records * opt.size) / 1e6 / seconds, hex);
}

/* ---- latency -------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* One request with one record on partition 0, blocking. Returns Kafka's error code, -2 if broken. */
static int produce_one(Lane *l) {
    uint8_t size[4];
    start_request(l);
    struct iovec parts[2] = {{l->header.data, l->header.length}, {l->batch->bytes, l->batch->length}};
    ssize_t whole = (ssize_t)(l->header.length + l->batch->length);
    if (writev(l->fd, parts, 2) != whole || read_all(l->fd, size, 4)) return -2;
    uint32_t n = get32(size);
    l->answer.length = 0;
    if (n > 65536 || read_all(l->fd, grow(&l->answer, n), n)) return -2;
    Reader r = {l->answer.data + 8, l->answer.data + n};
    skip_text(&r);
    take(&r, 8);
    return read16(&r);
}

static void latency(void) {
    Batch batch;
    Lane lane;
    uint64_t *took = need(calloc(opt.records, sizeof *took));
    make_batch(&batch, 1, opt.size);
    open_lane(&lane, 0);
    lane.batch = &batch;
    for (uint64_t i = 0; i < opt.warmup + opt.records; i++) {
        uint64_t from = now_ns();
        int error = produce_one(&lane);
        if (error) die("record %llu: error %d", (unsigned long long)i, error);
        if (i >= opt.warmup) took[i - opt.warmup] = now_ns() - from;
    }
    qsort(took, opt.records, sizeof *took, by_value);
    printf("{\"records\": %llu, \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f}\n",
           (unsigned long long)opt.records, (double)took[opt.records / 2] / 1e6,
           (double)took[opt.records * 99 / 100] / 1e6, (double)took[opt.records - 1] / 1e6);
}

/* ---- first acknowledgement -------------------------------------------------------------------- */

static int create_topic(int fd) {
    static Buffer request, answer;
    Reader r;
    begin(&request, 19, 4, 1);
    add32(&request, 1);
    add_text(&request, opt.topic);
    add32(&request, (int64_t)opt.partitions);
    add16(&request, (int)opt.replication);
    add32(&request, 0);
    add32(&request, 0);
    add32(&request, 10000);
    add8(&request, 0);
    if (!ask(fd, &request, &answer, &r)) return -2;
    read32(&r);
    read32(&r);
    skip_text(&r);
    return read16(&r);
}

/* Keeps trying, as a client that was started together with the cluster would. */
static void firstack(void) {
    uint64_t started = opt.since ? opt.since : now_ns();
    uint64_t limit = started + opt.timeout_ms * 1000000ull;
    int fd = -1, error = -2, created = 0;
    double connected_ms = 0, created_ms = 0;
    Batch batch;
    make_batch(&batch, 1, opt.size);
    while (error) {
        if (now_ns() > limit) die("no acknowledgement in time; the last error was %d", error);
        if (fd < 0 && (fd = dial_bootstrap(1)) < 0) { usleep(2000); continue; }
        if (!connected_ms) connected_ms = (double)(now_ns() - started) / 1e6;
        if (!created) {
            error = create_topic(fd);
            created = error == 0 || error == 36;
            if (created) created_ms = (double)(now_ns() - started) / 1e6;
        }
        if (created && !(error = load_metadata(fd))) {
            Lane lane;
            open_lane(&lane, 0);
            lane.batch = &batch;
            error = produce_one(&lane);
            close(lane.fd);
        }
        if (error == -2) { close(fd); fd = -1; }
        if (error) usleep(2000);
    }
    printf("{\"first_ack_ms\": %.1f, \"connected_ms\": %.1f, \"created_ms\": %.1f}\n",
           (double)(now_ns() - started) / 1e6, connected_ms, created_ms);
}

/* ---- what the machine can do at best ------------------------------------------------------------ */

enum { CHUNK = 1 << 20 };
typedef struct { int fd; uint64_t bytes; } Drain;

static void *drain(void *argument) {
    Drain *d = argument;
    uint8_t *chunk = need(malloc(CHUNK));
    ssize_t n;
    while ((n = read(d->fd, chunk, CHUNK)) > 0) d->bytes += (uint64_t)n;
    free(chunk);
    return NULL;
}

static void loopback_pair(int pair[2]) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        die("loopback: %s", strerror(errno));
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(pair[0], (struct sockaddr *)&address, sizeof address)) die("loopback: %s", strerror(errno));
    pair[1] = accept(listener, NULL, NULL);
    close(listener);
}

/* MB/s through a TCP connection to ourselves; from `file` with sendfile when it is not -1. */
static double through_loopback(int file, uint64_t megabytes) {
    int pair[2];
    loopback_pair(pair);
    Drain d = {pair[1], 0};
    pthread_t thread;
    uint8_t *chunk = need(calloc(1, CHUNK));
    if (pthread_create(&thread, NULL, drain, &d)) die("no thread");
    uint64_t from = now_ns();
    for (uint64_t i = 0; i < megabytes; i++) {
#if defined(__linux__)
        off_t at = (off_t)(i * CHUNK);
        uint64_t left = file >= 0 ? CHUNK : 0;
        while (left) {
            ssize_t n = sendfile(pair[0], file, &at, left);
            if (n <= 0) die("sendfile: %s", strerror(errno));
            left -= (uint64_t)n;
        }
        if (file >= 0) continue;
#else
        if (file >= 0 && pread(file, chunk, CHUNK, (off_t)(i * CHUNK)) != CHUNK) die("read");
#endif
        if (write_all(pair[0], chunk, CHUNK)) die("loopback: %s", strerror(errno));
    }
    close(pair[0]);
    pthread_join(thread, NULL);
    double rate = (double)d.bytes / 1e6 / ((double)(now_ns() - from) / 1e9);
    close(pair[1]);
    free(chunk);
    return rate;
}

static double write_file(int file, uint64_t megabytes) {
    uint8_t *chunk = need(malloc(CHUNK));
    memset(chunk, 7, CHUNK);
    uint64_t from = now_ns();
    for (uint64_t i = 0; i < megabytes; i++)
        if (pwrite(file, chunk, CHUNK, (off_t)(i * CHUNK)) != CHUNK) die("write: %s", strerror(errno));
    free(chunk);
    return (double)(megabytes * CHUNK) / 1e6 / ((double)(now_ns() - from) / 1e9);
}

static void raw(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/replog-load-raw", opt.directory);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0) die("%s: %s", path, strerror(errno));
    unlink(path);
    double fresh = write_file(file, opt.megabytes), again = write_file(file, opt.megabytes);
    double sendfile_rate = through_loopback(file, opt.megabytes);
    double loopback = through_loopback(-1, opt.megabytes);
    printf("{\"page_cache_fresh\": %.0f, \"page_cache_again\": %.0f, \"sendfile\": %.0f, "
           "\"loopback\": %.0f}\n", fresh, again, sendfile_rate, loopback);
}

int main(int argc, char **argv) {
    if (argc < 2) die("which of firstack, produce, consume, latency, raw?");
    parse_options(argc, argv);
    crc_init();
    if (!strcmp(argv[1], "raw")) { raw(); return 0; }
    if (!strcmp(argv[1], "firstack")) { firstack(); return 0; }
    int fd = dial_bootstrap(0), error = load_metadata(fd);
    if (error == -2) die("the broker closed the connection");
    if (error) die("topic %s: Metadata answered error %d", opt.topic, error);
    close(fd);
    if (!strcmp(argv[1], "produce")) produce();
    else if (!strcmp(argv[1], "consume")) consume();
    else if (!strcmp(argv[1], "latency")) latency();
    else die("unknown command %s", argv[1]);
    return 0;
}
