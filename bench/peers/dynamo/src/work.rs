//! The work that is measured: a trace of requests as hashes of blocks, and the events that a worker would send.
//!
//! `rhizome bench index prehashed` makes the same hashes of content of the same trace (src/bench/prehashed_work.cc).

use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, RouterEvent, compute_seq_hash_for_block,
};
use rustc_hash::FxHashSet;

const TRACE_BLOCK_TOKENS: u64 = 512;
/// Everything is stored by one worker.
const WORKER: u64 = 0;

pub struct Request {
    /// Of each block's own content.
    pub local: Vec<LocalBlockHash>,
    /// Of each block and all before it: what events name it by.
    pub sequence: Vec<u64>,
    /// So many blocks, at the beginning, earlier requests have stored.
    pub known: usize,
}

pub struct Work {
    pub requests: Vec<Request>,
    pub looked_up: usize,
    pub stored: usize,
}

fn mix(mut word: u64) -> u64 {
    word ^= word >> 31;
    word = word.wrapping_mul(0x7fb5_d329_728e_a185);
    word ^= word >> 27;
    word = word.wrapping_mul(0x81da_def4_bc2d_d44d);
    word ^ (word >> 33)
}

/// The hash of part `part` of the trace's block `id`.
fn content_hash(id: u64, part: u64) -> LocalBlockHash {
    LocalBlockHash(mix((id << 8) + part + (1 << 50)))
}

fn hash_ids(line: &str) -> Result<Vec<u64>, String> {
    let object: serde_json::Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let ids = object["hash_ids"].as_array().ok_or("a line has no hash_ids")?;
    ids.iter().map(|id| id.as_u64().ok_or_else(|| "a hash id is no number".to_string())).collect()
}

impl Work {
    /// Reads a trace that is compressed with zstd.
    pub fn load(path: &str, block_tokens: u64) -> Result<Work, String> {
        let parts = TRACE_BLOCK_TOKENS / block_tokens;
        let file = std::fs::File::open(path).map_err(|error| format!("{path}: {error}"))?;
        let bytes = zstd::decode_all(file).map_err(|error| format!("{path}: {error}"))?;
        let text = String::from_utf8(bytes).map_err(|error| format!("{path}: {error}"))?;
        let mut stored = FxHashSet::default();
        let mut requests = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let ids = hash_ids(line).map_err(|error| format!("{path}: {error}"))?;
            let local: Vec<_> =
                ids.iter().flat_map(|id| (0..parts).map(move |part| content_hash(*id, part))).collect();
            let sequence = compute_seq_hash_for_block(&local);
            let known = sequence.iter().take_while(|hash| stored.contains(*hash)).count();
            stored.extend(sequence[known..].iter().copied());
            requests.push(Request { local, sequence, known });
        }
        let looked_up = requests.iter().map(|request| request.local.len()).sum();
        let stored = requests.iter().map(|request| request.local.len() - request.known).sum();
        Ok(Work { requests, looked_up, stored })
    }
}

/// That the blocks which nobody had stored before are stored. `with_position`: also at which place of the sequence.
pub fn stored_event(id: usize, request: &Request, with_position: bool) -> Option<RouterEvent> {
    let known = request.known;
    if known == request.local.len() {
        return None;
    }
    let blocks = (known..request.local.len())
        .map(|at| KvCacheStoredBlockData {
            block_hash: ExternalSequenceBlockHash(request.sequence[at]),
            tokens_hash: request.local[at],
            mm_extra_info: None,
        })
        .collect();
    let parent_hash = known.checked_sub(1).map(|last| ExternalSequenceBlockHash(request.sequence[last]));
    let start_position = with_position.then_some(known as u32);
    Some(event(id, KvCacheEventData::Stored(KvCacheStoreData { parent_hash, start_position, blocks })))
}

/// That the same blocks are gone, the last one first.
pub fn removed_event(id: usize, request: &Request) -> Option<RouterEvent> {
    if request.known == request.local.len() {
        return None;
    }
    let block_hashes =
        request.sequence[request.known..].iter().rev().map(|hash| ExternalSequenceBlockHash(*hash)).collect();
    Some(event(id, KvCacheEventData::Removed(KvCacheRemoveData { block_hashes })))
}

fn event(id: usize, data: KvCacheEventData) -> RouterEvent {
    RouterEvent::new(WORKER, KvCacheEvent { event_id: id as u64, dp_rank: 0, data })
}
