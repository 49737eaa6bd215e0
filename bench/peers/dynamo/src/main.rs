//! Measures one indexer of the crate `dynamo-kv-router` on a trace, in one thread's work, and prints one line of JSON.
//! See ../README.md for what is measured.

mod machine;
mod peers;
mod work;

use machine::prefault_heap;
use peers::Pass;
use work::Work;

const USAGE: &str = "usage: dynamo_peer TRACE.jsonl.zst crtc|radix|positional 16|512 PASSES";
/// More than any of them takes at 16-token blocks.
const HEAP_MEBIBYTES: usize = 3500;

fn median(passes: &[Pass], value: impl Fn(&Pass) -> f64) -> f64 {
    let mut values: Vec<f64> = passes.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure(arguments: &[String]) -> Result<String, String> {
    let [trace, peer, block_tokens, passes] = arguments else { return Err(USAGE.to_string()) };
    let block_tokens: u64 = block_tokens.parse().map_err(|_| USAGE.to_string())?;
    let passes: usize = passes.parse().map_err(|_| USAGE.to_string())?;
    if !peers::NAMES.contains(&peer.as_str()) || ![16, 512].contains(&block_tokens) || passes == 0 {
        return Err(USAGE.to_string());
    }
    let work = Work::load(trace, block_tokens)?;
    let run = || peers::run(peer, &work).ok_or_else(|| USAGE.to_string());
    let first = run()?; // for its memory, which has to come from the kernel then
    prefault_heap(HEAP_MEBIBYTES);
    let timed = (0..passes).map(|_| run()).collect::<Result<Vec<Pass>, String>>()?;
    let stored = work.stored as f64;
    let operations = (work.looked_up + work.stored) as f64;
    let wrong: usize = first.wrong + timed.iter().map(|pass| pass.wrong).sum::<usize>();
    Ok(serde_json::json!({
        "peer": peer,
        "block_tokens": block_tokens,
        "requests": work.requests.len(),
        "looked_up": work.looked_up,
        "stored": work.stored,
        "trace_m_block_operations_per_s": median(&timed, |pass| operations * 1e3 / (pass.lookup_ns + pass.store_ns)),
        "lookup_ns": median(&timed, |pass| pass.lookup_ns / work.looked_up as f64),
        "store_ns": median(&timed, |pass| pass.store_ns / stored),
        "remove_ns": median(&timed, |pass| pass.remove_ns / stored),
        "bytes_per_block": first.bytes / stored,
        "wrong": wrong,
    })
    .to_string())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match measure(&arguments) {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("dynamo_peer: {error}");
            std::process::exit(1);
        }
    }
}
