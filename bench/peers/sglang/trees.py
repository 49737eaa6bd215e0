"""SGLang's two prefix trees behind one interface, each called as SGLang's own caches and scheduler call it.

A tree of either kind takes sequences of 64-bit numbers, "tokens" to it. With pages of one token, each number is the
hash of a block. What it is asked for:

look_up(keys)        how many keys match, and a reference to where they end, taken: nothing up to there is evicted
insert(keys, slots)  stores what is missing; `slots` is a tensor with a place for each key
release(reference)   gives back what look_up() took
evict_all()          leaf by leaf, in the order of its own; neither can be told by hash what is gone
"""

NAMES = ('rust', 'python')


def load(name):
    """Imports what the tree needs; a function that makes a new tree."""
    return {'rust': load_rust, 'python': load_python}[name]()


def load_rust():
    """TreeCore, the default core of SGLang's UnifiedRadixCache, on its binding."""
    from sglang.srt.mem_cache.rust_tree_core.extension import bindings

    # Of the kinds of values that SGLang knows: keys and values of full attention.
    full = 0

    class RustTree:
        def __init__(self):
            options = bindings.TreeCoreInitParamsBinding(eviction_policy='lru', page_size=1, device='cpu')
            self.core = bindings.RustUnifiedTreeCoreBinding(options, [full])

        def look_up(self, keys):
            found = self.core.match_prefix(bindings.MatchParamsBinding(keys))
            return found.device_prefix_len, self.core.inc_lock_ref(found.last_device_node_id, [])

        def insert(self, keys, slots):
            step = self.core.begin_insert(bindings.InsertParamsBinding(keys, slots))
            while step.result is None:
                step = self.core.resume_insert()
            self.core.end_insert()

        def release(self, reference):
            taken = bindings.DecLockRefParamsBinding(
                node_id=reference.node_id,
                skipped_lock_components=reference.skipped_lock_components,
                component_lock_uuids=reference.component_lock_uuids,
                component_host_lock_uuids=reference.component_host_lock_uuids)
            self.core.dec_lock_ref(reference.node_id, taken, False)

        def evict_all(self):
            evicted = 0
            self.core.evict_device_start(full, self.core.full_evictable_size())
            while True:
                step = self.core.evict_device_next_node(full, {full: evicted})
                evicted += step.tracker.get(full, 0)
                if step.node_id is not None:
                    evicted += self.core.evict_device_leaf(step.node_id).tracker.get(full, 0)
                elif not step.made_progress:
                    break
            self.core.evict_device_end(full)

    return RustTree


def load_python():
    """RadixCache."""
    from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
    from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey

    class NoPool:
        """Takes back the slots of what is evicted."""
        device = 'cpu'

        def free_segment(self, slots, start_pos):
            pass

    class PythonTree:
        def __init__(self):
            self.cache = RadixCache.create_simulated(mock_allocator=NoPool(), page_size=1)

        def look_up(self, keys):
            found = self.cache.match_prefix(MatchPrefixParams(key=RadixKey(keys)))
            self.cache.inc_lock_ref(found.last_device_node)
            return found.device_prefix_len, found.last_device_node

        def insert(self, keys, slots):
            self.cache.insert(InsertParams(key=RadixKey(keys), value=slots))

        def release(self, reference):
            self.cache.dec_lock_ref(reference)

        def evict_all(self):
            self.cache.evict(EvictParams(num_tokens=self.cache.evictable_size()))

    return PythonTree
