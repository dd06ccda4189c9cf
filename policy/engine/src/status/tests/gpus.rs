//! A GPU with NVML and without.

use std::string::ToString;

use rtswap_policy::units::Bytes;

use super::{GIB, gpu, identity, mib, session, session_id, show, shown};
use crate::sample::Caveat;
use crate::sessions::Sessions;
use crate::status::gpus::{device, notes};

#[test]
fn without_nvml_the_agents_tell_what_is_used() {
    let mut sessions = Sessions::default();
    sessions.insert(session_id(1, 1), session(10, &[Some(100), Some(7)]));
    sessions.insert(session_id(2, 1), session(11, &[Some(30)]));
    let device = device(&gpu(1), 0, &sessions);
    assert_eq!((device.total, device.used), (mib(GIB), mib(130)));
    assert_eq!((&*device.name, device.has_nvml), ("", false));
    assert_eq!(device.utilization, None);
    assert_eq!(device.unmanaged, Bytes::ZERO);
}

#[test]
fn nvml_goes_before_what_agents_tell() {
    let mut sessions = Sessions::default();
    sessions.insert(session_id(1, 1), session(10, &[Some(100)]));
    let mut gpu = gpu(1);
    show(&mut gpu, 1, &[shown(10, 110), shown(11, 300)], &[(10, 110)]);
    let device = device(&gpu, 0, &sessions);
    assert_eq!((device.total, device.used), (mib(GIB), mib(410)));
    assert_eq!((&*device.name, device.has_nvml), ("GPU", true));
    assert_eq!(device.utilization, Some(7));
    assert_eq!(device.unmanaged, mib(300));
}

#[test]
fn what_limits_rtswap_is_noted() {
    let mut gpu = gpu(1);
    assert_eq!(notes(&gpu, false, false), [""; 0]);
    assert_eq!(notes(&gpu, false, true).len(), 1);
    let mut server = shown(12, 30);
    server.identity = Some(identity("nvidia-cuda-mps", None));
    let mut sample = {
        show(&mut gpu, 1, &[server], &[]);
        gpu.account.last().unwrap().clone()
    };
    let noted = notes(&gpu, false, false);
    assert_eq!(noted.len(), 1);
    assert!(
        noted[0].starts_with("a multi-process server (MPS) runs:"),
        "{noted:?}"
    );
    sample.caveat = Some(Caveat::Virtual);
    let (claims, awaited) = Default::default();
    gpu.account
        .reconcile(rtswap_policy::units::Time::ZERO, sample, &claims, &awaited);
    let noted = notes(&gpu, false, false);
    assert_eq!(noted.len(), 2);
    assert_eq!(noted[0], Caveat::Virtual.to_string());
}
