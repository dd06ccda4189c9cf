//! Objects on the control socket only for clients that ask for them. Most clients register one task and
//! hang up: serving them an object for each task, of which there may be many, would be wasted.

use std::sync::Arc;

use rtswap_dbus::MANAGER;
use tokio::sync::{Notify, watch};
use zbus::Message;

/// The two ends for one connection: its incoming calls, and the service of its objects.
pub(super) fn demand() -> (Asking, Asked) {
    let asked = Arc::new(Notify::new());
    let (serve, served) = watch::channel(false);
    let asking = Asking {
        asked: Arc::clone(&asked),
        served,
    };
    (asking, Asked { asked, serve })
}

/// The end at the incoming calls.
#[derive(Debug)]
pub(super) struct Asking {
    asked: Arc<Notify>,
    served: watch::Receiver<bool>,
}

impl Asking {
    /// Holds a call back until the objects are served. A call of `Manager1` needs none of them.
    pub(super) async fn hold(&mut self, call: &Message) {
        let header = call.header();
        let manager = header.interface().is_some_and(|name| *name == MANAGER);
        drop(header);
        if manager || *self.served.borrow() {
            return;
        }
        self.asked.notify_one();
        // Fails once the connection is no longer served; then the call gets no answer anyway.
        let _ = self.served.wait_for(|served| *served).await;
    }
}

/// The end at the service of objects.
#[derive(Debug)]
pub(super) struct Asked {
    asked: Arc<Notify>,
    serve: watch::Sender<bool>,
}

impl Asked {
    /// Returns once a call needs objects.
    pub(super) async fn wait(&self) {
        self.asked.notified().await;
    }

    /// Lets the held calls go on: the objects are served now.
    pub(super) fn release(self) {
        self.serve.send_replace(true);
    }
}
