//! Graphs, captured and built, and what captures forbid.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use simgpu_core::config::{Config, GpuConfig, Size};
use simgpu_core::driver::{
    CaptureMode, Context, CopySide, Driver, Event, GraphMemoryAttribute, HostKind, Kernel, NewNode,
    SetShape, Stream, exchange_capture_mode,
};
use simgpu_core::{Error, Observer};

const MIB: u64 = 1 << 20;
const NON_BLOCKING: u32 = 1;
const UNSUPPORTED: Result<(), Error> = Err(Error::StreamCaptureUnsupported);
const INVALIDATED: Error = Error::StreamCaptureInvalidated;

/// A driver call that a test makes more than once.
type Call<'a> = &'a dyn Fn() -> Result<(), Error>;

struct Machine {
    dir: tempfile::TempDir,
    driver: Driver,
    context: Arc<Context>,
}

fn machine() -> Machine {
    let gpu = GpuConfig {
        memory: Size(32 * MIB),
        context_bytes: Size(2 * MIB),
        h2d_gib_per_s: 2.0,
        d2h_gib_per_s: 2.0,
        ..GpuConfig::default()
    };
    let config = Config {
        gpus: vec![gpu],
        ..Config::default()
    };
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let driver = Driver::attach(dir.path(), Some(&config)).unwrap();
    let context = driver.retain_primary(0).unwrap();
    Machine {
        dir,
        driver,
        context,
    }
}

impl Machine {
    fn stream(&self) -> Arc<Stream> {
        self.context.create_stream(NON_BLOCKING, 0).unwrap()
    }

    fn begin(&self, stream: &Arc<Stream>, mode: CaptureMode) {
        self.context.begin_capture(stream, mode, None).unwrap();
    }

    /// What was captured, to be launched.
    fn end(&self, stream: &Stream) -> usize {
        let graph = self.context.end_capture(stream).unwrap();
        let graph = self.driver.graphs.insert(&graph);
        self.driver.instantiate(graph, 0).unwrap()
    }

    fn words(&self, address: u64, count: usize) -> Vec<u32> {
        let mut words = vec![0_u32; count];
        let to = CopySide::Host(words.as_mut_ptr().expose_provenance());
        let from = CopySide::Device(address);
        let stream = self.context.legacy_stream();
        self.context
            .copy(stream, to, from, count * 4, true)
            .unwrap();
        words
    }

    fn set(&self, stream: &Stream, address: u64, word: u32) -> Result<(), Error> {
        self.context.set(stream, address, word, 4, 100)
    }
}

#[test]
fn captured_work_runs_when_launched_and_every_time() {
    let it = machine();
    let stream = it.stream();
    let [one, two] = [0, 1].map(|_| it.context.alloc(400).unwrap());
    for address in [one, two] {
        it.set(&stream, address, 0).unwrap();
    }
    it.context.synchronize().unwrap();
    it.begin(&stream, CaptureMode::Global);
    it.set(&stream, one, 1).unwrap();
    it.context
        .launch(&stream, Kernel::Axpy, vec![two, one, 100, 5])
        .unwrap();
    let info = it.context.capture_info(&stream).unwrap().unwrap();
    assert!(info.is_valid && info.tips.len() == 1);
    let exec = it.end(&stream);
    assert_eq!(it.context.capture_info(&stream), Ok(None));
    assert_eq!(it.words(two, 1), [0], "only recorded");
    for times in 1..4 {
        it.driver.launch_graph(&it.context, &stream, exec).unwrap();
        it.context.synchronize().unwrap();
        assert_eq!(it.words(two, 100), [5 * times; 100]);
    }
    let observer = Observer::open(it.dir.path()).unwrap();
    let processes = observer.processes();
    let launches = &processes[0].gpus[0].graph_launches;
    assert_eq!(launches.load(std::sync::atomic::Ordering::Relaxed), 3);
    it.driver.destroy_exec(exec).unwrap();
    assert_eq!(
        it.driver.launch_graph(&it.context, &stream, exec),
        Err(Error::InvalidValue)
    );
}

#[test]
fn a_capture_spreads_over_events_and_has_to_be_joined() {
    let it = machine();
    let [one, two] = [0, 1].map(|_| it.stream());
    let [fork, join] = [0, 1].map(|_| Event::new(2).unwrap());
    let address = it.context.alloc(400).unwrap();
    let spread = || {
        it.begin(&one, CaptureMode::Global);
        fork.record(&one).unwrap();
        fork.hold_back(&two).unwrap();
        it.set(&two, address, 7).unwrap();
        join.record(&two).unwrap();
    };
    spread();
    join.hold_back(&one).unwrap();
    let exec = it.end(&one);
    assert_eq!(it.context.capture_info(&two), Ok(None));
    it.driver.launch_graph(&it.context, &one, exec).unwrap();
    it.context.synchronize().unwrap();
    assert_eq!(it.words(address, 100), [7; 100]);

    spread();
    let unjoined = it.context.end_capture(&one).err();
    assert_eq!(unjoined, Some(Error::StreamCaptureUnjoined));
    spread();
    let unmatched = it.context.end_capture(&two).err();
    assert_eq!(unmatched, Some(Error::StreamCaptureUnmatched));
    // That broke it; ending it is still to be done.
    assert_eq!(it.context.end_capture(&one).err(), Some(INVALIDATED));
    // The event of a capture that is over leads nowhere.
    assert_eq!(join.query(), Err(Error::CapturedEvent));
    assert_eq!(join.hold_back(&one), Err(Error::CapturedEvent));
    // What is outside cannot be waited for from inside.
    fork.record(&two).unwrap();
    it.begin(&one, CaptureMode::Relaxed);
    assert_eq!(fork.hold_back(&one), Err(Error::StreamCaptureIsolation));
    assert_eq!(it.context.end_capture(&one).err(), Some(INVALIDATED));
}

#[test]
fn calls_that_may_wait_break_captures_that_forbid_it() {
    let it = machine();
    let [stream, other] = [0, 1].map(|_| it.stream());
    let event = Event::new(0).unwrap();
    event.record(&other).unwrap();
    let calls: [(&str, Call<'_>); 6] = [
        ("alloc", &|| it.context.alloc(100).map(drop)),
        ("query", &|| event.query()),
        ("wait", &|| event.wait()),
        ("other stream", &|| it.context.synchronize_stream(&other)),
        ("host", &|| it.context.alloc_host(100, 0).map(drop)),
        ("free host", &|| {
            it.driver.remove_host(1, HostKind::Allocated)
        }),
    ];
    for (name, call) in calls {
        for mode in [CaptureMode::Global, CaptureMode::ThreadLocal] {
            it.begin(&stream, mode);
            assert_eq!(call(), UNSUPPORTED, "{name}");
            assert_eq!(it.set(&stream, 0, 1), Err(INVALIDATED), "{name}");
            assert_eq!(
                it.context.end_capture(&stream).err(),
                Some(INVALIDATED),
                "{name}"
            );
        }
        it.begin(&stream, CaptureMode::Relaxed);
        assert_ne!(call(), UNSUPPORTED, "{name}");
        it.context.end_capture(&stream).unwrap();
        it.begin(&stream, CaptureMode::Global);
        let before = exchange_capture_mode(CaptureMode::Relaxed);
        assert_eq!(before, CaptureMode::Global);
        assert_ne!(call(), UNSUPPORTED, "{name}");
        exchange_capture_mode(before);
        it.context.end_capture(&stream).unwrap();
    }
}

#[test]
fn other_threads_are_forbidden_by_global_captures_alone() {
    let it = machine();
    let stream = it.stream();
    let elsewhere = || thread::scope(|scope| scope.spawn(|| it.context.alloc(1).map(drop)).join());
    it.begin(&stream, CaptureMode::ThreadLocal);
    assert_eq!(elsewhere().unwrap(), Ok(()));
    let wrong = thread::scope(|scope| scope.spawn(|| it.context.end_capture(&stream).err()).join());
    assert_eq!(wrong.unwrap(), Some(Error::StreamCaptureWrongThread));
    it.context.end_capture(&stream).unwrap();
    it.begin(&stream, CaptureMode::Global);
    assert_eq!(elsewhere().unwrap(), UNSUPPORTED);
    assert_eq!(it.context.end_capture(&stream).err(), Some(INVALIDATED));
}

#[test]
fn what_captures_cannot_be_waited_for_in_any_mode() {
    let it = machine();
    let stream = it.stream();
    let context = &it.context;
    let calls: [Call<'_>; 3] = [
        &|| context.synchronize(),
        &|| context.synchronize_stream(&stream),
        &|| context.is_idle(&stream).map(drop),
    ];
    for call in calls {
        it.begin(&stream, CaptureMode::Relaxed);
        assert_eq!(call(), UNSUPPORTED);
        assert_eq!(context.end_capture(&stream).err(), Some(INVALIDATED));
    }
    // The legacy stream would have to wait for a blocking one.
    let blocking = context.create_stream(0, 0).unwrap();
    let address = context.alloc(400).unwrap();
    it.begin(&blocking, CaptureMode::Relaxed);
    let implicit = Err(Error::StreamCaptureImplicit);
    assert_eq!(it.set(context.legacy_stream(), address, 1), implicit);
    assert_eq!(context.end_capture(&blocking).err(), Some(INVALIDATED));
    it.begin(&stream, CaptureMode::Relaxed);
    it.set(context.legacy_stream(), address, 1).unwrap();
    context.end_capture(&stream).unwrap();
    let legacy = context.begin_capture(context.legacy_stream(), CaptureMode::Relaxed, None);
    assert_eq!(legacy.err(), Some(Error::StreamCaptureUnsupported));
    assert_eq!(
        context.end_capture(&stream).err(),
        Some(Error::IllegalState)
    );
}

#[test]
fn graphs_allocate_their_own_memory() {
    let it = machine();
    let stream = it.stream();
    let result = it.context.alloc(8).unwrap();
    it.set(&stream, result & !511, 0).unwrap();
    it.context.synchronize().unwrap();
    let used = || {
        it.driver
            .graph_memory(0, GraphMemoryAttribute::Used)
            .unwrap()
    };
    let reserved = || {
        it.driver
            .graph_memory(0, GraphMemoryAttribute::Reserved)
            .unwrap()
    };
    let free = it.driver.memory_info(0).0;
    it.begin(&stream, CaptureMode::Global);
    let memory = it.driver.alloc_async(&stream, None, 3 * MIB).unwrap();
    it.context
        .launch(&stream, Kernel::Fill, vec![memory, 1000, 9])
        .unwrap();
    it.context
        .launch(&stream, Kernel::Checksum, vec![result, memory, 1000])
        .unwrap();
    it.driver.free_async(&stream, memory).unwrap();
    let exec = it.end(&stream);
    assert_eq!(it.driver.memory_info(0).0, free, "an address is no memory");
    for _ in 0..2 {
        it.driver.launch_graph(&it.context, &stream, exec).unwrap();
    }
    it.context.synchronize().unwrap();
    assert_ne!(it.words(result, 2), [0, 0]);
    assert_eq!((used(), reserved()), (0, 4 * MIB));
    assert_eq!(it.driver.memory_info(0).0, free - 4 * MIB);
    it.driver.trim_graph_memory(0).unwrap();
    assert_eq!(it.driver.memory_info(0).0, free);
    it.driver.destroy_exec(exec).unwrap();

    // Not freed by the graph: it is the program's to free.
    let graph = it.driver.create_graph();
    let (node, memory) = it.driver.add_alloc_node(graph, &[], 0, 100).unwrap();
    let exec = it.driver.instantiate(graph, 0).unwrap();
    assert_eq!(it.driver.alloc_node(node), Ok((memory, 100)));
    it.driver.launch_graph(&it.context, &stream, exec).unwrap();
    let again = it.driver.launch_graph(&it.context, &stream, exec);
    assert_eq!(again, Err(Error::InvalidValue));
    it.set(&stream, memory, 3).unwrap();
    it.context.synchronize().unwrap();
    assert_eq!(it.words(memory, 100), [3; 100]);
    it.driver.destroy_exec(exec).unwrap();
    it.driver.destroy_graph(graph).unwrap();
    assert_eq!(used(), 2 * MIB, "it outlives its graph");
    it.driver.free_async(&stream, memory).unwrap();
    it.context.synchronize().unwrap();
    it.driver.trim_graph_memory(0).unwrap();
    assert_eq!((used(), it.driver.memory_info(0).0), (0, free));
    let high = GraphMemoryAttribute::ReservedHigh;
    assert_eq!(it.driver.graph_memory(0, high), Ok(4 * MIB));
    it.driver.reset_graph_memory(0, high).unwrap();
    assert_eq!(it.driver.graph_memory(0, high), Ok(0));
}

#[test]
fn graphs_are_built_by_hand_changed_and_copied() {
    let it = machine();
    let stream = it.stream();
    let [one, two] = [0, 1].map(|_| it.context.alloc(400).unwrap());
    let set = |dst, pattern| {
        NewNode::Set(SetShape {
            dst,
            pattern,
            width: 4,
            count: 100,
            rows: 1,
            pitch: 0,
        })
    };
    let add = |a| NewNode::Kernel(Kernel::Axpy, vec![two, one, 100, a]);
    let graph = it.driver.create_graph();
    let first = it.driver.add_node(graph, &[], set(one, 3)).unwrap();
    let clear = it.driver.add_node(graph, &[], set(two, 1)).unwrap();
    let sum = it.driver.add_node(graph, &[first, clear], add(2)).unwrap();
    let exec = it.driver.instantiate(graph, 0).unwrap();
    let launch = |exec| {
        it.driver.launch_graph(&it.context, &stream, exec).unwrap();
        it.context.synchronize().unwrap();
        it.words(two, 1)[0]
    };
    assert_eq!(launch(exec), 7);
    it.driver.set_exec_node(exec, sum, add(10)).unwrap();
    assert_eq!(launch(exec), 31);
    let other_kind = it.driver.set_exec_node(exec, sum, NewNode::Empty);
    assert_eq!(other_kind, Err(Error::InvalidValue));
    // The graph itself has not changed.
    let copy = it.driver.clone_graph(graph).unwrap();
    assert_eq!(launch(it.driver.instantiate(copy, 0).unwrap()), 7);
    it.driver.update_exec(exec, copy).unwrap();
    assert_eq!(launch(exec), 7);
    let parent = it.driver.create_graph();
    let child = NewNode::Child(it.driver.graph(graph).unwrap());
    it.driver.add_node(parent, &[], child).unwrap();
    let parent = it.driver.instantiate(parent, 0).unwrap();
    assert_eq!(launch(parent), 7);
    let shape = it.driver.update_exec(exec, it.driver.create_graph());
    assert_eq!(shape, Err(Error::GraphExecUpdateFailure));
    it.driver.add_dependency(graph, sum, first).unwrap();
    assert_eq!(it.driver.instantiate(graph, 0), Err(Error::InvalidValue));
    assert_eq!(it.driver.destroy_graph(1), Err(Error::InvalidValue));
}

/// Each is ended once, when neither the program nor a graph nor what was made of one needs it.
#[test]
fn user_objects_live_as_long_as_what_keeps_them() {
    unsafe extern "C" fn end(count: *mut std::ffi::c_void) {
        // SAFETY: the counter given below, which outlives its object.
        unsafe { &*count.cast::<AtomicU32>() }.fetch_add(1, SeqCst);
    }
    let machine = machine();
    let driver = &machine.driver;
    let ended = AtomicU32::new(0);
    let data = (&raw const ended).expose_provenance();
    let graph = driver.create_graph();
    let object = driver.create_user_object(end, data, 2).unwrap();
    driver.keep_in_graph(graph, object, 1, true).unwrap();
    driver.keep_in_graph(graph, object, 2, false).unwrap();
    driver.release_user_object(object, 1).unwrap();
    // The program has none left, the graph three.
    let gone = Err(Error::InvalidValue);
    assert_eq!(driver.release_user_object(object, 1), gone);
    assert_eq!(driver.give_up_in_graph(graph, object, 4), gone);
    driver.give_up_in_graph(graph, object, 2).unwrap();
    let clone = driver.clone_graph(graph).unwrap();
    let exec = driver.instantiate(clone, 0).unwrap();
    driver.give_up_in_graph(graph, object, 1).unwrap();
    driver.give_up_in_graph(clone, object, 1).unwrap();
    assert_eq!(ended.load(SeqCst), 0, "what was instantiated keeps it");
    driver.destroy_graph(graph).unwrap();
    driver.destroy_graph(clone).unwrap();
    assert_eq!(ended.load(SeqCst), 0);
    driver.destroy_exec(exec).unwrap();
    assert_eq!(ended.load(SeqCst), 1);
}

#[test]
fn nodes_are_found_in_clones_and_child_graphs_by_their_node() {
    let machine = machine();
    let driver = &machine.driver;
    let child = driver.create_graph();
    let inner = driver.add_node(child, &[], NewNode::Empty).unwrap();
    let graph = driver.create_graph();
    let new = NewNode::Child(driver.graph(child).unwrap());
    let node = driver.add_node(graph, &[], new).unwrap();
    let within = driver.child_graph(node).unwrap();
    let copy = driver.find_in_clone(inner, within).unwrap();
    assert_eq!(driver.graph(within).unwrap().nodes(), [copy]);
    assert!(driver.child_graph(copy).is_err() && driver.find_in_clone(node, within).is_err());
    driver.destroy_graph(graph).unwrap();
    assert!(driver.graph(within).is_err(), "it ends with its node");
}
