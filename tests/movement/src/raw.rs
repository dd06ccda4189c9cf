//! Plain asynchronous copies between the GPU and pinned memory: what the link gives.

use std::ptr;
use std::time::{Duration, Instant};

use anyhow::Result;
use rtswap_conformance::cuda::Stream;
use rtswap_conformance::expect;
use rtswap_conformance::gpu::Gpu;

use crate::report::Rates;

/// CU_MEMHOSTALLOC_PORTABLE, as the agent pins.
const PORTABLE: u32 = 1;

/// As much on the GPU as pinned on the host, for each direction, and a stream for each.
pub(crate) struct Buffers<'gpu> {
    gpu: &'gpu Gpu,
    bytes: usize,
    device: [u64; 2],
    host: [usize; 2],
    streams: [Stream; 2],
}

/// GiB/s of so many bytes.
pub(crate) fn rate(bytes: usize, took: Duration) -> f64 {
    bytes as f64 / f64::from(1 << 30) / took.as_secs_f64()
}

impl<'gpu> Buffers<'gpu> {
    pub(crate) fn new(gpu: &'gpu Gpu, bytes: usize) -> Result<Self> {
        let mut buffers = Self {
            gpu,
            bytes,
            device: [0; 2],
            host: [0; 2],
            streams: [gpu.stream(false)?, gpu.stream(false)?],
        };
        for way in 0..2 {
            buffers.device[way] = gpu.alloc(bytes)?;
            expect!(cuMemsetD8_v2(buffers.device[way], 1, bytes))?;
            let mut host = ptr::null_mut();
            expect!(cuMemHostAlloc(&raw mut host, bytes, PORTABLE))?;
            buffers.host[way] = host.expose_provenance();
        }
        expect!(cuCtxSynchronize())?;
        Ok(buffers)
    }

    /// Puts the copies of one direction in its stream, of `chunk` bytes each but for the last, which may be smaller.
    pub(crate) fn enqueue(&self, way: usize, chunk: usize) -> Result<()> {
        let stream = self.streams[way];
        for at in (0..self.bytes).step_by(chunk) {
            let host = ptr::with_exposed_provenance_mut(self.host[way] + at);
            let device = self.device[way] + at as u64;
            let chunk = chunk.min(self.bytes - at);
            if way == 0 {
                expect!(cuMemcpyDtoHAsync_v2(host, device, chunk, stream))?;
            } else {
                expect!(cuMemcpyHtoDAsync_v2(device, host, chunk, stream))?;
            }
        }
        Ok(())
    }

    /// Waits for one direction.
    pub(crate) fn wait(&self, way: usize) -> Result<()> {
        expect!(cuStreamSynchronize(self.streams[way]))
    }

    /// Whether both directions still copy.
    pub(crate) fn are_busy(&self) -> bool {
        self.streams.iter().all(|stream| self.gpu.is_busy(*stream))
    }

    fn time(&self, ways: &[usize], chunk: usize, rounds: u32) -> Result<Duration> {
        let mut best = Duration::MAX;
        for _ in 0..rounds {
            let start = Instant::now();
            for way in ways {
                self.enqueue(*way, chunk)?;
            }
            for way in ways {
                self.wait(*way)?;
            }
            best = best.min(start.elapsed());
        }
        Ok(best)
    }

    /// Each direction alone, `chunk` bytes at a time.
    pub(crate) fn copy(&self, chunk: usize, rounds: u32) -> Result<Rates> {
        Ok(Rates {
            out: rate(self.bytes, self.time(&[0], chunk, rounds)?),
            into: rate(self.bytes, self.time(&[1], chunk, rounds)?),
        })
    }

    /// ρ: the slower direction alone over both at once.
    pub(crate) fn duplex(&self, chunk: usize, rounds: u32) -> Result<f64> {
        let out = self.time(&[0], chunk, rounds)?;
        let into = self.time(&[1], chunk, rounds)?;
        let both = self.time(&[0, 1], chunk, rounds)?;
        Ok(out.max(into).as_secs_f64() / both.as_secs_f64())
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        for way in 0..2 {
            let host = ptr::with_exposed_provenance_mut(self.host[way]);
            let ended = self
                .gpu
                .end(self.streams[way])
                .and_then(|()| self.gpu.free(self.device[way]))
                .and_then(|()| expect!(cuMemFreeHost(host)));
            if let Err(error) = ended {
                eprintln!("movement: {error:#}");
            }
        }
    }
}
