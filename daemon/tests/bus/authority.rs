//! polkit, as the test wants it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use zbus::{Connection, OwnedVariant};

/// What it was asked and how it answers.
#[derive(Clone, Debug)]
pub(crate) struct Authority {
    /// Asked for, with the flags.
    pub(crate) asked: Arc<Mutex<Vec<(String, u32)>>>,
    /// Questions that were taken back.
    pub(crate) cancelled: Arc<Mutex<Vec<String>>>,
    /// Once for each answer, if it waits.
    pub(crate) answer_now: Arc<Notify>,
    manner: Manner,
}

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Yes,
    /// To this action alone.
    To(&'static str),
    No,
    /// Only to who types a password.
    Challenge,
    /// Yes, but not before it is told to.
    Wait,
}

impl Authority {
    /// Takes polkit's name on the bus of `connection`.
    pub(crate) async fn serve(connection: &Connection, manner: Manner) -> Self {
        let authority = Self {
            asked: Arc::default(),
            cancelled: Arc::default(),
            answer_now: Arc::default(),
            manner,
        };
        let server = connection.object_server();
        let path = "/org/freedesktop/PolicyKit1/Authority";
        server.at(path, authority.clone()).await.unwrap();
        connection
            .request_name("org.freedesktop.PolicyKit1")
            .await
            .unwrap();
        authority
    }

    pub(crate) fn asked(&self) -> Vec<(String, u32)> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn cancelled(&self) -> Vec<String> {
        self.cancelled.lock().unwrap().clone()
    }
}

type Answer = (bool, bool, HashMap<String, String>);

#[zbus::interface(name = "org.freedesktop.PolicyKit1.Authority")]
impl Authority {
    async fn check_authorization(
        &self,
        subject: (String, HashMap<String, OwnedVariant>),
        action: String,
        details: HashMap<String, String>,
        flags: u32,
        question: String,
    ) -> (Answer,) {
        assert_eq!((subject.0.as_str(), details.len()), ("system-bus-name", 0));
        let to_this = matches!(self.manner, Manner::To(one) if one == action);
        self.asked.lock().unwrap().push((action, flags));
        if self.manner == Manner::Wait {
            assert!(!question.is_empty(), "it can be taken back");
            self.answer_now.notified().await;
        }
        let yes = to_this || matches!(self.manner, Manner::Yes | Manner::Wait);
        let challenge = self.manner == Manner::Challenge;
        ((yes, challenge, HashMap::new()),)
    }

    fn cancel_check_authorization(&self, question: String) {
        self.cancelled.lock().unwrap().push(question);
    }
}
