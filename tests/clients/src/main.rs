//! A workload on cudarc's safe API, as Rust programs use it: each step prints a digest of its bytes,
//! so that two runs can be compared.

use std::sync::Arc;

use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, DriverError, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;

/// More than one chunk, and none of them whole.
const WORDS: usize = (5 << 20) / 4 + 3;
const PTX: &str = include_str!("../../../demo/dnn/src/kernels.ptx");

type Result<T = Vec<u32>> = std::result::Result<T, DriverError>;
type Step = fn(&mut Gpu) -> Result;

/// What the steps share: two buffers that live through all of them, a stream, kernels.
struct Gpu {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    fill: CudaFunction,
    layer: CudaFunction,
    a: CudaSlice<u32>,
    b: CudaSlice<u32>,
}

fn main() -> Result<()> {
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let module = context.load_module(Ptx::from_src(PTX))?;
    let mut gpu = Gpu {
        fill: module.load_function("fill")?,
        layer: module.load_function("layer")?,
        a: stream.alloc_zeros(WORDS)?,
        b: stream.alloc_zeros(WORDS)?,
        context,
        stream,
    };
    let steps: [(&str, Step); 6] = [
        ("copies", copies),
        ("views", views),
        ("objects_come_and_go", objects_come_and_go),
        ("kernels", kernels),
        ("streams_and_events", streams_and_events),
        ("captured", captured),
    ];
    for (name, step) in steps {
        println!("{name} {:032x}", digest(&step(&mut gpu)?));
    }
    Ok(())
}

fn copies(gpu: &mut Gpu) -> Result {
    gpu.stream.memcpy_htod(&pattern(WORDS, 1), &mut gpu.a)?;
    gpu.stream.memcpy_dtod(&gpu.a, &mut gpu.b)?;
    let mut back = vec![0; WORDS];
    gpu.stream.memcpy_dtoh(&gpu.b, &mut back)?;
    gpu.stream.memset_zeros(&mut gpu.a)?;
    back.extend(gpu.stream.clone_dtoh(&gpu.a)?);
    gpu.stream.synchronize()?;
    Ok(back)
}

fn views(gpu: &mut Gpu) -> Result {
    let whole = pattern(WORDS, 2);
    gpu.stream.memcpy_htod(&whole, &mut gpu.a)?;
    for (start, words) in [(0, 1), (1 << 19, 7), (WORDS - 1, 1), (12_345, 400_000)] {
        let part = pattern(words, start as u32);
        let mut view = gpu.a.slice_mut(start..start + words);
        gpu.stream.memcpy_htod(&part, &mut view)?;
    }
    let view = gpu.a.slice(1000..WORDS - 1000);
    let mut target = gpu.b.slice_mut(7..WORDS - 1993);
    gpu.stream.memcpy_dtod(&view, &mut target)?;
    let mut back = gpu.stream.clone_dtoh(&gpu.a)?;
    back.extend(gpu.stream.clone_dtoh(&gpu.b)?);
    gpu.stream.synchronize()?;
    Ok(back)
}

fn objects_come_and_go(gpu: &mut Gpu) -> Result {
    let (mut live, mut back) = (Vec::new(), Vec::new());
    for turn in 0..9 {
        let words = 70_000 + 30_011 * turn;
        live.push(gpu.stream.clone_htod(&pattern(words, turn as u32))?);
        if turn % 3 == 2 {
            back.extend(gpu.stream.clone_dtoh(&live.swap_remove(turn % 2))?);
        }
    }
    for slice in live {
        back.extend(gpu.stream.clone_dtoh(&slice)?);
    }
    gpu.stream.synchronize()?;
    Ok(back)
}

/// `b = b · k + a`, word by word, in a kernel.
fn run_layer(gpu: &mut Gpu) -> Result<()> {
    let words = WORDS as u64;
    let mut launch = gpu.stream.launch_builder(&gpu.layer);
    launch.arg(&mut gpu.b).arg(&words).arg(&gpu.a).arg(&words);
    // SAFETY: the kernel's four parameters, of buffers that have as many words.
    unsafe { launch.launch(LaunchConfig::for_num_elems(4096)) }?;
    Ok(())
}

fn kernels(gpu: &mut Gpu) -> Result {
    let words = WORDS as u64;
    for seed in 0..4_u32 {
        let mut launch = gpu.stream.launch_builder(&gpu.fill);
        launch.arg(&mut gpu.a).arg(&words).arg(&seed);
        // SAFETY: the kernel's three parameters, of a buffer that has as many words.
        unsafe { launch.launch(LaunchConfig::for_num_elems(4096)) }?;
        run_layer(gpu)?;
    }
    let back = gpu.stream.clone_dtoh(&gpu.b)?;
    gpu.stream.synchronize()?;
    Ok(back)
}

fn streams_and_events(gpu: &mut Gpu) -> Result {
    let other = gpu.context.new_stream()?;
    let mut back = Vec::new();
    for turn in 0..3 {
        gpu.stream
            .memcpy_htod(&pattern(WORDS, 10 + turn), &mut gpu.a)?;
        let written = gpu.stream.record_event(None)?;
        other.wait(&written)?;
        let copy = other.clone_dtod(&gpu.a)?;
        back.extend(other.clone_dtoh(&copy)?);
        gpu.stream.join(&other)?;
    }
    other.synchronize()?;
    Ok(back)
}

fn captured(gpu: &mut Gpu) -> Result {
    gpu.stream.synchronize()?;
    // A capture may not wait for events from before it; what is made from here on has none.
    // SAFETY: from here on there is one stream.
    unsafe { gpu.context.disable_event_tracking() };
    gpu.a = gpu.stream.clone_htod(&pattern(WORDS, 20))?;
    gpu.b = gpu.stream.clone_htod(&pattern(WORDS, 21))?;
    gpu.stream.synchronize()?;
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    gpu.stream.begin_capture(mode)?;
    let launched = run_layer(gpu);
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = gpu
        .stream
        .end_capture(flags)?
        .expect("a launch was captured");
    launched?;
    for _ in 0..3 {
        graph.launch()?;
    }
    let back = gpu.stream.clone_dtoh(&gpu.b)?;
    gpu.stream.synchronize()?;
    Ok(back)
}

/// Words that no other seed gives.
fn pattern(words: usize, seed: u32) -> Vec<u32> {
    let mut state = u64::from(seed) << 1 | 1;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    std::iter::repeat_with(next).take(words).collect()
}

/// FNV-1a in 128 bits.
fn digest(words: &[u32]) -> u128 {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}
