//! The driver's private tables of functions, which cuGetExportTable hands out to NVIDIA's own libraries.
//! No hook sees a call through them. The agent logs once for each table that it was asked for.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::gate::lock_briefly;
use crate::log::{debug, say};

/// Tables that contain the functions behind cuMemCreate, cuMemMap, cuMemUnmap, cuMemAllocAsync and
/// cuMemFreeAsync in NVIDIA's libcuda 535 to 595.
const ALLOCATING: [u128; 3] = [
    0x5b61_8f5a_1202_6847_81e4_a776_5ac9_f359,
    0x62b9_7de8_236f_f24f_998d_90bd_6014_9318,
    0xa259_cffb_1846_e848_8957_bfc7_2ceb_58b8,
];

static ASKED: Mutex<BTreeSet<u128>> = Mutex::new(BTreeSet::new());

/// The program asked for a table, and got it or not.
pub fn asked(id: [u8; 16], got: bool) {
    let id = u128::from_be_bytes(id);
    if !lock_briefly(&ASKED).insert(id) {
        return;
    }
    if got && ALLOCATING.contains(&id) {
        say(format_args!(
            "this program asked the driver for its private table {id:032x}; memory that it allocates by \
             that is not swapped"
        ));
    } else {
        debug(format_args!(
            "private table {id:032x} asked for, got: {got}"
        ));
    }
}
