use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse("test.toml", text, &[])
}

#[test]
fn empty_text_is_the_default() {
    assert_eq!(parse("version = 1").unwrap(), Config::default());
}

#[test]
fn chunk_costs_are_the_papers() {
    let gpu = GpuConfig::default();
    let out = gpu.copy_us + gpu.unmap_us + gpu.release_us;
    let into = gpu.copy_us + gpu.create_us + gpu.map_us + gpu.access_us;
    assert!(
        (out - 73.6).abs() < 1e-9 && (into - 79.5).abs() < 1e-9,
        "{out} {into}"
    );
}

#[test]
fn tables_take_the_top_level_as_their_base() {
    let config = parse("memory = '64MiB'\n[[gpus]]\n[[gpus]]\nmemory = 16777216").unwrap();
    assert_eq!(config.gpus[0].memory, Size(64 << 20));
    assert_eq!(config.gpus[1].memory, Size(16 << 20));
    assert_eq!(config.gpus[1].name, GpuConfig::default().name);
}

#[test]
fn environment_overrides_every_gpu() {
    let overrides = [
        ("memory".to_owned(), "32MiB".to_owned()),
        ("gpus".into(), "2".into()),
    ];
    let config = Config::parse("t", "copy_us = 3.0", &overrides).unwrap();
    assert_eq!(config.gpus.len(), 2);
    assert!(
        config
            .gpus
            .iter()
            .all(|gpu| gpu.memory == Size(32 << 20) && (gpu.copy_us - 3.0).abs() < 1e-9)
    );
}

#[test]
fn unknown_key_is_refused_with_file_line_and_what_is_right() {
    let error = parse("version = 1\nmemroy = '1GiB'")
        .unwrap_err()
        .to_string();
    for part in ["test.toml", "line 2", "memroy", "`memory`"] {
        assert!(error.contains(part), "{part} is missing in {error}");
    }
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn bad_values_are_refused() {
    for text in [
        "version = 2",
        "gpus = 0",
        "gpus = 9",
        "memory = '3MB'",
        "memory = '3MiB'",
        "copy_us = -1.0",
        "copy_start_us = -1.0",
        "copy_start_us = inf",
        "duplex = 0.0",
        "duplex = 1.01",
        "duplex = nan",
        "duplex = 'half'",
        "h2d_gib_per_s = 0.0",
        "compute_gib_per_s = nan",
        "context_bytes = '1GiB'",
        "mig_parent = 8",
        "cuda_version = 11080",
        "foreign_kernels = 'run'",
    ] {
        assert!(parse(text).is_err(), "{text} was taken");
    }
}

#[test]
fn a_version_and_foreign_kernels_are_of_the_whole_machine() {
    let overrides = [("foreign_kernels".to_owned(), "ignore".to_owned())];
    let config = Config::parse("t", "gpus = 2\ncuda_version = 13000", &overrides).unwrap();
    assert_eq!(config.cuda_version, 13_000);
    assert_eq!(config.foreign_kernels, ForeignKernels::Ignore);
    assert_eq!(Config::from_canonical(&config.canonical()), Some(config));
    let silent = Config::default().canonical();
    assert!(
        !silent.contains("cuda_version") && !silent.contains("foreign"),
        "{silent}"
    );
}

#[test]
fn a_link_that_is_shared_is_of_one_gpu_and_in_the_canonical_text() {
    let text = "[[gpus]]\nduplex = 0.9\ncopy_start_us = 40.0\n[[gpus]]";
    let config = parse(text).unwrap();
    let [shared, plain] = [0, 1].map(|gpu| config.gpus[gpu].clone());
    assert!((shared.duplex - 0.9).abs() < 1e-9 && (shared.copy_start_us - 40.0).abs() < 1e-9);
    assert_eq!(plain, GpuConfig::default());
    assert_eq!(Config::from_canonical(&config.canonical()), Some(config));
    let silent = Config::default().canonical();
    assert!(
        !silent.contains("duplex") && !silent.contains("start"),
        "{silent}"
    );
}

#[test]
fn canonical_text_reads_back_and_uuids_differ() {
    let config = parse("gpus = 2\nname = 'a \"b\"'").unwrap();
    assert_eq!(
        Config::from_canonical(&config.canonical()),
        Some(config.clone())
    );
    let none = Config {
        gpus: Vec::new(),
        ..config.clone()
    };
    assert_eq!(Config::from_canonical(&none.canonical()), None);
    assert_ne!(config.uuid(0), config.uuid(1));
    assert_ne!(config.uuid(0), Config::default().uuid(0));
}

#[test]
fn the_packaged_example_describes_the_default_gpu() {
    let example = include_str!("../../../../packaging/simgpu/rtswapd.toml");
    let number = u128::from_be_bytes(Config::default().uuid(0));
    let example: String = example.chars().filter(|&letter| letter != '-').collect();
    let uuid = format!("uuid = \"GPU{number:032x}\"");
    assert!(example.contains(&uuid), "no {uuid} in it");
}
