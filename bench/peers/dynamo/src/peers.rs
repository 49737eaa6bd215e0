//! One pass of the work over each of the crate's indexers: every request is looked up, then its new blocks are stored.
//! At the end all blocks are removed by their hashes.

use std::sync::Arc;

use dynamo_kv_router::RadixTree;
use dynamo_kv_router::indexer::concurrent_radix_tree_compressed::ConcurrentRadixTreeCompressed;
use dynamo_kv_router::indexer::positional::{PositionalIndexer, SearchMode};
use dynamo_kv_router::indexer::{SyncIndexer, WorkerTask};
use dynamo_kv_router::protocols::{OverlapScores, RouterEvent};
use rustc_hash::FxHashMap;

use crate::machine::{resident_bytes, thread_cpu_ns, timed};
use crate::work::{Work, removed_event, stored_event};

#[derive(Default)]
pub struct Pass {
    pub lookup_ns: f64,
    pub store_ns: f64,
    pub remove_ns: f64,
    pub bytes: f64,
    /// Look-ups whose match has another length than it must have.
    pub wrong: usize,
}

pub const NAMES: [&str; 3] = ["crtc", "radix", "positional"];

pub fn run(name: &str, work: &Work) -> Option<Pass> {
    match name {
        "crtc" => Some(run_crtc(work)),
        "radix" => Some(run_radix(work)),
        "positional" => Some(run_positional(work)),
        _ => None,
    }
}

fn matched(scores: &OverlapScores) -> usize {
    scores.scores.values().copied().max().unwrap_or(0) as usize
}

/// The single-threaded tree.
fn run_radix(work: &Work) -> Pass {
    let mut pass = Pass::default();
    let before = resident_bytes();
    let mut tree = RadixTree::new();
    for (id, request) in work.requests.iter().enumerate() {
        let asked = request.local.clone(); // the interface takes a vector; copying it is not timed
        let scores = timed(&mut pass.lookup_ns, || tree.find_matches(asked, false));
        pass.wrong += usize::from(matched(&scores) != request.known);
        if let Some(event) = stored_event(id, request, false) {
            timed(&mut pass.store_ns, || tree.apply_event(event)).expect("an event is refused");
        }
    }
    pass.bytes = resident_bytes() - before;
    for (id, request) in work.requests.iter().enumerate().rev() {
        if let Some(event) = removed_event(id, request) {
            timed(&mut pass.remove_ns, || tree.apply_event(event)).expect("an event is refused");
        }
    }
    for request in &work.requests {
        pass.wrong += usize::from(matched(&tree.find_matches(request.local.clone(), false)) != 0);
    }
    pass
}

/// "Flash": one map a position, searched by halves.
fn run_positional(work: &Work) -> Pass {
    let mut pass = Pass::default();
    let before = resident_bytes();
    let tree = PositionalIndexer::new_with_mode(32, SearchMode::Binary);
    let mut blocks_of_worker = FxHashMap::default();
    for (id, request) in work.requests.iter().enumerate() {
        let scores = timed(&mut pass.lookup_ns, || tree.find_matches(&request.local, false));
        pass.wrong += usize::from(matched(&scores) != request.known);
        if let Some(event) = stored_event(id, request, true) {
            timed(&mut pass.store_ns, || tree.apply_event(&mut blocks_of_worker, event, None))
                .expect("an event is refused");
        }
    }
    pass.bytes = resident_bytes() - before;
    for (id, request) in work.requests.iter().enumerate().rev() {
        if let Some(event) = removed_event(id, request) {
            timed(&mut pass.remove_ns, || tree.apply_event(&mut blocks_of_worker, event, None))
                .expect("an event is refused");
        }
    }
    for request in &work.requests {
        pass.wrong += usize::from(matched(&tree.find_matches(&request.local, false)) != 0);
    }
    pass
}

/// The default. Events are applied only inside a worker's loop: look-ups are timed while one stores what they missed,
/// one event at a time; stores and removals are timed apart, each as one loop over a channel that holds all events
/// already, so that nobody is woken up.
fn run_crtc(work: &Work) -> Pass {
    let mut pass = Pass::default();
    look_up_beside_a_worker(work, &mut pass);
    let stored = || work.requests.iter().enumerate().filter_map(|(id, request)| stored_event(id, request, false));
    let removed = || work.requests.iter().enumerate().rev().filter_map(|(id, request)| removed_event(id, request));
    let (_, store_ns) = applied_by_one_loop(stored());
    let (tree, both_ns) = applied_by_one_loop(stored().chain(removed()));
    pass.store_ns = store_ns;
    pass.remove_ns = both_ns - store_ns;
    for request in &work.requests {
        pass.wrong += usize::from(matched(&tree.find_matches(&request.local, false)) != 0);
    }
    pass
}

fn look_up_beside_a_worker(work: &Work, pass: &mut Pass) {
    let before = resident_bytes();
    let tree = Arc::new(ConcurrentRadixTreeCompressed::new());
    let (sender, receiver) = flume::unbounded();
    let of_worker = tree.clone();
    let worker = std::thread::spawn(move || of_worker.worker(receiver, None));
    for (id, request) in work.requests.iter().enumerate() {
        let scores = timed(&mut pass.lookup_ns, || tree.find_matches(&request.local, false));
        pass.wrong += usize::from(matched(&scores) != request.known);
        if let Some(event) = stored_event(id, request, false) {
            let (resp, applied) = tokio::sync::oneshot::channel();
            sender.send(WorkerTask::EventWithAck { event, resp }).expect("the worker is gone");
            assert!(applied.blocking_recv().expect("the worker is gone"), "an event is refused");
        }
    }
    pass.bytes = resident_bytes() - before;
    drop(sender);
    worker.join().expect("the worker fell").expect("the worker failed");
}

fn applied_by_one_loop(events: impl Iterator<Item = RouterEvent>) -> (ConcurrentRadixTreeCompressed, f64) {
    let tree = ConcurrentRadixTreeCompressed::new();
    let (sender, receiver) = flume::unbounded();
    for event in events {
        sender.send(WorkerTask::Event(event)).expect("the channel is open");
    }
    drop(sender);
    let start = thread_cpu_ns();
    tree.worker(receiver, None).expect("the worker failed");
    let ns = thread_cpu_ns() - start;
    (tree, ns)
}
