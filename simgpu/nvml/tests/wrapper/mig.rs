//! A GPU in MIG mode, and its instances.

use nvml_wrapper::error::NvmlError;
use simgpu_core::config::Config;

use super::stage::{HOLD, MIB, Program, isolated, nvml};
use super::{running, sorted};

const TWO_INSTANCES: [(&str, &str); 2] = [
    ("SIMGPU_MIG_PARENT", "0"),
    ("SIMGPU_NAME", "Test GPU MIG 1g.64mb"),
];

#[test]
fn a_divided_gpu_is_one_and_its_instances_are_found_through_it() {
    isolated(
        "mig::a_divided_gpu_is_one_and_its_instances_are_found_through_it",
        &TWO_INSTANCES,
        || {
            let config = Config::from_env().unwrap().unwrap();
            let nvml = nvml();
            assert_eq!(nvml.device_count().unwrap(), 1);
            let parent = nvml.device_by_index(0).unwrap();
            assert_eq!(parent.name().unwrap(), "Test GPU");
            let uuid = parent.uuid().unwrap();
            assert_eq!(uuid, config.board_text(&config.boards()[0]));
            assert_eq!(parent.mig_mode().unwrap().current, 1);
            assert!(!parent.mig_is_mig_device_handle().unwrap());
            assert_eq!(parent.mig_device_count().unwrap(), 7);
            let absent = |index| parent.mig_device_by_index(index).err();
            assert!(matches!(absent(2), Some(NvmlError::NotFound)));
            assert!(matches!(absent(7), Some(NvmlError::InvalidArg)));
            for index in 0..2 {
                let instance = parent.mig_device_by_index(index).unwrap();
                assert!(instance.mig_is_mig_device_handle().unwrap());
                assert_eq!(instance.name().unwrap(), "Test GPU MIG 1g.64mb");
                let uuid = instance.uuid().unwrap();
                assert_eq!(uuid, config.uuid_text(index as usize));
                assert!(uuid.starts_with("MIG-"), "{uuid}");
                let found = nvml.device_by_uuid(uuid).unwrap();
                assert_eq!(found.index().unwrap(), index);
                let back = instance.mig_parent_device().unwrap();
                assert_eq!(back.uuid().unwrap(), parent.uuid().unwrap());
                assert_eq!(
                    instance.pci_info().unwrap().bus_id,
                    parent.pci_info().unwrap().bus_id
                );
                assert!(matches!(instance.mig_mode(), Err(NvmlError::NotSupported)));
                assert_eq!(instance.mig_device_count().unwrap(), 0);
            }
        },
    );
}

#[test]
fn an_instance_tells_of_itself_and_its_gpu_of_all() {
    isolated(
        "mig::an_instance_tells_of_itself_and_its_gpu_of_all",
        &TWO_INSTANCES,
        || {
            let config = Config::from_env().unwrap().unwrap();
            let nvml = nvml();
            let parent = nvml.device_by_index(0).unwrap();
            let [one, two] = [0, 1].map(|index| parent.mig_device_by_index(index).unwrap());
            let second = config.uuid_text(1);
            let first = Program::start(&[(HOLD, "20")]);
            let second = Program::start(&[(HOLD, "7"), ("CUDA_VISIBLE_DEVICES", &second)]);
            let holds = [(first.pid(), 22 * MIB), (second.pid(), 10 * MIB)];
            assert_eq!(running(&one), [holds[0]]);
            assert_eq!(running(&two), [holds[1]]);
            assert_eq!(running(&parent), sorted(holds));
            let ids: Vec<_> = parent
                .running_compute_processes()
                .unwrap()
                .iter()
                .map(|process| (process.gpu_instance_id, process.compute_instance_id))
                .collect();
            assert_eq!(ids, [(Some(1), Some(0)), (Some(2), Some(0))]);
            for (device, total, used) in [(&one, 64, 22), (&two, 64, 10), (&parent, 128, 32)] {
                let memory = device.memory_info().unwrap();
                assert_eq!((memory.total, memory.used), (total * MIB, used * MIB));
                let rates = device.utilization_rates();
                assert!(matches!(rates, Err(NvmlError::NotSupported)));
                let shares = device.process_utilization_stats(None);
                assert!(matches!(shares, Err(NvmlError::NotSupported)));
            }
        },
    );
}
