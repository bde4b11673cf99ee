/* Bindings: a hash table from roots (modules, by address) to watches. Roots are held weakly; a root that dies takes its
   bindings along, before anything else can have its address. */
#include "compat.h"
#include "bindings.h"

typedef struct Binding {
    struct Binding *next; /* in its bucket */
    Watch *watch;
    size_t hash;
    PyObject *references[]; /* weak, whose callback is the table */
} Binding;

typedef struct {
    PyObject_HEAD
    Py_ssize_t roots, count;
    size_t capacity; /* a power of two */
    Binding **buckets;
    Binding *last; /* found or bound last */
} Bindings;

#define FIRST_CAPACITY 8

PyObject *
bindings_new(Py_ssize_t roots)
{
    Bindings *self = PyObject_New(Bindings, &Bindings_Type);
    if (self == NULL) {
        return NULL;
    }
    self->roots = roots;
    self->count = 0;
    self->last = NULL;
    self->capacity = FIRST_CAPACITY;
    self->buckets = PyMem_Calloc(self->capacity, sizeof(Binding *));
    if (self->buckets == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static size_t
hash_of(const Bindings *self, PyObject *const *roots)
{
    size_t hash = 0;
    for (Py_ssize_t i = 0; i < self->roots; i++) {
        hash = (hash ^ (uintptr_t)roots[i] >> 4) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static int
is_of(const Bindings *self, const Binding *binding, PyObject *const *roots)
{
    for (Py_ssize_t i = 0; i < self->roots; i++) {
        if (weak_target(binding->references[i]) != roots[i]) {
            return 0;
        }
    }
    return 1;
}

static Binding *
look_up(Bindings *self, PyObject *const *roots)
{
    if (self->last && is_of(self, self->last, roots)) {
        return self->last;
    }
    size_t hash = hash_of(self, roots);
    for (Binding *each = self->buckets[hash & (self->capacity - 1)]; each; each = each->next) {
        if (each->hash == hash && is_of(self, each, roots)) {
            return self->last = each;
        }
    }
    return NULL;
}

int
bindings_find(PyObject *op, PyObject *const *roots, Watch **watch)
{
    const Binding *found = look_up((Bindings *)op, roots);
    *watch = found ? found->watch : NULL;
    return found != NULL;
}

static void
take_out(Bindings *self, Binding *binding)
{
    Binding **link = &self->buckets[binding->hash & (self->capacity - 1)];
    while (*link != binding) {
        link = &(*link)->next;
    }
    *link = binding->next;
    self->count--;
    if (self->last == binding) {
        self->last = NULL;
    }
}

static void
drop(const Bindings *self, Binding *binding)
{
    watch_drop(binding->watch);
    for (Py_ssize_t i = 0; i < self->roots; i++) {
        Py_XDECREF(binding->references[i]);
    }
    PyMem_Free(binding);
}

static int
grow(Bindings *self)
{
    size_t capacity = 2 * self->capacity;
    Binding **buckets = PyMem_Calloc(capacity, sizeof(Binding *));
    if (buckets == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < self->capacity; i++) {
        for (Binding *each = self->buckets[i], *next; each; each = next) {
            next = each->next;
            each->next = buckets[each->hash & (capacity - 1)];
            buckets[each->hash & (capacity - 1)] = each;
        }
    }
    PyMem_Free(self->buckets);
    self->buckets = buckets;
    self->capacity = capacity;
    return 0;
}

int
bindings_put(PyObject *op, PyObject *const *roots, Watch *watch)
{
    Bindings *self = (Bindings *)op;
    Binding *binding = look_up(self, roots);
    if (binding != NULL) {
        Watch *before = binding->watch;
        binding->watch = watch ? watch_share(watch) : NULL;
        watch_drop(before);
        return 0;
    }
    if ((size_t)self->count >= self->capacity && grow(self) < 0) {
        return -1;
    }
    binding = PyMem_Calloc(1, sizeof(Binding) + (self->roots + 1) * sizeof(PyObject *));
    if (binding == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    binding->hash = hash_of(self, roots);
    for (Py_ssize_t i = 0; i < self->roots; i++) {
        binding->references[i] = PyWeakref_NewRef(roots[i], op);
        if (binding->references[i] == NULL) {
            drop(self, binding);
            return -1;
        }
        /* No one else has it (it has a callback): where its own hash is kept it tells `forget` of the bucket. */
        ((PyWeakReference *)binding->references[i])->hash = (Py_hash_t)binding->hash;
    }
    binding->watch = watch ? watch_share(watch) : NULL;
    Binding **bucket = &self->buckets[binding->hash & (self->capacity - 1)];
    binding->next = *bucket;
    *bucket = self->last = binding;
    self->count++;
    return 0;
}

void
bindings_clear(PyObject *op)
{
    Bindings *self = (Bindings *)op;
    for (size_t i = 0; i < self->capacity; i++) {
        while (self->buckets[i]) {
            Binding *binding = self->buckets[i];
            take_out(self, binding);
            drop(self, binding);
        }
    }
}

Py_ssize_t
bindings_count(PyObject *op)
{
    return ((Bindings *)op)->count;
}

Watch *
bindings_last(PyObject *op)
{
    const Bindings *self = (Bindings *)op;
    return self->last ? self->last->watch : NULL;
}

/* ---- the weak references' callback ---- */

static int
has(const Bindings *self, const Binding *binding, const PyObject *reference)
{
    for (Py_ssize_t i = 0; i < self->roots; i++) {
        if (binding->references[i] == reference) {
            return 1;
        }
    }
    return 0;
}

static PyObject *
forget(PyObject *op, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    Bindings *self = (Bindings *)op;
    PyObject *reference = PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : NULL;
    if (reference == NULL || !PyWeakref_CheckRef(reference)) {
        Py_RETURN_NONE;
    }
    size_t hash = (size_t)((PyWeakReference *)reference)->hash;
    for (Binding *each = self->buckets[hash & (self->capacity - 1)]; each; each = each->next) {
        if (has(self, each, reference)) { /* and no other has */
            take_out(self, each);
            drop(self, each);
            break;
        }
    }
    Py_RETURN_NONE;
}

static void
bindings_dealloc(PyObject *op)
{
    Bindings *self = (Bindings *)op;
    if (self->buckets) {
        bindings_clear(op);
    }
    PyMem_Free(self->buckets);
    PyObject_Free(op);
}

PyTypeObject Bindings_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "capture._native.Bindings",
    .tp_basicsize = sizeof(Bindings),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "What a program about what lives on was found to hold for.",
    .tp_dealloc = bindings_dealloc,
    .tp_call = forget,
};
