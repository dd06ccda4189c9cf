//! Whether a client on the control socket has asked for objects. Most register one task and hang
//! up: no object is made for them, and none for each other task, of which there may be many.

use std::sync::Arc;

use rtswap_dbus::MANAGER;
use tokio::sync::{Notify, watch};
use zbus::Message;

/// Both ends for one connection.
pub(super) fn demand() -> (Asking, Asked) {
    let asked = Arc::new(Notify::new());
    let (serve, served) = watch::channel(false);
    let asking = Asking {
        asked: Arc::clone(&asked),
        served,
    };
    (asking, Asked { asked, serve })
}

/// Where calls come in.
#[derive(Debug)]
pub(super) struct Asking {
    asked: Arc<Notify>,
    served: watch::Receiver<bool>,
}

impl Asking {
    /// Holds a call back until the objects that it may be for are there. `Manager1` needs none.
    pub(super) async fn hold(&mut self, call: &Message) {
        let header = call.header();
        let manager = header.interface().is_some_and(|name| *name == MANAGER);
        drop(header);
        if manager || *self.served.borrow() {
            return;
        }
        self.asked.notify_one();
        // Fails where the connection is attended no more, and then nobody answers.
        let _ = self.served.wait_for(|served| *served).await;
    }
}

/// Where objects are served.
#[derive(Debug)]
pub(super) struct Asked {
    asked: Arc<Notify>,
    serve: watch::Sender<bool>,
}

impl Asked {
    /// Returns once they are asked for.
    pub(super) async fn wait(&self) {
        self.asked.notified().await;
    }

    /// They are there from now on.
    pub(super) fn served(self) {
        self.serve.send_replace(true);
    }
}
