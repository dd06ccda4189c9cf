//! A plain program that holds memory, for the agent or the driver to move; it says whether its bytes are what they were.

use std::io::stdin;

use anyhow::Result;
use rtswap_conformance::expect;
use rtswap_conformance::gpu::Gpu;

use crate::MIB;

/// Says `ready` when it has written each chunk, and after a line of input how many of the words that it looks at are not
/// what they were.
pub(crate) fn hold(chunks: u64, chunk_mib: u64) -> Result<()> {
    let gpu = Gpu::open()?;
    let chunk = chunk_mib * MIB;
    let at = gpu.alloc((chunks * chunk) as usize)?;
    for number in 0..chunks {
        let words = chunk / 4;
        gpu.fill(0, at + number * chunk, words, number as u32)?;
    }
    expect!(cuCtxSynchronize())?;
    let before = look(at, chunks, chunk)?;
    println!("ready");
    stdin().read_line(&mut String::new())?;
    let after = look(at, chunks, chunk)?;
    let wrong = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    println!("wrong {wrong}");
    gpu.free(at)
}

/// Words of each chunk: at its start, in its middle and at its end.
fn look(at: u64, chunks: u64, chunk: u64) -> Result<Vec<u32>> {
    let mut words = Vec::new();
    for number in 0..chunks {
        for within in [0, chunk / 2, chunk - 4] {
            let mut word = 0_u32;
            let from = at + number * chunk + within;
            expect!(cuMemcpyDtoH_v2((&raw mut word).cast(), from, 4))?;
            words.push(word);
        }
    }
    Ok(words)
}
