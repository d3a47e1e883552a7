/* Longest paths in a graph whose nodes are in topological order: trace/dag.py says what is computed. */

/* Node i finishes at own[i] + max over its edges e in [first[i], first[i + 1]) of finish[source[e]] + weight[e],
 * at own[i] without edges.  binding[i]: the first edge that reaches the maximum, -1 without edges. */
static void dag_earliest(size_t n, const int64_t *first, const int32_t *source, const int64_t *weight,
                         const int64_t *own, int64_t *finish, int64_t *binding) {
    for (size_t i = 0; i < n; i++) {
        int64_t best = 0, edge = -1;
        for (int64_t e = first[i]; e < first[i + 1]; e++) {
            int64_t at = finish[source[e]] + weight[e];
            if (edge < 0 || at > best) {
                best = at;
                edge = e;
            }
        }
        finish[i] = best + own[i];
        binding[i] = edge;
    }
}

/* How late every node may finish so that no node finishes after its value in `finish`, which is changed. */
static void dag_latest(size_t n, const int64_t *first, const int32_t *source, const int64_t *weight,
                       const int64_t *own, int64_t *finish) {
    for (size_t i = n; i-- > 0;)
        for (int64_t e = first[i]; e < first[i + 1]; e++) {
            int64_t at = finish[i] - own[i] - weight[e];
            if (at < finish[source[e]]) finish[source[e]] = at;
        }
}

/* The nodes from `node` back along the deciding edges, until one that finishes by `begin` or has no edge; how many.
 * `nodes`, where it is given, receives them. */
static size_t dag_path(const int32_t *source, const int64_t *binding, const int64_t *finish, int64_t begin, int64_t node,
                       int64_t *nodes) {
    for (size_t count = 0;; node = source[binding[node]]) {
        if (nodes) nodes[count] = node;
        count++;
        if (binding[node] < 0 || finish[node] <= begin) return count;
    }
}
